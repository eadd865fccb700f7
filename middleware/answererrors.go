package middleware

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"

	"gatehouse.example/internal/abilities"
	"gatehouse.example/message"
)

// maxFailure is the number of bytes of a response that are searched for an error. A longer
// response with a status of success is passed on as it is.
const maxFailure = 64 << 10

// AnswerErrors returns a handler that calls next, and gives every failed request of the protocol
// a JSON-RPC error response with the id of the request (JSON-RPC 2.0, section 5). Put it around
// the handler of an SDK, behind [Guard.Protect], if some failures come back as plain text,
// without the id or with the code 0: clients cannot match such a response to a request, and
// some end the session.
//
//	mux.Handle("/mcp", guard.Protect(middleware.AnswerErrors(notes)))
//
// The text of a failed response becomes the message of the error; a JSON object becomes its
// data. The code 0 becomes that of an internal error. The status does not change, so that 404
// still ends a session, with one exception: before revision 2026-07-28, the status for an
// unknown method is 200, because clients of those revisions read errors with no other status.
// The answers to notifications, to responses and to requests without a body do not change,
// because these have no id.
func AnswerErrors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &failures{ResponseWriter: w, request: r}
		if r.Method == http.MethodPost && r.Body != nil {
			out.sent, _ = io.ReadAll(io.LimitReader(r.Body, defaultMaxBody+1)) // next gets the same error from Read
			body := r.Body
			r = r.WithContext(r.Context()) // a handler must not change the request of its caller
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(bytes.NewReader(out.sent), body), body}
		}
		next.ServeHTTP(out.able.Around(out, w, true), r)
		out.finish()
	})
}

// failures is the ResponseWriter of the handler.
type failures struct {
	http.ResponseWriter
	request *http.Request
	sent    []byte // the message in the request
	status  int    // 0 before the header
	media   string
	whole   *bytes.Buffer // a response of one message, until it is too long for an error
	events  *events       // a response that is a stream
	able    abilities.Writer
}

// WriteHeader implements http.ResponseWriter.
func (f *failures) WriteHeader(status int) {
	if status < http.StatusOK || f.status != 0 {
		f.ResponseWriter.WriteHeader(status)
		return
	}
	f.status = status
	f.media, _, _ = mime.ParseMediaType(f.Header().Get("Content-Type"))
	switch {
	case f.media == "text/event-stream" && status == http.StatusOK && !f.encoded():
		f.events = &events{to: f.ResponseWriter, change: f.repaired}
		f.Header().Del("Content-Length")
		f.ResponseWriter.WriteHeader(status)
	case f.sent != nil && (status >= http.StatusBadRequest || f.media == "application/json" && !f.encoded()):
		f.whole = &bytes.Buffer{}
	default:
		f.ResponseWriter.WriteHeader(status)
	}
}

// encoded reports whether the response has a content encoding, such as gzip.
func (f *failures) encoded() bool {
	encoding := strings.Join(f.Header()["Content-Encoding"], ",")
	return encoding != "" && !strings.EqualFold(encoding, "identity")
}

// Write implements io.Writer.
func (f *failures) Write(p []byte) (int, error) {
	if f.status == 0 {
		f.WriteHeader(http.StatusOK)
	}
	switch {
	case f.events != nil:
		return f.events.Write(p)
	case f.whole == nil:
		return f.ResponseWriter.Write(p)
	case f.whole.Len()+len(p) <= maxFailure:
		return f.whole.Write(p)
	case f.status >= http.StatusBadRequest:
		_, _ = f.whole.Write(p[:maxFailure-f.whole.Len()]) // never fails
		return len(p), nil                                 // the rest of a failed response is dropped
	}
	begun := f.whole.Bytes()
	f.whole = nil
	f.ResponseWriter.WriteHeader(f.status)
	if _, err := f.ResponseWriter.Write(begun); err != nil {
		return 0, err
	}
	return f.ResponseWriter.Write(p)
}

// FlushError implements the interface of http.ResponseController.
func (f *failures) FlushError() error {
	if f.status == 0 {
		f.WriteHeader(http.StatusOK)
	}
	if f.whole != nil {
		return nil // finish sends it
	}
	return http.NewResponseController(f.ResponseWriter).Flush()
}

// CopyFrom implements the interface of abilities.Layer.
func (f *failures) CopyFrom(src io.Reader) (int64, error) {
	if f.status == 0 {
		f.WriteHeader(http.StatusOK)
	}
	if f.events == nil && f.whole == nil {
		return f.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
	}
	return io.Copy(writerOnly{f}, src)
}

// TakeOver implements the interface of abilities.Layer.
func (f *failures) TakeOver() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(f.ResponseWriter).Hijack()
}

// finish writes the buffered response.
func (f *failures) finish() {
	if f.events != nil {
		f.events.finish()
	}
	if f.whole == nil {
		return
	}
	body := f.whole.Bytes()
	if !f.encoded() {
		body = f.repaired(body)
	}
	if id := f.id(); f.status >= http.StatusBadRequest && !id.IsZero() && !isAnswer(body) {
		failure := f.failure(body)
		if failure.Code == message.CodeMethodNotFound && f.status == http.StatusBadRequest && f.request.Header.Get("Mcp-Protocol-Version") < checkedRevision {
			f.status = http.StatusOK
		}
		body, _ = message.Encode(message.ErrorResponse{ID: id, Error: failure}) // cannot fail for a decoded id
		f.Header().Set("Content-Type", "application/json")
	}
	if !bytes.Equal(body, f.whole.Bytes()) {
		dropBodyHeaders(f.Header())
	}
	f.Header().Del("Content-Length")
	f.ResponseWriter.WriteHeader(f.status)
	_, _ = f.ResponseWriter.Write(body) // fails only when the client is gone
}

// checkedRevision is the first revision in which the status for an unknown method is 404.
const checkedRevision = "2026-07-28"

// id returns the id of the request, zero for a message without one.
func (f *failures) id() message.ID {
	m, err := message.Decode(f.sent, message.Limits{MaxBytes: defaultMaxBody})
	if request, ok := m.(message.Request); err == nil && ok {
		return request.ID
	}
	return message.ID{}
}

// isAnswer reports whether a text is a JSON-RPC response.
func isAnswer(text []byte) bool {
	switch m, _ := message.Decode(text, message.Limits{MaxBytes: maxFailure}); m.(type) {
	case message.ErrorResponse, message.ResultResponse:
		return true
	}
	return false
}

// repaired returns a response whose error has the id of the request, if it is known, and a code
// other than 0. It returns all other text as it is.
func (f *failures) repaired(text []byte) []byte {
	if !bytes.Contains(text, []byte("error")) {
		return text // the common case
	}
	answer, ok := errorIn(text)
	if !ok || answer.Error.Code != 0 && !answer.Unread {
		return text
	}
	if answer.Error.Code == 0 {
		answer.Error.Code = message.CodeInternalError
	}
	if id := f.id(); answer.Unread && !id.IsZero() {
		answer.ID, answer.Unread = id, false
	}
	out, err := message.Encode(answer)
	if err != nil {
		return text
	}
	return out
}

// errorIn reads a JSON-RPC error response. If the request could not be identified, some
// revisions omit the id and others set it to null.
func errorIn(text []byte) (message.ErrorResponse, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) == nil && string(members["id"]) == "null" {
		delete(members, "id")
		text, _ = json.Marshal(members) // cannot fail for decoded members
	}
	m, _ := message.Decode(text, message.Limits{MaxBytes: maxFailure})
	answer, ok := m.(message.ErrorResponse)
	return answer, ok
}

// failure returns the JSON-RPC error for a failed response that is not one.
func (f *failures) failure(body []byte) message.Error {
	text := strings.TrimSpace(string(body))
	out := message.Error{Code: codeOf(f.status, text), Message: http.StatusText(f.status)}
	if f.encoded() {
		return out // this package does not decompress it
	}
	if _, err := message.NewObject(json.RawMessage(body)); f.media == "application/json" && err == nil {
		out.Data = body
	} else if shown := strings.ToValidUTF8(text[:min(len(text), 1024)], ""); strings.HasPrefix(f.media, "text/plain") && shown != "" {
		out.Message = shown
	}
	return out
}

// codeOf returns the code for a failed response, by the phrases that the official SDKs use, and
// by the status for other texts.
func codeOf(status int, text string) message.Code {
	text = strings.ToLower(text)
	switch {
	case strings.Contains(text, "not handled"), strings.Contains(text, "method not found"):
		return message.CodeMethodNotFound
	case strings.Contains(text, "invalid params"):
		return message.CodeInvalidParams
	case status >= http.StatusInternalServerError:
		return message.CodeInternalError
	}
	return message.CodeInvalidRequest
}
