package redis

import (
	"context"
	"time"

	"gatehouse.example/storage"
)

// await waits until the flight of a job is over. The error is why nobody waits for that any more. The
// context is not asked for it: it may learn a moment after this timer that its time is over.
func (l *lane) await(j *job) error {
	var late <-chan time.Time
	caller := storage.Caller(j.ctx)
	if end, limited := j.ctx.Deadline(); limited && caller != j.ctx {
		timer := l.timer(time.Until(end))
		defer func() {
			timer.Stop()
			l.timers.Put(timer)
		}()
		late = timer.C
	}
	select {
	case <-j.done:
		return nil
	case <-caller.Done():
		return caller.Err()
	case <-late:
		return context.DeadlineExceeded
	}
}

// timer returns a timer that is used no more, or a new one. Since Go 1.23 nothing of its last use is
// left.
func (l *lane) timer(after time.Duration) *time.Timer {
	timer, used := l.timers.Get().(*time.Timer)
	if !used {
		return time.NewTimer(after)
	}
	timer.Reset(after)
	return timer
}
