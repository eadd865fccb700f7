package middleware

import (
	"context"
	"log/slog"
	"net/http"

	"gatehouse.example/internal/requestid"
)

// RequestID returns the id of a request behind [Guard.Protect], by which the lines about it
// are found in logs: 26 letters and digits that were drawn here. The answer names it in
// X-Request-Id. It is empty for the context of another request.
func RequestID(ctx context.Context) string { return requestid.From(ctx).Own }

// LogHandler returns a handler for a logger of your own that adds to each line which request
// it is about, and passes it on to next. The attribute "request" is what [RequestID] returns;
// "parent" and "trace" are what the caller said in X-Request-Id and in traceparent (W3C Trace
// Context), which may be anybody's choice. Log with the context of the request.
func LogHandler(next slog.Handler) slog.Handler { return requestid.LogHandler(next) }

// passOn tells the issuer which request a question is for, so that its log says so too. The
// issuer is of the configuration; it learns nothing else of the request.
func passOn(question *http.Request) {
	if id := RequestID(question.Context()); id != "" {
		question.Header.Set(requestid.Header, id)
	}
}
