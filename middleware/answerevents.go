package middleware

import (
	"bytes"
	"fmt"
	"io"
)

// events writes a stream of events, and applies change to the message of each. It forwards an
// event when the event is complete, and the parts of an event that is too long for an error at
// once.
type events struct {
	to     io.Writer
	change func([]byte) []byte
	lines  eventLines
	line   []byte       // the beginning of a line
	broken bool         // whether the beginning of the line was forwarded already
	long   bool         // whether the parts of the event are forwarded at once
	event  bytes.Buffer // the lines of the event so far
	out    bytes.Buffer // to be written next
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

// endLine adds a line to the event, and forwards the event after its last line.
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

// pass forwards the part of an event that has arrived.
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

// changed returns the event with the changed message. Other fields stay as they are.
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

// send writes the forwarded bytes.
func (e *events) send() error {
	if e.out.Len() == 0 {
		return nil
	}
	defer e.out.Reset()
	_, err := e.to.Write(e.out.Bytes())
	return err
}

// finish forwards an incomplete event.
func (e *events) finish() {
	e.pass()
	_ = e.send() // fails only when the client is gone
}
