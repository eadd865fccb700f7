package middleware

import (
	"context"
	"log/slog"
	"net/http"

	"gatehouse.example/internal/requestid"
)

// RequestID returns the id of a request behind [Guard.Protect], which connects its lines in
// logs: 26 letters and digits that the guard drew. The response has it in X-Request-Id. It is
// empty if ctx is not the context of such a request.
func RequestID(ctx context.Context) string { return requestid.From(ctx).Own }

// LogHandler returns a handler that adds the ids of a request to each line and calls next. Use
// it for your own logger, and log with the context of the request. The attribute "request" has
// the result of [RequestID]; "parent" and "trace" have the ids that the caller sent in
// X-Request-Id and in traceparent (W3C Trace Context), which are not authenticated.
func LogHandler(next slog.Handler) slog.Handler { return requestid.LogHandler(next) }

// setRequestID sends the id of the request in its context to a configured issuer, for the log
// of the issuer.
func setRequestID(r *http.Request) {
	if id := RequestID(r.Context()); id != "" {
		r.Header.Set(requestid.Header, id)
	}
}
