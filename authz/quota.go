package authz

import (
	"context"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
)

// quota bounds how many clients register and change themselves, and what they weigh: of
// one software from one address, so that hosted applications that share an address do not
// use up each other's share; of all software from one network, because whoever registers
// chooses what software it is; and what all of them weigh, because there are many
// networks.
type quota struct {
	budget *fair.Budget
	each   int64
}

const (
	quotaTime = time.Hour
	// togetherFactor is how many times as many clients of all software may register.
	togetherFactor = 10
	// usualWeight is what a client may weigh in bytes on the average. Most weigh half of it.
	usualWeight = 2 << 10
	// everybodyFactor is how many times as much all networks may register as one.
	everybodyFactor = 8
	// leastWeight is what one may register at once, however small the quota: a few of the
	// largest.
	leastWeight = 256 << 10
)

// newQuota returns nil if there is no bound.
func newQuota(cfg Config) *quota {
	if cfg.RegistrationQuota < 0 {
		return nil
	}
	return &quota{budget: fair.NewBudget(cfg.Now), each: int64(cfg.RegistrationQuota)}
}

// admit counts and weighs a registration, or says how long it must wait. One that then
// fails is given back.
func (q *quota) admit(ctx context.Context, c storage.Client, weight int64) (undo func(), err error) {
	if q == nil {
		return func() {}, nil
	}
	counts, weights := q.shares(ctx, c)
	wait := q.budget.Take(1, counts...)
	if wait == 0 {
		if wait = q.budget.Take(weight, weights...); wait > 0 {
			q.budget.Return(1, counts...)
		}
	}
	if wait > 0 {
		return nil, &dcr.TooMany{RetryAfter: max(wait, time.Second)}
	}
	return func() {
		q.budget.Return(1, counts...)
		q.budget.Return(weight, weights...)
	}, nil
}

// shares are the accounts that a registration is counted in and weighed in.
func (q *quota) shares(ctx context.Context, c storage.Client) (counts, weights []fair.Share) {
	from := fair.Requester(ctx)
	together := q.each * togetherFactor
	bytes := max(together*usualWeight, leastWeight)
	counts = append(fair.ByNetwork(from, "registrations", fair.Limit{Burst: together, Per: quotaTime}),
		fair.Share{Key: "registrations " + fair.Networks(from)[0] + " " + c.Software, Limit: fair.Limit{Burst: q.each, Per: quotaTime}})
	weights = append(fair.ByNetwork(from, "registered bytes", fair.Limit{Burst: bytes, Per: quotaTime}),
		fair.Share{Key: "registered bytes", Limit: fair.Limit{Burst: bytes * everybodyFactor, Per: quotaTime}})
	return counts, weights
}
