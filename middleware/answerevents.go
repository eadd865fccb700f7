package middleware

import (
	"bytes"
	"errors"
	"io"
)

// events is a stream of events (HTML standard, section 9.2.6) whose messages may be changed.
// An event goes on when it is complete; one that is too long for an error goes on as it comes.
type events struct {
	to     io.Writer
	change func([]byte) []byte
	event  bytes.Buffer // the lines of the event so far, each with its end
	line   []byte       // the beginning of a line
	long   bool         // whether the event goes on as it comes
	broken bool         // whether the beginning of the line has gone on already
}

// Write implements io.Writer.
func (e *events) Write(p []byte) (int, error) {
	var err error
	for line := range bytes.Lines(p) {
		if e.line = append(e.line, line...); bytes.HasSuffix(line, []byte("\n")) {
			err = errors.Join(err, e.take())
		} else if e.event.Len()+len(e.line) > maxFailure || bytes.Contains(e.line[:len(e.line)-1], []byte("\r")) { // lines may end so, too
			err = errors.Join(err, e.pass())
		}
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// take adds a complete line to the event, and sends the event on after its last one.
func (e *events) take() error {
	ends := !e.broken && len(bytes.TrimRight(e.line, "\r\n")) == 0
	e.event.Write(e.line)
	e.line, e.broken = e.line[:0], false
	e.long = e.long || e.event.Len() > maxFailure
	if !ends && !e.long {
		return nil
	}
	defer e.event.Reset()
	text := e.event.Bytes()
	if ends && !e.long {
		text = e.changed()
	}
	e.long = e.long && !ends
	_, err := e.to.Write(text)
	return err
}

// pass lets go of what there is of an event.
func (e *events) pass() error {
	e.event.Write(e.line)
	e.long, e.broken = true, len(e.line) > 0
	defer e.event.Reset()
	e.line = e.line[:0]
	_, err := e.to.Write(e.event.Bytes())
	return err
}

// changed is the event with its message as the client may see it. Other fields stay.
func (e *events) changed() []byte {
	var data [][]byte
	var others bytes.Buffer
	for line := range bytes.Lines(e.event.Bytes()) {
		field := bytes.TrimRight(line, "\r\n")
		if value, ok := bytes.CutPrefix(field, []byte("data:")); ok {
			data = append(data, bytes.TrimPrefix(value, []byte(" ")))
		} else if len(field) > 0 {
			others.Write(line)
		}
	}
	joined := bytes.Join(data, []byte("\n"))
	out := e.change(joined)
	if bytes.Equal(out, joined) {
		return e.event.Bytes()
	}
	return bytes.Join([][]byte{others.Bytes(), []byte("data: "), out, []byte("\n\n")}, nil)
}

// finish lets go of an event that was not completed.
func (e *events) finish() { _ = e.pass() } // fails only when the client is gone
