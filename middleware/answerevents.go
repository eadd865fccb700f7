package middleware

import (
	"bytes"
	"fmt"
	"io"
)

// events is a stream of events whose messages may be changed. An event goes on when it is
// complete; one that is too long for an error goes on as it comes.
type events struct {
	to     io.Writer
	change func([]byte) []byte
	lines  eventLines
	line   []byte       // the beginning of a line
	broken bool         // whether the beginning of the line has gone on already
	long   bool         // whether the event goes on as it comes
	event  bytes.Buffer // the lines of the event so far
	out    bytes.Buffer // what goes on next
}

// Write implements io.Writer.
func (e *events) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		var part []byte
		var ends bool
		part, ends, rest = e.lines.next(rest)
		if e.line = append(e.line, part...); ends {
			e.endLine()
		} else if e.event.Len()+len(e.line) > maxFailure {
			e.pass()
		}
	}
	if err := e.send(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// endLine adds a line to the event, which goes on after its last one.
func (e *events) endLine() {
	line := e.line
	if !e.broken {
		line = e.lines.text(line)
	}
	ends := !e.broken && len(line) == 0
	e.event.Write(line)
	e.event.WriteByte('\n')
	e.line, e.broken = e.line[:0], false
	switch e.long = e.long || e.event.Len() > maxFailure; {
	case e.long:
		e.pass()
		e.long = !ends
	case ends:
		e.out.Write(e.changed())
		e.event.Reset()
	}
}

// pass lets go of what there is of an event.
func (e *events) pass() {
	line := e.line
	if !e.broken && len(line) > 0 {
		line = e.lines.text(line)
	}
	e.long, e.broken = true, e.broken || len(line) > 0
	e.event.Write(line)
	e.out.Write(e.event.Bytes())
	e.event.Reset()
	e.line = e.line[:0]
}

// changed is the event with its message as the client may see it. Other fields stay.
func (e *events) changed() []byte {
	var data [][]byte
	var others bytes.Buffer
	for line := range bytes.Lines(e.event.Bytes()) {
		if name, value := fieldOf(bytes.TrimSuffix(line, []byte("\n"))); string(name) == "data" {
			data = append(data, value)
		} else if len(line) > 1 {
			others.Write(line)
		}
	}
	joined := bytes.Join(data, []byte("\n"))
	out := e.change(joined)
	if bytes.Equal(out, joined) {
		return e.event.Bytes()
	}
	fmt.Fprintf(&others, "data: %s\n\n", out)
	return others.Bytes()
}

// send writes what may go on.
func (e *events) send() error {
	if e.out.Len() == 0 {
		return nil
	}
	defer e.out.Reset()
	_, err := e.to.Write(e.out.Bytes())
	return err
}

// finish lets go of an event that was not completed.
func (e *events) finish() {
	e.pass()
	_ = e.send() // fails only when the client is gone
}
