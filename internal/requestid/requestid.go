// Package requestid gives each request an id that connects the lines about it in the logs of
// several programs.
//
// This package always draws the id itself. It appears in the attribute "request" of a log line
// and in the header X-Request-Id of the response. The ids that the caller sent are logged in
// separate attributes: "parent" from X-Request-Id, "trace" from traceparent (W3C Trace
// Context). So a caller cannot have its request logged under the id of another request.
//
//	r = requestid.Begin(w, r)
//	log := slog.New(requestid.LogHandler(handler))
//	log.InfoContext(r.Context(), "refused") // request=… parent=…
//
// The package ignores an X-Request-Id that is repeated, longer than 64 bytes, or has
// characters other than letters, digits and "-_.:", and a traceparent that does not follow its
// specification. The request is served without them.
package requestid

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"
)

// Header is the name of the header that carries the id of a request, from a caller and in a
// response.
const Header = "X-Request-Id"

// TraceHeader is the name of the header that carries the position of a request in a trace
// (W3C Trace Context, section 3.2).
const TraceHeader = "Traceparent"

// maxParent is the maximum length of the id of a caller, in bytes.
const maxParent = 64

// ID holds the ids of a request.
type ID struct {
	// Own is the id that this program drew: 26 letters and digits.
	Own string
	// Parent is the id that the caller sent in X-Request-Id, or empty.
	Parent string
	// Trace is the trace id that the caller sent in traceparent: 32 hexadecimal digits, or
	// empty.
	Trace string
}

// carrier is a context with an id.
type carrier struct {
	context.Context
	id ID
}

type key struct{}

// Value implements [context.Context].
func (c *carrier) Value(of any) any {
	if of == (key{}) {
		return &c.id
	}
	return c.Context.Value(of)
}

// From returns the id in the context of a request, or the zero ID if there is none.
func From(ctx context.Context) ID {
	if id, found := ctx.Value(key{}).(*ID); found {
		return *id
	}
	return ID{}
}

// With returns a context that carries id.
func With(ctx context.Context, id ID) context.Context { return &carrier{ctx, id} }

// Begin returns r with the context of [Begun]: r as it is, if that has an id already.
func Begin(w http.ResponseWriter, r *http.Request) *http.Request {
	ctx := Begun(r.Context(), w, r)
	if ctx == r.Context() {
		return r
	}
	return r.WithContext(ctx)
}

// Begun returns a context with an id for r, and sets [Header] in the response. If ctx has an id
// already, Begun returns it as it is. Use it in place of [Begin] to put more into the context.
func Begun(ctx context.Context, w http.ResponseWriter, r *http.Request) context.Context {
	if From(ctx).Own != "" {
		return ctx
	}
	id := ID{Own: rand.Text(), Parent: parentIn(r.Header), Trace: traceIn(r.Header)}
	w.Header()[Header] = []string{id.Own}
	return With(ctx, id)
}

// parentIn returns the id that the caller sent, or the empty string if it cannot be logged.
func parentIn(header http.Header) string {
	value := single(header[Header])
	if len(value) > maxParent || strings.ContainsFunc(value, foreign) {
		return ""
	}
	return value
}

func foreign(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.:", c)
}

// traceparentSize is the size of a traceparent of version 00, in bytes.
const traceparentSize = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

// traceIn returns the trace id of a traceparent, or the empty string if it has none that is
// valid.
func traceIn(header http.Header) string {
	value := single(header[TraceHeader])
	if !hasTraceparentSize(value) || value[2] != '-' || value[35] != '-' || value[52] != '-' {
		return ""
	}
	version, trace, parent, flags := value[:2], value[3:35], value[36:52], value[53:traceparentSize]
	switch {
	case !hex(version+trace+parent+flags) || version == "ff": // ff is forbidden, section 3.2.2.1
	case strings.Trim(trace, "0") == "" || strings.Trim(parent, "0") == "": // so are ids of zeros
	default:
		return trace
	}
	return ""
}

// hasTraceparentSize reports whether a value has the size of a traceparent. Versions later than
// 00 may append a hyphen and further fields (W3C Trace Context, section 4.3).
func hasTraceparentSize(value string) bool {
	switch {
	case len(value) < traceparentSize || len(value) > 2*maxParent:
		return false
	case len(value) == traceparentSize:
		return true
	}
	return value[:2] != "00" && value[traceparentSize] == '-'
}

// single returns the value of a header that occurs exactly once, else the empty string.
func single(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// hex reports whether s has lowercase hexadecimal digits only.
func hex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// LogHandler returns a handler that adds the ids of the request in the context to each line,
// as the attributes "request", "parent" and "trace", and calls next.
func LogHandler(next slog.Handler) slog.Handler {
	if _, ok := next.(handler); ok {
		return next
	}
	return handler{next}
}

type handler struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h handler) Handle(ctx context.Context, line slog.Record) error {
	id := From(ctx)
	if id.Own != "" {
		line = line.Clone()
		for _, a := range [...]slog.Attr{slog.String("request", id.Own), slog.String("parent", id.Parent), slog.String("trace", id.Trace)} {
			if a.Value.String() != "" {
				line.AddAttrs(a)
			}
		}
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs implements [slog.Handler].
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
