package storage

import (
	"sync"
	"time"

	"gatehouse.example/internal/fair"
)

// Pools does the operations of [Backend.Count] in memory, for backends whose users are all in one
// process or ask one. It is safe for concurrent use.
type Pools struct {
	now func() time.Time

	mu   sync.Mutex
	made map[poolArea]*fair.Limiter
}

// poolArea names a limiter.
type poolArea struct {
	pool string
	area int
}

// NewPools returns pools that read the time from now.
func NewPools(now func() time.Time) *Pools {
	return &Pools{now: now, made: map[poolArea]*fair.Limiter{}}
}

// Count does one operation.
func (p *Pools) Count(c Counting) Counted {
	p.mu.Lock()
	defer p.mu.Unlock()
	counted := p.each(c, func(c Count) fair.Debt { return fair.Debt{Key: c.Name, Per: c.Per, Need: c.Need} })
	if !counted.Done {
		return counted
	}
	p.each(c, func(c Count) fair.Debt { return fair.Debt{Key: c.Name, Per: c.Per, Spend: c.Spend} })
	return p.each(c, func(c Count) fair.Debt { return fair.Debt{Key: c.Name, Per: c.Per} })
}

// each applies a part of each count, one after the other.
func (p *Pools) each(c Counting, part func(Count) fair.Debt) Counted {
	counted := Counted{Done: true}
	for _, count := range c.Counts {
		owed, done := p.limiter(poolArea{c.Pool, count.Area}).Apply(part(count))
		counted.Owed, counted.Done = append(counted.Owed, owed), counted.Done && done
	}
	return counted
}

func (p *Pools) limiter(at poolArea) *fair.Limiter {
	if p.made[at] == nil {
		p.made[at] = fair.NewLimiter(p.now)
	}
	return p.made[at]
}
