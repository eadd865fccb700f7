package middleware

import (
	"mime"
	"net/http"
)

// response is what the handler writes to: it binds the session id that the handler gives
// out, and leaves out of lists what the policy hides.
type response struct {
	http.ResponseWriter
	guard *Guard
	token *Token
	lists bool    // whether the answer may hold a list
	opens bool    // whether the answer may be a stream that ends with the token
	began bool    // whether the header was written
	body  rewrite // nil for an answer that goes through as it is
}

// rewrite is a body that is changed on its way.
type rewrite interface {
	// Write takes what the handler writes.
	Write(p []byte) (int, error)
	// finish writes what is left.
	finish() error
}

// answer returns the writer for the handler of one request.
func (g *Guard) answer(w http.ResponseWriter, r *http.Request, got received, token *Token) *response {
	out := &response{ResponseWriter: w, guard: g, token: token, lists: g.mayList(r, got), opens: g.ends && token != nil && r.Method == http.MethodGet}
	if out.lists {
		r.Header.Del("Accept-Encoding") // the answer is read here
	}
	return out
}

// WriteHeader implements http.ResponseWriter.
func (o *response) WriteHeader(status int) {
	if status < http.StatusOK || o.began {
		o.ResponseWriter.WriteHeader(status)
		return
	}
	o.began = true
	o.guard.bindSession(o.Header(), o.token)
	if status != http.StatusOK || !(o.lists || o.opens) {
		o.ResponseWriter.WriteHeader(status)
		return
	}
	switch media, _, _ := mime.ParseMediaType(o.Header().Get("Content-Type")); media {
	case "application/json":
		o.beginJSON()
	case "text/event-stream":
		o.beginStream()
	default:
		o.ResponseWriter.WriteHeader(status)
	}
}

func (o *response) beginJSON() {
	if !o.lists {
		o.ResponseWriter.WriteHeader(http.StatusOK)
		return
	}
	o.body = &wholeList{lister: lister{o.guard, o.token}, to: o.ResponseWriter} // the header follows with its length
}

func (o *response) beginStream() {
	if o.lists {
		o.body = &listStream{lister: lister{o.guard, o.token}, to: o.ResponseWriter}
	}
	o.Header().Del("Content-Length")
	o.ResponseWriter.WriteHeader(http.StatusOK)
	if o.opens {
		prime(o.ResponseWriter)
	}
}

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
	if _, whole := o.body.(*wholeList); whole {
		return nil // it goes out at the end
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
	if o.body == nil {
		return
	}
	if err := o.body.finish(); err != nil {
		o.guard.log.Warn("a list could not be filtered", "error", err)
	}
}
