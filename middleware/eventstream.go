package middleware

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// maxLine is the maximum size of a line that has to be buffered, in bytes.
const maxLine = 64 << 10

var (
	errOldTransport = errors.New("middleware: the server uses HTTP with SSE of revision 2024-11-05, whose sessions cannot be bound to a caller")
	errLongLine     = fmt.Errorf("middleware: a line of the stream other than data has more than %d bytes", maxLine)
	errUnfinished   = errors.New("middleware: the stream ended in the middle of an event")
)

// oldTransport is the description of errOldTransport for the client.
const oldTransport = "This server answers in HTTP with SSE of protocol revision 2024-11-05, which is not supported here: its sessions cannot be bound to a person. Use Streamable HTTP."

// eventStream is a response that is a stream of events (HTML standard, section 9.2.6). It
// rewrites the stream line by line, so that all clients read the same lines. It binds the ids
// of events to the caller, and where lists are filtered, forwards an event when it is complete.
type eventStream struct {
	*response
	status  int
	started bool // whether the header was sent
	over    bool // whether fail ended the stream
	lines   eventLines
	through bool // whether the rest of the line is forwarded as it comes
	line    []byte
	out     bytes.Buffer // to be written next
	event
}

// event is an incomplete event.
type event struct {
	name    string
	id      []byte       // the line of the id, empty without one
	any     bool         // whether it has a field
	whole   bytes.Buffer // its lines
	others  bytes.Buffer // its lines except for data
	data    bytes.Buffer
	hasData bool
	watch   listWatch
	passed  bool // whether a part of its data was sent
}

// newEventStream begins a stream. Only the first event shows whether a stream belongs to the old
// transport, so for a request that may open one, the header is sent with the first event.
func newEventStream(o *response, status int) *eventStream {
	s := &eventStream{response: o, status: status}
	if !o.mayBeOld() {
		s.start()
	}
	return s
}

// mayBeOld reports whether a request could open a stream of the old transport: clients of newer
// ones send a session id or their revision.
func (o *response) mayBeOld() bool {
	return o.guard.sessions != nil && o.request.Method == http.MethodGet &&
		len(o.request.Header[sessionHeader]) == 0 && len(o.request.Header[versionHeader]) == 0
}

// start sends the header, once.
func (s *eventStream) start() {
	if s.started {
		return
	}
	s.started = true
	s.Header().Del("Content-Length")
	s.response.ResponseWriter.WriteHeader(s.status)
	if s.opens && s.status == http.StatusOK {
		s.prime()
	}
}

// Write implements io.Writer for the handler.
func (s *eventStream) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && !s.over; {
		rest = s.next(rest)
	}
	if err := s.send(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// next processes p up to the end of a line, and returns the rest.
func (s *eventStream) next(p []byte) []byte {
	part, ends, rest := s.lines.next(p)
	if s.keep(part); ends && !s.over {
		s.endLine()
	}
	return rest
}

// keep processes a part of a line. Lines of data have no maximum size unless lists are filtered.
func (s *eventStream) keep(part []byte) {
	if s.through {
		if s.watches && s.watch.scan(s.guard, part) {
			s.failLate()
			return
		}
		s.out.Write(part)
		return
	}
	if s.line = append(s.line, part...); len(s.line) >= len("\ufeff") {
		s.line = s.lines.text(s.line)
	}
	switch {
	case s.holds() && s.whole.Len()+len(s.line) > maxList:
		s.fail(unreadable{err: errListTooLarge})
	case s.holds() || len(s.line) <= maxLine:
	case !bytes.HasPrefix(s.line, []byte("data:")):
		s.fail(unreadable{err: errLongLine})
	default:
		s.pass(s.line[len("data:"):])
	}
}

// holds reports whether the event is forwarded when it is complete.
func (s *eventStream) holds() bool { return s.lists || s.watch.found }

// pass forwards the beginning of a long line of data, and from then on the event as it comes, unless a
// list was found in it.
func (s *eventStream) pass(data []byte) {
	if s.watches && s.watch.scan(s.guard, data) {
		if s.passed {
			s.failLate()
		}
		return
	}
	s.start()
	s.sendData()
	s.out.Write(s.line)
	s.line, s.through, s.any = nil, true, true
}

// sendData forwards the lines of data that were kept.
func (s *eventStream) sendData() {
	s.out.Write(s.whole.Bytes())
	s.whole.Reset()
	s.data.Reset()
	s.passed = true
}

// endLine processes the end of a line.
func (s *eventStream) endLine() {
	if s.through {
		s.through = false
		s.out.WriteByte('\n')
		return
	}
	line := s.lines.text(s.line)
	s.line = s.line[:0]
	if len(line) > 0 {
		s.field(line)
		return
	}
	if s.endEvent(); s.over {
		return
	}
	if s.any || s.out.Len() > maxLine { // the first event is another one, or there are only comments
		s.start()
	}
	s.event = event{}
}

// field processes a line that is not empty.
func (s *eventStream) field(line []byte) {
	name, value := fieldOf(line)
	s.any = s.any || len(name) > 0
	switch string(name) {
	case "event":
		s.name = strings.TrimSpace(string(value))
		if s.guard.sessions != nil && strings.EqualFold(s.name, "endpoint") {
			s.fail(unreadable{err: errOldTransport})
			return
		}
	case "id":
		line = s.bindEvent(line, value)
		s.id = line
	case "data":
		if s.lists || s.watches {
			s.addData(line, value)
			return
		}
	}
	s.emit(line)
}

func (s *eventStream) addData(line, value []byte) {
	if s.watches && s.watch.scan(s.guard, value) && s.passed {
		s.failLate()
		return
	}
	if s.hasData {
		s.data.WriteByte('\n')
	}
	s.hasData = true
	s.data.Write(value)
	s.whole.Write(line)
	s.whole.WriteByte('\n')
	if !s.holds() && s.whole.Len() > maxLine {
		s.sendData()
	}
}

// emit forwards a line, or adds it to its event if the event is filtered as a whole.
func (s *eventStream) emit(line []byte) {
	to := &s.out
	if s.lists {
		to = &s.whole
		s.others.Write(line)
		s.others.WriteByte('\n')
	}
	to.Write(line)
	to.WriteByte('\n')
}

// endEvent forwards an event. It fails the stream for a message that cannot be read, because
// the message could contain items that the policy hides.
func (s *eventStream) endEvent() {
	if !s.holds() || len(bytes.TrimSpace(s.data.Bytes())) == 0 || s.isNoMessage() && isPlain(s.data.Bytes()) {
		s.out.Write(s.whole.Bytes())
		s.out.WriteByte('\n')
		return
	}
	out, err := (lister{s.guard, s.token, s.got}).message(s.data.Bytes())
	switch {
	case err != nil && s.isNoMessage():
		s.warn(err) // dropped: no request waits for it
	case err != nil:
		s.fail(err)
	case bytes.Equal(out, s.data.Bytes()):
		s.out.Write(s.whole.Bytes())
		s.out.WriteByte('\n')
	default:
		s.out.Write(s.others.Bytes())
		fmt.Fprintf(&s.out, "data: %s\n\n", out)
	}
}

// isNoMessage reports whether the event type is another one than that of messages.
func (s *eventStream) isNoMessage() bool { return s.name != "" && s.name != "message" }

// send writes the forwarded bytes.
func (s *eventStream) send() error {
	if !s.started || s.out.Len() == 0 {
		return nil
	}
	defer s.out.Reset()
	_, err := s.response.ResponseWriter.Write(s.out.Bytes())
	return err
}

func (s *eventStream) flush() error {
	if !s.started {
		return nil // nothing was sent yet
	}
	return http.NewResponseController(s.response.ResponseWriter).Flush()
}
