package dcr

import (
	"sync"
	"time"
)

// A host is asked in vain at most this often: so many times at once, and then once per
// step. It keeps strangers from sending us to somebody else's server again and again.
const (
	budgetSize = 30
	budgetStep = 2 * time.Second
	// budgetHosts is how many hosts one generation remembers.
	budgetHosts = 4096
)

// budget counts attempts by host. An attempt that succeeds costs nothing.
type budget struct {
	now func() time.Time

	mu    sync.Mutex
	spent *generations[spending]
}

// spending is what a host has cost: as many steps as lie between now and the time.
type spending struct{ until time.Time }

func newBudget(now func() time.Time) *budget {
	return &budget{now: now, spent: newGenerations[spending](budgetHosts, budgetHosts)}
}

// take takes one attempt, if there is one.
func (b *budget) take(host string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, s := b.now(), spending{}
	s, _ = b.spent.get(host)
	if s.until.Before(now) || s.until.Sub(now) > budgetSize*budgetStep { // rested, or the clock was set back
		s.until = now
	}
	if s.until.Sub(now) > (budgetSize-1)*budgetStep {
		return false
	}
	s.until = s.until.Add(budgetStep)
	b.spent.put(host, s, 1)
	return true
}

// giveBack returns an attempt that succeeded.
func (b *budget) giveBack(host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s, ok := b.spent.get(host); ok {
		s.until = s.until.Add(-budgetStep)
		b.spent.put(host, s, 1)
	}
}
