package limited

import (
	"context"
	"sync"
	"time"
)

// Timers are timers that are used again. The zero Timers is ready for use.
type Timers struct{ stopped sync.Pool }

// Wait waits for an event until ctx ends. For a [Context] it waits for the time and for the end of the
// context around it apart. The error is why nobody waits any more: ctx is not asked for it, because it
// may learn a moment after the timer that its time is over.
func Wait[T any](ctx context.Context, timers *Timers, event <-chan T) (happened T, err error) {
	around := ctx
	for limited, ok := around.(*Context); ok; limited, ok = around.(*Context) {
		around = limited.Context
	}
	var late <-chan time.Time
	if end, hasEnd := ctx.Deadline(); hasEnd && around != ctx {
		timer := timers.after(time.Until(end))
		defer timers.put(timer)
		late = timer.C
	}
	select {
	case happened = <-event:
		return happened, nil
	case <-around.Done():
		return happened, around.Err()
	case <-late:
		return happened, context.DeadlineExceeded
	}
}

// after returns a timer that is used no more, or a new one. Since Go 1.23 nothing of its last use is
// left.
func (t *Timers) after(d time.Duration) *time.Timer {
	timer, used := t.stopped.Get().(*time.Timer)
	if !used {
		return time.NewTimer(d)
	}
	timer.Reset(d)
	return timer
}

func (t *Timers) put(timer *time.Timer) {
	timer.Stop()
	t.stopped.Put(timer)
}
