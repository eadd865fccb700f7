package main

import (
	"log/slog"
	"net/http"

	"gatehouse.example/middleware"
)

// observing returns a function that logs the requests that the guard refuses, with the
// operation, the reason and the caller.
func observing(log *slog.Logger) func(*http.Request, middleware.Event) {
	log = slog.New(middleware.LogHandler(log.Handler()))
	return func(r *http.Request, e middleware.Event) {
		if e.Status != 0 {
			log.InfoContext(r.Context(), "request refused", "verb", r.Method, "decision", e)
		}
	}
}

// logged returns a handler that logs requests that next answers with an error status.
func logged(log *slog.Logger, next http.Handler) http.Handler {
	log = slog.New(middleware.LogHandler(log.Handler()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &statusWriter{ResponseWriter: w}
		next.ServeHTTP(out, r)
		if out.status >= http.StatusBadRequest {
			log.InfoContext(r.Context(), "request refused", "verb", r.Method, "status", out.status, "reason", http.StatusText(out.status))
		}
	})
}

// statusWriter records the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (s *statusWriter) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }
