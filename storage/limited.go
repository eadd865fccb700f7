package storage

import (
	"context"
	"sync"
	"time"
)

// limited is a context that ends at a time, or with that of a caller. Unlike one of the standard library
// it has no timer, and no place among the children of the other, until somebody waits for its end:
// most calls of a store are answered without.
type limited struct {
	context.Context // of the caller
	ends            time.Time

	mu    sync.Mutex
	over  bool            // end was called
	timed context.Context // the same with a timer, nil if nobody has waited
	stop  context.CancelFunc
}

// within returns a context that ends after d at the latest. Call its end.
func within(ctx context.Context, d time.Duration) *limited {
	ends := time.Now().Add(d)
	if earlier, limited := ctx.Deadline(); limited && earlier.Before(ends) {
		ends = earlier
	}
	return &limited{Context: ctx, ends: ends}
}

// Deadline implements [context.Context].
func (l *limited) Deadline() (time.Time, bool) { return l.ends, true }

// Done implements [context.Context].
func (l *limited) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timed == nil {
		l.timed, l.stop = context.WithDeadline(l.Context, l.ends)
	}
	if l.over {
		l.stop()
	}
	return l.timed.Done()
}

// Err implements [context.Context].
func (l *limited) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.timed != nil:
		return l.timed.Err()
	case l.over:
		return context.Canceled
	case l.Context.Err() != nil:
		return l.Context.Err()
	case !time.Now().Before(l.ends):
		return context.DeadlineExceeded
	}
	return nil
}

// end ends the context.
func (l *limited) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.stop != nil {
		l.stop()
	}
}

// Caller returns the context of whoever called a method of [Store], for a context that the Store gave
// to its backend: it does not end when the time is over that the Store allows for an answer. For any
// other context it returns that. A backend that watches the deadline by itself can wait for the end
// of the caller's context in place of its own, which would need a timer.
func Caller(ctx context.Context) context.Context {
	if l, ok := ctx.(*limited); ok {
		return l.Context
	}
	return ctx
}
