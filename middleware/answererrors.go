package middleware

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"

	"gatehouse.example/message"
)

// maxFailure is how much of an answer is looked at for a failure, in bytes. A longer one that
// says it went well is passed on as it is.
const maxFailure = 64 << 10

// AnswerErrors returns a handler that answers like next, but every request of the protocol that
// fails with an error of JSON-RPC that has the id of the request (JSON-RPC 2.0, section 5). Put
// it around the handler of an SDK, behind [Guard.Protect], if some failures come back as plain
// text, without the id or with the code 0: clients cannot tell which of their requests such an
// answer is for, and some end the session.
//
//	mux.Handle("/mcp", guard.Protect(middleware.AnswerErrors(notes)))
//
// What next says about a failure becomes the message of the error; an object in JSON becomes
// its data. A code of 0 becomes that of an internal error. The status stays, so that 404 still
// says that a session has ended, but for a method that next does not know: before revision
// 2026-07-28 that is 200, as clients of those revisions read errors from nothing else.
// Notifications, responses and requests without a body have no id; what they are answered with
// stays as it is.
func AnswerErrors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &failures{ResponseWriter: w, request: r}
		if r.Method == http.MethodPost && r.Body != nil {
			out.sent, _ = io.ReadAll(io.LimitReader(r.Body, defaultMaxBody+1)) // whoever reads on gets the same error
			body := r.Body
			r = r.WithContext(r.Context()) // a handler must not change the request that it got
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(bytes.NewReader(out.sent), body), body}
		}
		next.ServeHTTP(out, r)
		out.finish()
	})
}

// failures is what the handler writes to.
type failures struct {
	http.ResponseWriter
	request *http.Request
	sent    []byte // the message that is answered
	status  int    // 0 before the header
	media   string
	whole   *bytes.Buffer // of an answer that is one message, until it is too long for an error
	events  *events       // of an answer that is a stream
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
		f.events = &events{to: f.ResponseWriter, change: f.mended}
		f.Header().Del("Content-Length")
		f.ResponseWriter.WriteHeader(status)
	case f.sent != nil && (status >= http.StatusBadRequest || f.media == "application/json" && !f.encoded()):
		f.whole = &bytes.Buffer{}
	default:
		f.ResponseWriter.WriteHeader(status)
	}
}

// encoded reports whether the handler compressed its answer, or the like.
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
		return len(p), nil                                 // nobody reads more about a failure
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
		return nil // it goes out at the end
	}
	return http.NewResponseController(f.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (f *failures) Flush() { _ = f.FlushError() } // as http.Flusher has it

// Unwrap lets http.ResponseController reach deadlines.
func (f *failures) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// finish writes what was held back.
func (f *failures) finish() {
	if f.events != nil {
		f.events.finish()
	}
	if f.whole == nil {
		return
	}
	body := f.whole.Bytes()
	if !f.encoded() {
		body = f.mended(body)
	}
	if id := f.id(); f.status >= http.StatusBadRequest && !id.IsZero() && !isAnswer(body) {
		failure := f.failure(body)
		if failure.Code == message.CodeMethodNotFound && f.status == http.StatusBadRequest && f.request.Header.Get("Mcp-Protocol-Version") < checkedRevision {
			f.status = http.StatusOK
		}
		body, _ = message.Encode(message.ErrorResponse{ID: id, Error: failure}) // what was decoded can be written
		f.Header().Set("Content-Type", "application/json")
	}
	if !bytes.Equal(body, f.whole.Bytes()) {
		undescribe(f.Header())
	}
	f.Header().Del("Content-Length")
	f.ResponseWriter.WriteHeader(f.status)
	_, _ = f.ResponseWriter.Write(body) // fails only when the client is gone
}

// checkedRevision is the first revision in which an unknown method is answered with 404.
const checkedRevision = "2026-07-28"

// id is that of the request that is answered, zero if that cannot have one.
func (f *failures) id() message.ID {
	m, err := message.Decode(f.sent, message.Limits{MaxBytes: defaultMaxBody})
	if request, ok := m.(message.Request); err == nil && ok {
		return request.ID
	}
	return message.ID{}
}

// isAnswer reports whether a text is an answer of JSON-RPC.
func isAnswer(text []byte) bool {
	switch m, _ := message.Decode(text, message.Limits{MaxBytes: maxFailure}); m.(type) {
	case message.ErrorResponse, message.ResultResponse:
		return true
	}
	return false
}

// mended returns an answer whose error says which request it is for, if that is known, and
// has a code that means something.
func (f *failures) mended(text []byte) []byte {
	if !bytes.Contains(text, []byte("error")) {
		return text // as nearly all are
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

// errorIn reads an error of JSON-RPC. Where it is not known which request it is for, some
// revisions leave the id out and others have null there.
func errorIn(text []byte) (message.ErrorResponse, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) == nil && string(members["id"]) == "null" {
		delete(members, "id")
		text, _ = json.Marshal(members) // what was read can be written
	}
	m, _ := message.Decode(text, message.Limits{MaxBytes: maxFailure})
	answer, ok := m.(message.ErrorResponse)
	return answer, ok
}

// failure is what a handler says in another form.
func (f *failures) failure(body []byte) message.Error {
	text := strings.TrimSpace(string(body))
	out := message.Error{Code: codeOf(f.status, text), Message: http.StatusText(f.status)}
	if f.encoded() {
		return out // nobody reads it here
	}
	if _, err := message.NewObject(json.RawMessage(body)); f.media == "application/json" && err == nil {
		out.Data = body
	} else if shown := strings.ToValidUTF8(text[:min(len(text), 1024)], ""); strings.HasPrefix(f.media, "text/plain") && shown != "" {
		out.Message = shown
	}
	return out
}

// codeOf is the code of a failure that a handler tells with a status and in words. The words
// are those of the official SDKs; of others the status alone counts.
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
