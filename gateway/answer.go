package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"gatehouse.example/middleware"
)

// refusal is the gateway's own response to a request that it does not forward.
type refusal struct {
	status      int
	description string
	allow       string // for 405
	retryAfter  int    // seconds
}

func notAllowed(methods []string) refusal {
	return refusal{status: http.StatusMethodNotAllowed, description: "This method is of no use here.", allow: strings.Join(methods, ", ")}
}

// refuse answers and logs a request.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, why refusal) {
	g.log.LogAttrs(r.Context(), slog.LevelInfo, "request refused", append(requestAttrs(r), slog.Int("status", why.status), slog.String("reason", why.description))...)
	why.write(w, r)
}

// write answers a request. The body is a JSON-RPC error response with the id of the message, if
// the guard has read it.
func (why refusal) write(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	if why.allow != "" {
		header.Set("Allow", why.allow)
	}
	if why.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(why.retryAfter))
	}
	if body := middleware.ErrorAnswer(r.Context(), why.description); body != nil {
		write(w, why.status, json.RawMessage(body))
		return
	}
	write(w, why.status, map[string]string{"error_description": why.description})
}

// write answers with a small JSON document. Pages of every origin may read it, because it does
// not depend on credentials of the browser.
func write(w http.ResponseWriter, status int, body any) {
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only when the client is gone
}

// requestAttrs returns the log attributes of a request, without the query, which may contain
// secrets.
func requestAttrs(r *http.Request) []slog.Attr {
	return []slog.Attr{slog.String("verb", r.Method), slog.String("path", r.URL.EscapedPath())}
}

// observing returns a function that logs requests that the guard refuses, stores the address of
// the client in the visit, and calls next.
func (g *Gateway) observing(next func(*http.Request, middleware.Event)) func(*http.Request, middleware.Event) {
	return func(r *http.Request, e middleware.Event) {
		if v := visitOf(r.Context()); v != nil {
			v.remote = e.Remote
		}
		if e.Status != 0 {
			g.log.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelInfo, "request refused", append(requestAttrs(r), slog.Any("decision", e))...)
		}
		if next != nil {
			next(r, e)
		}
	}
}
