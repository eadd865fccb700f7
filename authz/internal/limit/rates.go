package limit

import (
	"maps"
	"sync"
	"time"
)

// Rates allows so many events per key and hour. Whoever has been quiet for an hour may
// send all of them at once; then there is one each hour/n. What is kept is bounded: a key
// that may send all of them is forgotten, and of more than a hundred thousand others any
// is. It is safe for concurrent use and counts in this process only.
type Rates struct {
	now   func() time.Time
	every time.Duration // how long one event costs

	mu    sync.Mutex
	spent map[string]time.Time // by key, when everything is paid off
	swept time.Time
}

const (
	ratePeriod = time.Hour
	maxRates   = 100_000
	sweepEvery = time.Minute
)

// NewRates returns an empty count of at most perHour events, at least one, that reads the
// clock now.
func NewRates(perHour int, now func() time.Time) *Rates {
	return &Rates{now: now, every: ratePeriod / time.Duration(max(perHour, 1)), spent: map[string]time.Time{}}
}

// wait is how long the next event for a key must wait.
func (r *Rates) wait(key string, now time.Time) time.Duration {
	return max(r.after(key, now).Sub(now)-ratePeriod, 0)
}

// after is when everything is paid off if an event happens now.
func (r *Rates) after(key string, now time.Time) time.Time {
	paid := r.spent[key]
	if paid.Before(now) {
		paid = now
	}
	return paid.Add(r.every)
}

// Take counts an event for a key if it may happen now, and otherwise returns how long it
// must wait and counts nothing.
func (r *Rates) Take(key string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if wait := r.wait(key, now); wait > 0 {
		return wait
	}
	if _, known := r.spent[key]; !known {
		r.makeRoom(now)
	}
	r.spent[key] = r.after(key, now)
	return 0
}

// Return counts an event back that was taken and did not happen.
func (r *Rates) Return(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if paid, known := r.spent[key]; known {
		r.spent[key] = paid.Add(-r.every)
	}
}

// makeRoom keeps the number of keys bounded: those go that have nothing to pay off, then
// any.
func (r *Rates) makeRoom(now time.Time) {
	if now.Sub(r.swept) >= sweepEvery {
		r.swept = now
		maps.DeleteFunc(r.spent, func(_ string, paid time.Time) bool { return !paid.After(now) })
	}
	for key := range r.spent {
		if len(r.spent) < maxRates {
			return
		}
		delete(r.spent, key)
	}
}
