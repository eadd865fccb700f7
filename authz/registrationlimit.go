package authz

import (
	"context"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
)

// registrationLimiter bounds how many clients register and change themselves, and what they weigh: of
// one software from one address, so that hosted applications that share an address do not
// use up each other's share; of all software from one network, because whoever registers
// chooses what software it is; and what all of them weigh, because there are many
// networks.
type registrationLimiter struct {
	limiter *fair.Limiter
	each    int64
}

const (
	registrationPeriod = time.Hour
	// togetherFactor is how many times as many clients of all software may register.
	togetherFactor = 10
	// usualWeight is what a client may weigh in bytes on the average. Most weigh half of it.
	usualWeight = 2 << 10
	// everybodyFactor is how many times as much all networks may register as one.
	everybodyFactor = 8
	// leastWeight is what one may register at once, however small the limit: a few of the
	// largest.
	leastWeight = 256 << 10
)

// newQuota returns nil if there is no bound.
func newRegistrationLimiter(cfg Config) *registrationLimiter {
	if cfg.RegistrationQuota < 0 {
		return nil
	}
	return &registrationLimiter{limiter: fair.NewLimiter(cfg.Now), each: int64(cfg.RegistrationQuota)}
}

// admit counts and weighs a registration, or says how long it must wait. One that then
// fails is given back.
func (l *registrationLimiter) admit(ctx context.Context, c storage.Client, weight int64) (undo func(), err error) {
	if l == nil {
		return func() {}, nil
	}
	counts, weights := l.shares(ctx, c)
	wait := l.limiter.Take(1, counts...)
	if wait == 0 {
		if wait = l.limiter.Take(weight, weights...); wait > 0 {
			l.limiter.Return(1, counts...)
		}
	}
	if wait > 0 {
		return nil, &dcr.TooMany{RetryAfter: max(wait, time.Second)}
	}
	return func() {
		l.limiter.Return(1, counts...)
		l.limiter.Return(weight, weights...)
	}, nil
}

// shares are the accounts that a registration is counted in and weighed in.
func (l *registrationLimiter) shares(ctx context.Context, c storage.Client) (counts, weights []fair.Bucket) {
	from := fair.Requester(ctx)
	together := l.each * togetherFactor
	bytes := max(together*usualWeight, leastWeight)
	counts = append(fair.ByNetwork(from, "registrations", fair.Limit{Burst: together, Per: registrationPeriod}),
		fair.Bucket{Key: "registrations " + fair.Networks(from)[0] + " " + c.Software, Limit: fair.Limit{Burst: l.each, Per: registrationPeriod}})
	weights = append(fair.ByNetwork(from, "registered bytes", fair.Limit{Burst: bytes, Per: registrationPeriod}),
		fair.Bucket{Key: "registered bytes", Limit: fair.Limit{Burst: bytes * everybodyFactor, Per: registrationPeriod}})
	return counts, weights
}
