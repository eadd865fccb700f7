package middleware

import (
	"errors"
	"fmt"
	"net/http"

	"gatehouse.example/message"
)

// fail ends a stream with an error that the client can see: whoever waits for an answer hears
// that none will come.
func (s *eventStream) fail(why error) {
	s.over = true
	defer s.stop()
	old := errors.Is(why, errOldTransport)
	switch {
	case s.started:
		s.warn(why)
		s.sayLost(why, old)
	case old:
		s.warn(why)
		s.undescribe()
		writeJSON(s.response.ResponseWriter, http.StatusNotImplemented, problem{Description: oldTransport})
	default:
		s.withhold(s.status, why)
	}
	_ = http.NewResponseController(s.response.ResponseWriter).Flush() // not supported: it goes out later
}

// sayLost writes the event that ends a stream. It has the id of the one that it stands for,
// so that a stream which is opened again goes on behind that.
func (s *eventStream) sayLost(why error, old bool) {
	id, text := s.got.id, errWithheld
	if known := (unreadable{}); id.IsZero() && errors.As(why, &known) {
		id = known.id
	}
	if old {
		text = oldTransport
	}
	body, _ := message.Encode(message.ErrorResponse{ID: id, Unread: id.IsZero(), Error: message.Error{Code: message.CodeInternalError, Message: text}}) // it can be written
	if len(s.id) > 0 {
		fmt.Fprintf(&s.out, "%s\n", s.id)
	}
	fmt.Fprintf(&s.out, "data: %s\n\n", body)
	_ = s.send() // fails only when the client is gone
}

// finish sends what is left. An event that has begun when the time of the stream is over is of
// no use to anybody.
func (s *eventStream) finish() {
	if s.over {
		return
	}
	if s.request.Context().Err() == nil && (len(s.line) > 0 || s.through) {
		s.endLine()
	}
	if s.lists && s.hasData && !s.over && s.request.Context().Err() == nil {
		s.fail(unreadable{err: errUnfinished})
	}
	if !s.over {
		s.start()
		_ = s.send() // fails only when the client is gone
	}
}
