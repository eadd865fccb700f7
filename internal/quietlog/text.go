package quietlog

import (
	"fmt"
	"log/slog"
	"strings"
)

// short returns a copy of a line with its texts cut.
func short(r slog.Record) slog.Record {
	out := slog.NewRecord(r.Time, r.Level, cut(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(shortAttr(a))
		return true
	})
	return out
}

func shortAll(attrs []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = shortAttr(a)
	}
	return out
}

// shortAttr cuts texts and errors. Values of other types have texts from forms and documents,
// which are bounded.
func shortAttr(a slog.Attr) slog.Attr {
	value := a.Value.Resolve()
	switch value.Kind() {
	case slog.KindString:
		return slog.String(a.Key, cut(value.String()))
	case slog.KindGroup:
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(shortAll(value.Group())...)}
	case slog.KindAny:
		if err, ok := value.Any().(error); ok {
			return slog.String(a.Key, cut(err.Error()))
		}
	}
	return slog.Attr{Key: a.Key, Value: value}
}

// cut shortens a text that is too long, and adds its length.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(s[:maxText], ""), len(s))
}
