package doctor

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"time"
)

// redirection waits at a loopback address for a browser (RFC 8252 section 7.3).
type redirection struct {
	server   *http.Server
	answered chan url.Values
}

// callback is the path to which the browser comes back.
const callback = "/callback"

// listen opens the loopback address.
func (w *walker) listen() error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("nothing can listen at 127.0.0.1: %w", err)
	}
	w.signIn.redirect = "http://" + listener.Addr().String() + callback
	r := &redirection{answered: make(chan url.Values, 1)}
	r.server = &http.Server{Handler: r, ReadTimeout: patience, MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = r.server.Serve(listener) }()
	w.back = r
	return nil
}

// ServeHTTP takes the first answer that a browser brings.
func (r *redirection) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	query := q.URL.Query()
	if q.Method != http.MethodGet || q.URL.Path != callback || !query.Has("code") && !query.Has("error") {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = io.WriteString(w, "The doctor has the answer. You may close this page.\n")
	select {
	case r.answered <- query:
	default:
	}
}

func (r *redirection) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if r.server.Shutdown(ctx) != nil { // the page is written before the answer is taken
		_ = r.server.Close()
	}
}

// person lets the person sign in. It reports whether there is a code for the doctor.
func (w *walker) person(parent context.Context) bool {
	s := w.signIn
	if s.client.id == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(parent, MaxWait)
	defer cancel()
	if err := w.options.SignIn(ctx, w.address()); err != nil {
		s.waited = "the address could not be shown: " + err.Error()
		return false
	}
	select {
	case s.answer = <-w.back.answered:
	case <-ctx.Done():
		s.waited = "nobody came back in time"
	}
	return s.answer.Get("code") != "" && s.answer.Get("state") == s.state
}
