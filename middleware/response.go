package middleware

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"gatehouse.example/internal/abilities"
	"gatehouse.example/message"
)

// response is the ResponseWriter of the handler. It binds the session id and the event ids that
// the handler issues, and removes items from lists that the policy hides.
type response struct {
	http.ResponseWriter
	guard   *Guard
	request *http.Request
	got     received
	token   *Token
	stop    context.CancelFunc // ends the context of the handler
	lists   bool               // whether the response may contain a list
	watches bool               // whether it has one only if the server confuses two requests of a session
	strict  bool               // whether a response in an unknown form is withheld
	opens   bool               // whether the response may be a stream that ends with the token
	began   bool               // whether the handler wrote the header
	body    rewrite            // nil for a response that is forwarded as it is
	able    abilities.Writer
}

// rewrite changes the body of a response.
type rewrite interface {
	// Write implements io.Writer for the handler.
	Write(p []byte) (int, error)
	// flush flushes the bytes that can be forwarded.
	flush() error
	// finish writes the rest.
	finish()
}

// answer returns the ResponseWriter for the handler of a request. stop ends the context of the
// request.
func (g *Guard) answer(w http.ResponseWriter, r *http.Request, got received, token *Token, stop context.CancelFunc) *response {
	out := &response{
		ResponseWriter: w, guard: g, request: r, got: got, token: token, stop: stop,
		lists: g.mayList(r, got), opens: g.ends && token != nil && r.Method == http.MethodGet,
	}
	out.watches = !out.lists && g.mayCross(r)
	out.strict = out.lists && (got.Method != "" || opensStream(r))
	if out.lists || out.watches || out.readsStreams() && mayGetStream(r) {
		r.Header.Del("Accept-Encoding") // the guard reads the response
	}
	if out.lists {
		r.Header.Del("Range") // the guard needs the whole response
		r.Header.Del("If-Range")
	}
	return out
}

// readsStreams reports whether the guard reads streams of events.
func (o *response) readsStreams() bool { return o.lists || o.watches || o.guard.marksEvents() }

func acceptsStream(r *http.Request) bool { return strings.Contains(accepted(r), streamType) }

func accepted(r *http.Request) string { return strings.ToLower(strings.Join(r.Header["Accept"], ",")) }

// mayGetStream reports whether a server could answer a request with a stream (RFC 9110 section
// 12.5.1: a request without Accept accepts any media type).
func mayGetStream(r *http.Request) bool {
	accepts := accepted(r)
	return r.Method == http.MethodGet || accepts == "" || acceptsStream(r) || strings.Contains(accepts, "*/*") || strings.Contains(accepts, "text/*")
}

// opensStream reports whether a request without a message has a header of the protocol: some
// clients read any response to it as a stream.
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

// rewriting returns the rewrite for the body of a response, nil for one that stays as it is.
func (o *response) rewriting(status int) rewrite {
	media, events := mediaOf(o.Header()), false
	switch {
	case status == http.StatusNoContent, status == http.StatusNotModified, o.request.Method == http.MethodHead:
		return nil
	case media == streamType && o.readsStreams():
		events = true
	case !o.strict && !((o.lists || o.watches) && isJSON(media)):
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

// mediaOf returns the media type of a response, or the empty string if there is not exactly one.
func mediaOf(header http.Header) string {
	values := header["Content-Type"]
	if len(values) != 1 {
		return ""
	}
	media, _, _ := mime.ParseMediaType(values[0]) // some clients ignore the parameters
	return media
}

func isJSON(media string) bool { return media == jsonType || strings.HasSuffix(media, "+json") }

// bodyHeaders are the headers that describe the bytes of a body.
var bodyHeaders = [...]string{"Content-Length", "Content-Encoding", "Content-Range", "Accept-Ranges", "Content-Digest", "Repr-Digest", "Digest", "Content-Md5", "Etag", "Last-Modified"}

// dropBodyHeaders removes the headers that describe a body which was changed.
func dropBodyHeaders(header http.Header) {
	for _, name := range bodyHeaders {
		header.Del(name)
	}
}

// errWithheld is the text for the client in place of a response that is withheld.
const errWithheld = "The server's answer could not be read, so it was not passed on."

// withhold sends an error in place of the handler's response, of which nothing was sent yet. It
// keeps a status of failure, because clients start a new session on some of them.
func (o *response) withhold(status int, why error) {
	o.warn(why)
	dropBodyHeaders(o.Header())
	switch {
	case status >= http.StatusBadRequest && !o.got.id.IsZero():
		writeJSON(o.ResponseWriter, status, json.RawMessage(answerTo(o.got.id, errWithheld)))
	case status >= http.StatusBadRequest:
		writeJSON(o.ResponseWriter, status, problem{Description: errWithheld})
	case status >= http.StatusMultipleChoices:
		o.Header().Del("Content-Type")
		o.ResponseWriter.WriteHeader(status)
	default:
		challenge{status: http.StatusBadGateway, description: errWithheld, body: answerTo(o.got.id, errWithheld)}.write(o.ResponseWriter, o.guard.metaURL, o.guard.dpop)
	}
	_ = http.NewResponseController(o.ResponseWriter).Flush() // without support, it is sent later
}

// answerTo returns an encoded error response to a request, nil for a zero id.
func answerTo(id message.ID, text string) []byte {
	if id.IsZero() {
		return nil
	}
	body, _ := message.Encode(message.ErrorResponse{ID: id, Error: message.Error{Code: message.CodeInternalError, Message: text}}) // cannot fail for a decoded id
	return body
}

func (o *response) warn(why error) {
	o.guard.log.WarnContext(o.request.Context(), "an answer was not passed on", "method", o.got.Method, "error", why)
}

// withheld discards the rest of a response that is withheld.
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

// finish ends the response.
func (o *response) finish() {
	if !o.began {
		o.guard.bindSession(o.Header(), o.token) // net/http sends the header after the handler
	}
	if o.body != nil {
		o.body.finish()
	}
}
