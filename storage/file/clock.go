package file

import (
	"sync/atomic"
	"time"
)

// clock is the time by which items end. While a clock is wrong by less than setBack, time stands
// still instead of going back, so what was over does not come back. A clock that is set back by
// more was wrong before: the time is what it says now, and an item that ended by the wrong time and
// was not swept yet is there until its end by the right one.
type clock struct {
	wall   func() time.Time
	latest atomic.Int64 // milliseconds since 1970
}

// setBack is the greatest step back that is taken for a correction of the clock.
const setBack = time.Hour

func (c *clock) now() time.Time {
	now := c.wall()
	for {
		latest := c.latest.Load()
		if late := latest - now.UnixMilli(); late > 0 && late <= setBack.Milliseconds() {
			return time.UnixMilli(latest)
		}
		if c.latest.CompareAndSwap(latest, now.UnixMilli()) {
			return now
		}
	}
}
