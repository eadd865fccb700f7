package fair

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// Limit is how much may be spent: Burst units at once after a rest, refilled evenly over
// Per. Both are positive.
type Limit struct {
	Burst int64
	Per   time.Duration
}

// cost is how long it takes until a weight is refilled.
func (l Limit) cost(weight int64) time.Duration {
	return time.Duration(float64(weight) * float64(l.Per) / float64(l.Burst))
}

// Share is one account that a [Budget] keeps. One key always has the same limit.
type Share struct {
	Key   string
	Limit Limit
}

// ByNetwork returns the accounts of an address for one kind of thing: the narrowest
// network may spend each, the ones around it twice and four times as much.
func ByNetwork(addr netip.Addr, kind string, each Limit) []Share {
	networks := Networks(addr)
	shares := make([]Share, len(networks))
	for i, network := range networks {
		shares[i] = Share{Key: kind + " " + network, Limit: Limit{Burst: each.Burst << i, Per: each.Per}}
	}
	return shares
}

const (
	sketchRows  = 3
	sketchWidth = 1 << 15
)

// Budget keeps accounts that are spent and refill with time. It is a sketch of constant
// size (768 KiB, of which only what is used becomes memory): each account is in three
// rows, and what it owes is the least that any of them says. So a flood of new keys
// makes nobody's account begin anew. While ten thousand accounts owe something, about one
// other in fifty owes what one of them does. It is safe for concurrent use and counts in
// this process only.
type Budget struct {
	now   func() time.Time
	begin time.Time
	seed  maphash.Seed

	mu   sync.Mutex
	paid [sketchRows][]time.Duration // since begin, when everything is refilled
	last time.Duration               // since begin, the latest that was seen
	back time.Duration               // how far the clock was set back in all
}

// NewBudget returns a Budget of which nothing is spent, and which reads the clock now.
func NewBudget(now func() time.Time) *Budget {
	b := &Budget{now: now, begin: now(), seed: maphash.MakeSeed()}
	for i := range b.paid {
		b.paid[i] = make([]time.Duration, sketchWidth)
	}
	return b
}

// Take spends weight from all shares and returns 0, or spends nothing and returns how
// long it will take until all of them have enough. What weighs more than a whole burst
// is let through when nothing is owed.
func (b *Budget) Take(weight int64, shares ...Share) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.since()
	if wait := b.wait(now, weight, shares); wait > 0 {
		return wait
	}
	b.spend(now, weight, shares)
	return 0
}

// Wait returns how long it will take until weight can be taken from all shares, 0 for
// now. Nothing is spent.
func (b *Budget) Wait(weight int64, shares ...Share) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wait(b.since(), weight, shares)
}

// Spend takes weight from all shares, whether they have it or not: for what is counted
// only after it has happened. Nobody ever owes more than one burst.
func (b *Budget) Spend(weight int64, shares ...Share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spend(b.since(), weight, shares)
}

// Return gives back what was taken for something that did not happen after all.
func (b *Budget) Return(weight int64, shares ...Share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.since()
	for _, s := range shares {
		places := b.places(s.Key)
		owed := b.owed(now, s, places)
		for row, place := range places {
			if b.debt(now, s, row, place) == owed {
				b.paid[row][place] = now + max(owed-s.Limit.cost(weight), 0)
			}
		}
	}
}

// since is the time that has passed. A clock that is set back goes on from where it was, so
// that nobody owes anything for it. It is called with the lock held.
func (b *Budget) since() time.Duration {
	now := b.now().Sub(b.begin) + b.back
	if now < b.last {
		b.back += b.last - now
		now = b.last
	}
	b.last = now
	return now
}

func (b *Budget) wait(now time.Duration, weight int64, shares []Share) (wait time.Duration) {
	for _, s := range shares {
		if owed := b.owed(now, s, b.places(s.Key)); owed > 0 {
			wait = max(wait, min(owed, owed+s.Limit.cost(weight)-s.Limit.Per))
		}
	}
	return wait
}

func (b *Budget) spend(now time.Duration, weight int64, shares []Share) {
	for _, s := range shares {
		places := b.places(s.Key)
		owes := min(b.owed(now, s, places)+s.Limit.cost(weight), s.Limit.Per)
		for row, place := range places {
			if b.debt(now, s, row, place) < owes {
				b.paid[row][place] = now + owes
			}
		}
	}
}

// owed is how long it takes until a share is refilled.
func (b *Budget) owed(now time.Duration, s Share, places [sketchRows]int) time.Duration {
	owed := b.debt(now, s, 0, places[0])
	for row := 1; row < sketchRows; row++ {
		owed = min(owed, b.debt(now, s, row, places[row]))
	}
	return owed
}

// debt is what one row says. It is never more than one burst.
func (b *Budget) debt(now time.Duration, s Share, row, place int) time.Duration {
	return min(max(b.paid[row][place]-now, 0), s.Limit.Per)
}

func (b *Budget) places(key string) (places [sketchRows]int) {
	hash := maphash.String(b.seed, key)
	for row := range places {
		places[row] = int(hash % sketchWidth)
		hash /= sketchWidth
	}
	return places
}
