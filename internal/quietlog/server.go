package quietlog

import (
	"log"
	"log/slog"
	"strings"
)

// ServerLog returns a logger for [net/http.Server.ErrorLog] and its like. What a server
// complains of is caused by whoever connects, so it is a warning, and what was said is an
// attribute of a line whose message is a constant.
func ServerLog(h slog.Handler) *log.Logger { return log.New(complaints{slog.New(h)}, "", 0) }

type complaints struct{ log *slog.Logger }

// kinds tells complaints apart by how net/http begins them, so that many of one kind do not
// hide another.
var kinds = []struct{ prefix, message string }{
	{"http: TLS handshake error", "a TLS handshake failed"},
	{"http: panic serving", "a handler panicked"},
	{"http2: panic serving", "a handler panicked"},
	{"http: Accept error", "connections cannot be accepted"},
}

// Write implements [io.Writer]: one call of it is one complaint.
func (c complaints) Write(text []byte) (int, error) {
	said := strings.TrimSpace(string(text))
	message := "the HTTP server complains"
	for _, k := range kinds {
		if strings.HasPrefix(said, k.prefix) {
			message = k.message
		}
	}
	c.log.Warn(message, "said", said)
	return len(text), nil
}
