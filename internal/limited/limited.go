// Package limited limits the time of calls whose callers may leave before.
//
// Most calls are answered in time, so a [Context] has no timer, and no place among the children of the
// context around it, until somebody waits for its end as one waits for any context. Whoever waits with
// [Wait] needs neither.
package limited

import (
	"context"
	"sync"
	"time"
)

// Context is a context that ends at a time, or with the one around it.
type Context struct {
	context.Context // the one around it
	ends            time.Time

	mu    sync.Mutex
	over  bool            // End was called
	timed context.Context // the same with a timer, nil if nobody has waited
	stop  context.CancelFunc
}

// Within returns a context that ends after d at the latest. Call its End.
func Within(ctx context.Context, d time.Duration) *Context {
	ends := time.Now().Add(d)
	if earlier, limited := ctx.Deadline(); limited && earlier.Before(ends) {
		ends = earlier
	}
	return &Context{Context: ctx, ends: ends}
}

// Deadline implements [context.Context].
func (c *Context) Deadline() (time.Time, bool) { return c.ends, true }

// Done implements [context.Context].
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		c.timed, c.stop = context.WithDeadline(c.Context, c.ends)
	}
	if c.over {
		c.stop()
	}
	return c.timed.Done()
}

// Value implements [context.Context]. A context of the standard library that is made from c looks for
// the one that it can wait for without a goroutine, after it has called Done.
func (c *Context) Value(key any) any {
	c.mu.Lock()
	within := c.timed
	c.mu.Unlock()
	if within == nil {
		within = c.Context
	}
	return within.Value(key)
}

// Err implements [context.Context].
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.timed != nil:
		return c.timed.Err()
	case c.over:
		return context.Canceled
	case c.Context.Err() != nil:
		return c.Context.Err()
	case !time.Now().Before(c.ends):
		return context.DeadlineExceeded
	}
	return nil
}

// End ends the context. Those who wait for it with [Wait] are not told: they are to be back before.
func (c *Context) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.stop != nil {
		c.stop()
	}
}
