package authz

import (
	"log/slog"
	"sync"
	"time"
)

// alarm tells the operator that records in the store are forged: only somebody with access
// to the store makes one, so it is worth an error in the log, once in a while.
type alarm struct {
	log *slog.Logger
	now func() time.Time

	mu     sync.Mutex
	forged error     // the last one
	met    time.Time // when that was
	logged time.Time
	silent int // how many were met since then
}

// alarmTime is how long a server is not ready after it met a forged record, alarmPause how
// long the log is spared after a line.
const (
	alarmTime  = 5 * time.Minute
	alarmPause = time.Minute
)

// raise notes a forged record. See [storage.Store.OnForged].
func (a *alarm) raise(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	a.forged, a.met = err, now
	if !a.logged.IsZero() && now.Sub(a.logged) < alarmPause {
		a.silent++
		return
	}
	a.log.Error("a record in the store is forged: somebody else writes there, or a master key is missing", "error", err, "others", a.silent)
	a.logged, a.silent = now, 0
}

// recent returns the last forged record that was met not long ago.
func (a *alarm) recent() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.forged == nil || a.now().Sub(a.met) >= alarmTime {
		return nil
	}
	return a.forged
}
