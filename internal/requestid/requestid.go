// Package requestid gives each request an id by which the lines about it are found in the
// logs of several programs.
//
// The id is always drawn here, and stands in the attribute "request" of a line and in the
// header X-Request-Id of the answer. What the caller names its own request is kept beside it,
// in attributes of their own: "parent" from X-Request-Id, "trace" from traceparent (W3C Trace
// Context). So nobody can have a request of theirs logged under the id of another one: what a
// stranger chooses stands where it says that somebody chose it.
//
//	r = requestid.Begin(w, r)
//	log := slog.New(requestid.LogHandler(handler))
//	log.InfoContext(r.Context(), "refused") // request=… parent=…
//
// What it refuses: an id that is repeated, longer than 64 bytes, or made of anything but
// letters, digits and "-_.:", and a traceparent that is not as its specification has it. They
// are left out, and the request goes on without them.
package requestid

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"
)

// Header carries the id of a request, from a caller and in an answer.
const Header = "X-Request-Id"

// TraceHeader carries the place of a request in a trace (W3C Trace Context, section 3.2).
const TraceHeader = "Traceparent"

// maxParent is how long the id of a caller may be, in bytes.
const maxParent = 64

// ID is what a request is called.
type ID struct {
	// Own was drawn here: 26 letters and digits.
	Own string
	// Parent is what the caller calls it, empty if it does not say so.
	Parent string
	// Trace is the trace that the caller says it is part of: 32 hexadecimal digits, or empty.
	Trace string
}

type key struct{}

// From returns the id of the request whose context it is, the zero ID without one.
func From(ctx context.Context) ID {
	id, _ := ctx.Value(key{}).(ID)
	return id
}

// With returns a context that is about the request with an id.
func With(ctx context.Context, id ID) context.Context { return context.WithValue(ctx, key{}, id) }

// Begin gives a request its id, unless it has one already, and names it in the answer.
func Begin(w http.ResponseWriter, r *http.Request) *http.Request {
	if From(r.Context()).Own != "" {
		return r
	}
	id := ID{Own: rand.Text(), Parent: parentIn(r.Header), Trace: traceIn(r.Header)}
	w.Header().Set(Header, id.Own)
	return r.WithContext(With(r.Context(), id))
}

// parentIn returns the id that a caller sends, empty unless it is one that can be logged.
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

// traceIn returns the trace id of a traceparent. Later versions than 00 may have more behind
// what this one has (W3C Trace Context, section 4.3).
func traceIn(header http.Header) string {
	const whole = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	value := single(header[TraceHeader])
	if len(value) < whole || len(value) > 2*maxParent || len(value) > whole && (value[:2] == "00" || value[whole] != '-') {
		return ""
	}
	version, trace, parent, flags := value[:2], value[3:35], value[36:52], value[53:whole]
	switch {
	case value[2] != '-' || value[35] != '-' || value[52] != '-':
	case !hex(version+trace+parent+flags) || version == "ff": // ff is forbidden, section 3.2.2.1
	case strings.Trim(trace, "0") == "" || strings.Trim(parent, "0") == "": // so are ids of zeros
	default:
		return trace
	}
	return ""
}

// single is the value of a header that is there once.
func single(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// hex reports whether a text is hexadecimal in lowercase.
func hex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// LogHandler returns a handler that adds to each line which request it is about, if its
// context says so, and passes it on to next.
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
