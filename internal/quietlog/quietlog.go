// Package quietlog keeps a log readable whatever strangers do: of lines that say the same
// it writes the first of each minute and counts the others.
//
//	quiet := quietlog.New(slog.NewTextHandler(os.Stderr, nil))
//	defer quiet.Flush()
//	log := slog.New(quiet)
//	server := &http.Server{ErrorLog: quietlog.ServerLog(quiet)}
//
// Two lines say the same when they have one level, one message and one value of the
// attribute "code", so both must be constants of the program: what somebody sent belongs
// into other attributes. When lines were held back, a line with how many follows within a
// minute. A line that is about what a person did, and that nobody can cause at will, is
// written always:
//
//	log.InfoContext(quietlog.Always(ctx), "signed in", "user", name)
//
// What is refused: to grow. There are at most 256 kinds of lines, all others share one, and
// a text in a line is cut at 8 KiB.
package quietlog

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// perMinute is how many lines of a kind are written in a minute.
	perMinute = 20
	// window is how long lines are counted together.
	window = time.Minute
	// maxKinds bounds the kinds of lines that are told apart.
	maxKinds = 256
	// maxText is how long a text in a line may be, in bytes.
	maxText = 8 << 10
)

// Handler passes lines on to another handler, so many of a kind in a minute. It is safe
// for concurrent use if the other one is.
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

// WithAttrs implements [slog.Handler]. What it returns counts together with h.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{next: h.next.WithAttrs(shortAll(attrs)), counts: h.counts}
}

// WithGroup implements [slog.Handler]. What it returns counts together with h.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{next: h.next.WithGroup(name), counts: h.counts}
}

// Flush writes how many lines were held back so far. Call it before the program ends.
func (h *Handler) Flush() { h.counts.flush() }

// always marks a context whose lines are written always.
type always struct{}

// Always returns a context whose lines are all written. It is for lines about what a
// person did, such as a sign-in: each of them costs somebody more than a request.
func Always(ctx context.Context) context.Context { return context.WithValue(ctx, always{}, true) }

// kind is what lines have in common that say the same.
type kind struct {
	level         slog.Level
	message, code string
}

// rest is the kind of all lines for which there was no room.
var rest = kind{message: "other lines"}

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

// counts are the lines of the present minute, by kind.
type counts struct {
	mu    sync.Mutex
	kinds map[kind]*count
}

// count is how many lines of a kind there were since a time.
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
		n.timer = time.AfterFunc(n.since.Add(window).Sub(now), func() { c.tell(k) })
	}
	return false
}

// of returns the count of a kind, and the kind that it is counted as. A minute that is over
// and has nothing to tell is forgotten.
func (c *counts) of(k kind, now time.Time) (kind, *count) {
	n, known := c.kinds[k]
	if !known && len(c.kinds) >= maxKinds {
		c.makeRoom(now)
		if len(c.kinds) >= maxKinds {
			k = rest
			n, known = c.kinds[k]
		}
	}
	if !known || n.over(now) {
		n = &count{since: now}
		c.kinds[k] = n
	}
	return k, n
}

// over reports whether the minute is over and nothing waits to be told.
func (n *count) over(now time.Time) bool {
	age := now.Sub(n.since)
	return n.held == 0 && (age >= window || age < 0)
}

// makeRoom forgets the kinds whose minute is over. One place is left for the rest.
func (c *counts) makeRoom(now time.Time) {
	for k, n := range c.kinds {
		if n.over(now) {
			delete(c.kinds, k)
		}
	}
}

// tell writes how many lines of a kind were held back, and begins a new minute for it.
func (c *counts) tell(k kind) {
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
	_ = n.next.Handle(context.Background(), r) // a log that cannot be written has nobody to tell
}

func (c *counts) flush() {
	c.mu.Lock()
	kinds := make([]kind, 0, len(c.kinds))
	for k := range c.kinds {
		kinds = append(kinds, k)
	}
	c.mu.Unlock()
	for _, k := range kinds {
		c.tell(k)
	}
}
