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
	out := &response{ResponseWriter: w, guard: g, token: token, lists: g.mayList(r, got)}
	if out.lists {
		r.Header.Del("Accept-Encoding") // the answer is read here
	}
	return out
}

// WriteHeader implements http.ResponseWriter.
func (o *response) WriteHeader(status int) {
	if status >= http.StatusOK && !o.began {
		o.began = true
		o.guard.bindSession(o.Header(), o.token)
		if o.lists && status == http.StatusOK {
			o.body = o.rewriting(o.Header())
		}
		if _, whole := o.body.(*wholeList); whole {
			return // its header follows with its length
		}
	}
	o.ResponseWriter.WriteHeader(status)
}

// rewriting returns how a body with a header is read.
func (o *response) rewriting(header http.Header) rewrite {
	filter := lister{guard: o.guard, token: o.token}
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	switch {
	case err != nil:
		return nil
	case media == "application/json":
		return &wholeList{lister: filter, to: o.ResponseWriter}
	case media == "text/event-stream":
		header.Del("Content-Length")
		return &listStream{lister: filter, to: o.ResponseWriter}
	}
	return nil
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
