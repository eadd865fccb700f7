package middleware

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"gatehouse.example/message"
)

// response is what the handler writes to: it binds the session id and the ids of events that
// the handler gives out, and leaves out of lists what the policy hides.
type response struct {
	http.ResponseWriter
	guard   *Guard
	request *http.Request
	got     received
	token   *Token
	stop    context.CancelFunc // ends the context of the handler
	lists   bool               // whether the answer may hold a list
	strict  bool               // whether what is in no known form is not passed on
	opens   bool               // whether the answer may be a stream that ends with the token
	began   bool               // whether the handler wrote the header
	body    rewrite            // nil for an answer that goes through as it is
}

// rewrite is a body that is changed on its way.
type rewrite interface {
	// Write takes what the handler writes.
	Write(p []byte) (int, error)
	// flush sends on what may go on.
	flush() error
	// finish writes what is left.
	finish()
}

// answer returns the writer for the handler of one request, whose context stop ends.
func (g *Guard) answer(w http.ResponseWriter, r *http.Request, got received, token *Token, stop context.CancelFunc) *response {
	out := &response{
		ResponseWriter: w, guard: g, request: r, got: got, token: token, stop: stop,
		lists: g.mayList(r, got), opens: g.ends && token != nil && r.Method == http.MethodGet,
	}
	out.strict = out.lists && (got.Method != "" || opensStream(r))
	if out.lists || out.readsStreams() && mayGetStream(r) {
		r.Header.Del("Accept-Encoding") // the answer is read here
	}
	if out.lists {
		r.Header.Del("Range") // as a whole
		r.Header.Del("If-Range")
	}
	return out
}

// readsStreams reports whether streams of events are looked into.
func (o *response) readsStreams() bool { return o.lists || o.opens || o.guard.sessions != nil }

func acceptsStream(r *http.Request) bool { return strings.Contains(accepted(r), streamType) }

func accepted(r *http.Request) string { return strings.ToLower(strings.Join(r.Header["Accept"], ",")) }

// mayGetStream reports whether a server could answer a request with a stream (RFC 9110 section
// 12.5.1: without Accept, anything).
func mayGetStream(r *http.Request) bool {
	accepts := accepted(r)
	return r.Method == http.MethodGet || accepts == "" || acceptsStream(r) || strings.Contains(accepts, "*/*") || strings.Contains(accepts, "text/*")
}

// opensStream reports whether a request without a message has a sign of the protocol: some
// clients read whatever answers it as a stream.
func opensStream(r *http.Request) bool {
	for _, name := range [...]string{sessionHeader, versionHeader, lastEvent} {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	return acceptsStream(r)
}

// WriteHeader implements http.ResponseWriter.
func (o *response) WriteHeader(status int) {
	if status < http.StatusOK || o.began && o.body == nil {
		o.ResponseWriter.WriteHeader(status)
		return
	}
	if o.began {
		return
	}
	o.began = true
	o.guard.bindSession(o.Header(), o.token)
	if o.body = o.rewriting(status); o.body == nil {
		o.ResponseWriter.WriteHeader(status)
	}
}

const (
	jsonType   = "application/json"
	streamType = "text/event-stream"
)

// rewriting returns what changes the body of an answer, nil for one that stays as it is.
func (o *response) rewriting(status int) rewrite {
	media, events := mediaOf(o.Header()), false
	switch {
	case status == http.StatusNoContent, status == http.StatusNotModified, o.request.Method == http.MethodHead:
		return nil
	case media == streamType && o.readsStreams():
		events = true
	case !o.strict && !(o.lists && isJSON(media)):
		return nil
	}
	if encoding := strings.Join(o.Header()["Content-Encoding"], ","); encoding != "" && !strings.EqualFold(encoding, "identity") {
		o.withhold(status, fmt.Errorf("middleware: an answer in the encoding %.50q, which was not asked for", encoding))
		return withheld{}
	}
	if events {
		return newEventStream(o, status)
	}
	return &wholeAnswer{response: o, status: status, media: media}
}

// mediaOf returns the media type of an answer, the empty string when readers could differ.
func mediaOf(header http.Header) string {
	values := header["Content-Type"]
	if len(values) != 1 {
		return ""
	}
	media, _, _ := mime.ParseMediaType(values[0]) // some clients look no further than the type
	return media
}

func isJSON(media string) bool { return media == jsonType || strings.HasSuffix(media, "+json") }

// describing are the headers that are about the bytes of a body which was changed.
var describing = [...]string{"Content-Length", "Content-Encoding", "Content-Range", "Accept-Ranges", "Content-Digest", "Repr-Digest", "Digest", "Content-Md5", "Etag", "Last-Modified"}

func (o *response) undescribe() { undescribe(o.Header()) }

func undescribe(header http.Header) {
	for _, name := range describing {
		header.Del(name)
	}
}

// errWithheld is what a client hears of an answer that is not passed on.
const errWithheld = "The server's answer could not be read, so it was not passed on."

// withhold answers in place of the handler, before anything of its answer went out. What the
// status says stays, if it is that something went wrong: clients begin a session anew by it.
func (o *response) withhold(status int, why error) {
	o.warn(why)
	o.undescribe()
	switch {
	case status >= http.StatusBadRequest && !o.got.id.IsZero():
		writeJSON(o.ResponseWriter, status, json.RawMessage(answerTo(o.got.id, errWithheld)))
	case status >= http.StatusBadRequest:
		writeJSON(o.ResponseWriter, status, problem{Description: errWithheld})
	case status >= http.StatusMultipleChoices:
		o.Header().Del("Content-Type")
		o.ResponseWriter.WriteHeader(status)
	default:
		challenge{status: http.StatusBadGateway, description: errWithheld, body: answerTo(o.got.id, errWithheld)}.write(o.ResponseWriter, o.guard.metaURL)
	}
	_ = http.NewResponseController(o.ResponseWriter).Flush() // not supported: it goes out later
}

// answerTo is the message that says of a request that its answer is lost, nil without one.
func answerTo(id message.ID, text string) []byte {
	if id.IsZero() {
		return nil
	}
	body, _ := message.Encode(message.ErrorResponse{ID: id, Error: message.Error{Code: message.CodeInternalError, Message: text}}) // it can be written
	return body
}

func (o *response) warn(why error) {
	o.guard.log.WarnContext(o.request.Context(), "an answer was not passed on", "method", o.got.Method, "error", why)
}

// withheld is what is left of an answer that is not passed on.
type withheld struct{}

// Write implements io.Writer.
func (withheld) Write(p []byte) (int, error) { return len(p), nil }

func (withheld) flush() error { return nil }

func (withheld) finish() {}

// Write implements io.Writer.
func (o *response) Write(p []byte) (int, error) {
	if !o.began {
		o.WriteHeader(http.StatusOK)
	}
	if o.body != nil {
		return o.body.Write(p)
	}
	return o.ResponseWriter.Write(p)
}

// FlushError implements the interface of http.ResponseController.
func (o *response) FlushError() error {
	if !o.began {
		o.WriteHeader(http.StatusOK)
	}
	if o.body != nil {
		return o.body.flush()
	}
	return http.NewResponseController(o.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (o *response) Flush() { _ = o.FlushError() } // as http.Flusher has it

// Unwrap lets http.ResponseController reach deadlines.
func (o *response) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// finish ends the answer.
func (o *response) finish() {
	if !o.began {
		o.guard.bindSession(o.Header(), o.token) // the header goes out when the handler returns
	}
	if o.body != nil {
		o.body.finish()
	}
}
