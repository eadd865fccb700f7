// Package quietlog keeps requests from flooding a log: of lines of one kind it writes the first
// ones of each minute and counts the others.
//
//	quiet := quietlog.New(slog.NewTextHandler(os.Stderr, nil))
//	defer quiet.Flush()
//	log := slog.New(quiet)
//	server := &http.Server{ErrorLog: quietlog.ServerLog(quiet)}
//
// Lines are of one kind if they have the same level, message and attribute "code", so message
// and code must be constants of the program: put values from requests into other attributes.
// When lines were held back, a line with their number follows within a minute. Use Always for
// lines about actions of people, which clients cannot cause at will:
//
//	log.InfoContext(quietlog.Always(ctx), "signed in", "user", name)
//
// Memory is bounded: there are at most 256 kinds of lines, all others are counted as one, and
// texts in a line are cut at 8 KiB.
package quietlog

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// perMinute is the number of lines of a kind that are written in a minute.
	perMinute = 20
	// window is the time for which lines are counted together.
	window = time.Minute
	// maxKinds bounds the kinds of lines that are distinguished.
	maxKinds = 256
	// maxText bounds a text in a line, in bytes.
	maxText = 8 << 10
)

// Handler passes a limited number of lines of each kind in a minute to another handler. It is
// safe for concurrent use if the other one is.
type Handler struct {
	next   slog.Handler
	counts *counts
}

// New returns a Handler that writes to next.
func New(next slog.Handler) *Handler {
	return &Handler{next: next, counts: &counts{kinds: map[kind]*count{}}}
}

// Enabled implements [slog.Handler].
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if ctx.Value(always{}) == nil && !h.counts.admit(kindOf(r), h.next) {
		return nil
	}
	return h.next.Handle(ctx, short(r))
}

// WithAttrs implements [slog.Handler]. The new handler counts lines together with h.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{next: h.next.WithAttrs(shortAll(attrs)), counts: h.counts}
}

// WithGroup implements [slog.Handler]. The new handler counts lines together with h.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{next: h.next.WithGroup(name), counts: h.counts}
}

// Flush writes the numbers of lines that were held back so far. Call it before the program ends.
func (h *Handler) Flush() { h.counts.flush() }

// always is the key of a context whose lines are always written.
type always struct{}

// Always returns a context whose lines are all written. Use it for lines about actions of people,
// such as a sign-in: a client cannot cause many of them.
func Always(ctx context.Context) context.Context { return context.WithValue(ctx, always{}, true) }

// kind identifies lines that are counted together.
type kind struct {
	level         slog.Level
	message, code string
}

// otherLines is the kind of all lines beyond maxKinds.
var otherLines = kind{message: "other lines"}

func kindOf(r slog.Record) kind {
	k := kind{level: r.Level, message: r.Message}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "code" && a.Value.Kind() == slog.KindString {
			k.code = a.Value.String()
			return false
		}
		return true
	})
	return k
}

// counts are the counts of lines in the current minute, by kind.
type counts struct {
	mu    sync.Mutex
	kinds map[kind]*count
}

// count is the number of lines of a kind since a time.
type count struct {
	since         time.Time
	written, held int
	timer         *time.Timer  // runs while lines are held back
	next          slog.Handler // of the last line that was held back
}

// admit reports whether a line is written, and counts it.
func (c *counts) admit(k kind, next slog.Handler) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	k, n := c.of(k, now)
	if n.written < perMinute {
		n.written++
		return true
	}
	n.held++
	n.next = next
	if n.timer == nil {
		n.timer = time.AfterFunc(n.since.Add(window).Sub(now), func() { c.report(k) })
	}
	return false
}

// of returns the count of a kind, and the kind that it is counted as. It replaces a count whose
// minute is over, unless lines were held back.
func (c *counts) of(k kind, now time.Time) (kind, *count) {
	n, known := c.kinds[k]
	if !known && len(c.kinds) >= maxKinds {
		c.makeRoom(now)
		if len(c.kinds) >= maxKinds {
			k = otherLines
			n, known = c.kinds[k]
		}
	}
	if !known || n.over(now) {
		n = &count{since: now}
		c.kinds[k] = n
	}
	return k, n
}

// over reports whether the minute is over and no lines were held back.
func (n *count) over(now time.Time) bool {
	age := now.Sub(n.since)
	return n.held == 0 && (age >= window || age < 0)
}

// makeRoom removes the kinds whose minute is over.
func (c *counts) makeRoom(now time.Time) {
	for k, n := range c.kinds {
		if n.over(now) {
			delete(c.kinds, k)
		}
	}
}

// report writes the number of lines of a kind that were held back, and starts a new minute for
// it.
func (c *counts) report(k kind) {
	c.mu.Lock()
	n := c.kinds[k]
	if n == nil || n.held == 0 {
		c.mu.Unlock()
		return
	}
	n.timer.Stop()
	delete(c.kinds, k)
	c.mu.Unlock()
	r := slog.NewRecord(time.Now(), k.level, fmt.Sprintf("and %d more like this in the last minute", n.held), 0)
	r.AddAttrs(slog.String("like", k.message))
	if k.code != "" {
		r.AddAttrs(slog.String("code", k.code))
	}
	_ = n.next.Handle(context.Background(), r) // a failure of the log cannot be logged
}

func (c *counts) flush() {
	c.mu.Lock()
	kinds := make([]kind, 0, len(c.kinds))
	for k := range c.kinds {
		kinds = append(kinds, k)
	}
	c.mu.Unlock()
	for _, k := range kinds {
		c.report(k)
	}
}
