package main

import (
	"crypto/rand"
	"fmt"
	"net/http"
)

// primed begins each stream that a client opens with an event that has an id and no data
// (MCP 2025-11-25, Streamable HTTP, Sending Messages to the Server). The guard ends streams
// with their token, and the client opens them again with its next one. The official Go
// client gives a whole session up after some streams that ended without an event with a
// new id: it takes them for failures. Nothing is kept that could be sent again, so the id
// that comes back says nothing.
func primed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			r.Header.Del("Last-Event-Id")
			w = &primer{w}
		}
		next.ServeHTTP(w, r)
	})
}

// primer writes the event behind the header.
type primer struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (p *primer) WriteHeader(status int) {
	p.ResponseWriter.WriteHeader(status)
	if status == http.StatusOK {
		_, _ = fmt.Fprintf(p.ResponseWriter, "event: prime\nid: %s\ndata: \n\n", rand.Text()) // fails only when the client is gone
	}
}

// Unwrap lets http.ResponseController flush.
func (p *primer) Unwrap() http.ResponseWriter { return p.ResponseWriter }
