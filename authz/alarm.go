package authz

import (
	"log/slog"
	"sync"
	"time"
)

// alarm logs an error when a record in the store is forged. Only a party with access to the
// store can forge one, so the error is logged at most once in alarmInterval.
type alarm struct {
	log *slog.Logger
	now func() time.Time

	mu         sync.Mutex
	forged     error     // the last error
	lastSeen   time.Time // the time of that error
	logged     time.Time
	suppressed int // errors since the last line in the log
}

// notReadyTime is the time for which a server is not ready after it read a forged record.
// alarmInterval is the least time between two lines in the log.
const (
	notReadyTime  = 5 * time.Minute
	alarmInterval = time.Minute
)

// raise records that a record is forged. See [storage.Store.OnForged].
func (a *alarm) raise(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	a.forged, a.lastSeen = err, now
	if !a.logged.IsZero() && now.Sub(a.logged) < alarmInterval {
		a.suppressed++
		return
	}
	a.log.Error("a record in the store is forged: another program writes to the store, or a master key is missing", "error", err, "others", a.suppressed)
	a.logged, a.suppressed = now, 0
}

// recent returns the last error of the last five minutes, or nil.
func (a *alarm) recent() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.forged == nil || a.now().Sub(a.lastSeen) >= notReadyTime {
		return nil
	}
	return a.forged
}
