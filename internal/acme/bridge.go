package acme

import (
	"context"
	"log/slog"

	"go.uber.org/zap/zapcore"
)

// bridge writes the warnings and errors of certmagic to a log of ours. Only plain values are passed
// on: a field of another type might reach into a storage with its keys.
type bridge struct{ log *slog.Logger }

// Enabled implements [zapcore.Core].
func (b bridge) Enabled(level zapcore.Level) bool { return level >= zapcore.WarnLevel }

// With implements [zapcore.Core].
func (b bridge) With(fields []zapcore.Field) zapcore.Core {
	return bridge{b.log.With(plain(fields)...)}
}

// Check implements [zapcore.Core].
func (b bridge) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(e.Level) {
		return to.AddCore(e, b)
	}
	return to
}

// Write implements [zapcore.Core].
func (b bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := slog.LevelError
	if e.Level == zapcore.WarnLevel {
		level = slog.LevelWarn
	}
	b.log.Log(context.Background(), level, "acme: "+e.Message, plain(fields)...)
	return nil
}

// Sync implements [zapcore.Core].
func (b bridge) Sync() error { return nil }

// plain returns the fields that hold a text, a number, a time or an error.
func plain(fields []zapcore.Field) []any {
	var out []any
	for _, f := range fields {
		switch f.Type {
		case zapcore.StringType, zapcore.ErrorType, zapcore.ArrayMarshalerType, zapcore.BoolType, zapcore.DurationType,
			zapcore.Float64Type, zapcore.Int64Type, zapcore.TimeType, zapcore.TimeFullType:
		default:
			continue
		}
		encoder := zapcore.NewMapObjectEncoder()
		f.AddTo(encoder)
		for key, value := range encoder.Fields {
			out = append(out, slog.Any(key, value))
		}
	}
	return out
}
