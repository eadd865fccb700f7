package fair

import (
	"context"
	"time"
)

// Counter applies charges, each in its area, all or none, for all processes that share a store. It
// returns what each bucket owes then, and whether all that was needed was there.
type Counter func(ctx context.Context, charges []Charge) (owed []time.Duration, done bool, err error)

// Shared are limiters whose buckets several processes share. The store decides. The limiters of the
// process know what it said last, and refuse what is over without asking again.
type Shared struct {
	limiters []*Limiter // by area
	count    Counter
}

// NewShared returns a Shared with the limiters of this process, by area.
func NewShared(count Counter, limiters ...*Limiter) *Shared { return &Shared{limiters, count} }

// Take applies charges, all or none. It returns how long to wait if something that is needed is not
// there.
func (s *Shared) Take(ctx context.Context, charges []Charge) (wait time.Duration, err error) {
	for _, c := range charges {
		if c.Need > 0 {
			wait = max(wait, s.limiters[c.Area].Wait(c.Need, c.Bucket))
		}
	}
	if wait > 0 {
		return wait, nil
	}
	return s.Settle(ctx, charges)
}

// Wait returns how long a weight has to wait for a bucket of the first area, by what this process knows.
func (s *Shared) Wait(weight int64, b Bucket) time.Duration { return s.limiters[0].Wait(weight, b) }

// Return gives back what [Shared.Take] took, for work that did not happen.
func (s *Shared) Return(ctx context.Context, charges []Charge) error {
	back := make([]Charge, len(charges))
	for i, c := range charges {
		s.limiters[c.Area].Return(c.Spend, c.Bucket)
		back[i] = Charge{Bucket: c.Bucket, Area: c.Area, Spend: -c.Spend}
	}
	_, err := s.Settle(ctx, back)
	return err
}

// Settle is [Shared.Take] without the answer of this process: it always asks the store.
func (s *Shared) Settle(ctx context.Context, charges []Charge) (wait time.Duration, err error) {
	owed, done, err := s.count(ctx, charges)
	if err != nil {
		return 0, err
	}
	for i, c := range charges {
		s.limiters[c.Area].Raise(c.Bucket, owed[i])
		if c.Need > 0 && !done {
			wait = max(wait, Wait(owed[i], c.Limit.cost(c.Need), c.Limit.Per))
		}
	}
	return wait, nil
}
