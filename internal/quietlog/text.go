package quietlog

import (
	"fmt"
	"log/slog"
	"strings"
)

// short returns a line without texts that are too long.
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

// shortAttr cuts texts and errors. Other values are of types that the program chose, whose
// texts came through a form or a document that is bounded.
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

// cut shortens a text that is too long, and says by how much.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(s[:maxText], ""), len(s))
}
