package quietlog

import (
	"log"
	"log/slog"
	"strings"
)

// ServerLog returns a logger for [net/http.Server.ErrorLog] and similar fields. Clients can cause
// these lines, so they are warnings with a constant message, and the text of the server is an
// attribute.
func ServerLog(h slog.Handler) *log.Logger { return log.New(serverErrors{slog.New(h)}, "", 0) }

type serverErrors struct{ log *slog.Logger }

// kinds maps the prefixes of lines of net/http to messages, so that many lines of one kind do not
// hide another.
var kinds = []struct{ prefix, message string }{
	{"http: TLS handshake error", "a TLS handshake failed"},
	{"http: panic serving", "a handler panicked"},
	{"http2: panic serving", "a handler panicked"},
	{"http: Accept error", "connections cannot be accepted"},
}

// Write implements [io.Writer]. Each call is one line.
func (c serverErrors) Write(text []byte) (int, error) {
	line := strings.TrimSpace(string(text))
	message := "the HTTP server reports an error"
	for _, k := range kinds {
		if strings.HasPrefix(line, k.prefix) {
			message = k.message
		}
	}
	c.log.Warn(message, "said", line)
	return len(text), nil
}
