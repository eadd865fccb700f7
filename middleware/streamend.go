package middleware

import (
	"errors"
	"fmt"
	"net/http"

	"gatehouse.example/message"
)

// fail ends a stream with an error for the client, so that it does not wait for a response that
// will not come.
func (s *eventStream) fail(why error) {
	s.over = true
	defer s.stop()
	old := errors.Is(why, errOldTransport)
	switch {
	case s.started:
		s.warn(why)
		s.writeFailure(why, old)
	case old:
		s.warn(why)
		dropBodyHeaders(s.Header())
		writeJSON(s.response.ResponseWriter, http.StatusNotImplemented, problem{Description: oldTransport})
	default:
		s.withhold(s.status, why)
	}
	_ = http.NewResponseController(s.response.ResponseWriter).Flush() // without support, it is sent later
}

// failLate ends a stream in an event of which a part was sent.
func (s *eventStream) failLate() {
	s.out.WriteString("\n\n")
	s.fail(unreadable{err: errLateList})
}

// writeFailure writes the event that ends a stream. It has the event id of the event that it
// replaces, so that a resumed stream continues after that.
func (s *eventStream) writeFailure(why error, old bool) {
	id, text := s.got.id, errWithheld
	if known := (unreadable{}); id.IsZero() && errors.As(why, &known) {
		id = known.id
	}
	if old {
		text = oldTransport
	}
	body, _ := message.Encode(message.ErrorResponse{ID: id, Unread: id.IsZero(), Error: message.Error{Code: message.CodeInternalError, Message: text}}) // cannot fail for a decoded id
	if len(s.id) > 0 {
		fmt.Fprintf(&s.out, "%s\n", s.id)
	}
	fmt.Fprintf(&s.out, "data: %s\n\n", body)
	_ = s.send() // fails only when the client is gone
}

// finish sends the rest of the stream. It drops an incomplete event when the context of the
// request has ended.
func (s *eventStream) finish() {
	if s.over {
		return
	}
	ended := s.request.Context().Err() != nil
	if !ended && (len(s.line) > 0 || s.through) {
		s.endLine()
	}
	switch {
	case s.over || ended:
	case !s.holds():
		s.sendData()
	case s.hasData:
		s.fail(unreadable{err: errUnfinished})
	}
	if !s.over {
		s.start()
		_ = s.send() // fails only when the client is gone
	}
}
