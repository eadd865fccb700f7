package authz

import (
	"context"
	"slices"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
)

// registrationLimiter limits the number and the size of registrations and their changes, for all
// processes together: for one software from one address, so that hosted applications that share an
// address do not use up each other's limit; for all software from one network, because the client
// chooses its software name; and the size in all, because there are many networks.
type registrationLimiter struct {
	shared *fair.Shared
	each   int64
	see    func(Limit) // is told of limits that were reached
	known  *knownSoftware
}

const (
	registrationPeriod = time.Hour
	// togetherFactor is the ratio of the limit for all software to that for one.
	togetherFactor = 10
	// usualWeight is the allowed average size of a client in bytes. Most have half of it.
	usualWeight = 2 << 10
	// everybodyFactor is the ratio of the size limit for all networks to that for one.
	everybodyFactor = 8
	// leastWeight is the lowest size limit of one network, enough for a few of the largest
	// clients.
	leastWeight = 256 << 10
	// returnTime bounds how long the answer to a registration that failed waits until what it took is
	// given back.
	returnTime = 100 * time.Millisecond
)

// newRegistrationLimiter returns nil if there is no limit.
func newRegistrationLimiter(cfg Config, shared *fair.Shared, see func(Limit)) *registrationLimiter {
	if cfg.RegistrationQuota < 0 {
		return nil
	}
	return &registrationLimiter{shared: shared, each: int64(cfg.RegistrationQuota), see: see, known: &knownSoftware{store: cfg.Store, now: cfg.Now}}
}

// admit counts a registration and its size. If a limit is reached, the error is a
// [dcr.TooMany] with the time to wait. Call undo if the registration then fails.
func (l *registrationLimiter) admit(ctx context.Context, c storage.Client, weight int64) (undo func(), err error) {
	if l == nil {
		return func() {}, nil
	}
	charges, wait, err := l.take(ctx, c, weight)
	if err == nil && wait > 0 { // perhaps by the software, of which the store has just told this process
		charges, wait, err = l.take(ctx, c, weight)
	}
	if err != nil {
		return nil, err
	}
	if wait > 0 {
		l.see(l.reached(charges))
		return nil, &dcr.TooMany{RetryAfter: max(wait, time.Second)}
	}
	return func() {
		// If the store cannot be reached now, what was taken is refilled in time.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTime)
		defer cancel()
		_ = l.shared.Return(ctx, charges)
	}, nil
}

// take counts a registration and its size, and returns in what, the software last. One software may
// take half of what all may, so that a flood of equal registrations from many networks leaves the
// other half. That is no limit for software of which a client was in use: there it only counts.
func (l *registrationLimiter) take(ctx context.Context, c storage.Client, weight int64) (charges []fair.Charge, wait time.Duration, err error) {
	counts, weights := l.buckets(ctx, c)
	all := weights[len(weights)-1].Limit
	software := fair.Bucket{Key: "software " + c.Software, Limit: fair.Limit{Burst: all.Burst / 2, Per: all.Per}}
	spend := fair.Takes
	if l.shared.Wait(weight, software) > 0 {
		known, err := l.known.ask(ctx, c.Software)
		if err != nil {
			return nil, 0, err
		}
		if known {
			spend = fair.Spends
		}
	}
	charges = slices.Concat(fair.Takes(1, counts...), fair.Takes(weight, weights...), spend(weight, software))
	wait, err = l.shared.Take(ctx, charges)
	return charges, wait, err
}

// reached returns which limit refused charges.
func (l *registrationLimiter) reached(charges []fair.Charge) Limit {
	if software := charges[len(charges)-1]; software.Need > 0 && l.shared.Wait(software.Need, software.Bucket) > 0 {
		return LimitSoftware
	}
	return LimitClients
}

// full returns how long a registration has to wait, whatever it is, by what this process knows. It
// costs nothing else, so that a flood beyond the limits is refused before it is read.
func (l *registrationLimiter) full(ctx context.Context) (wait time.Duration) {
	if l == nil {
		return 0
	}
	counts, weights := l.buckets(ctx, storage.Client{})
	for _, b := range append(counts[:len(counts)-1], weights...) { // without the one of a software
		wait = max(wait, l.shared.Wait(1, b))
	}
	return wait
}

// buckets returns the buckets in which a registration and its size are counted.
func (l *registrationLimiter) buckets(ctx context.Context, c storage.Client) (counts, weights []fair.Bucket) {
	from := fair.Requester(ctx)
	together := l.each * togetherFactor
	bytes := max(together*usualWeight, leastWeight)
	counts = append(fair.ByNetwork(from, "registrations", fair.Limit{Burst: together, Per: registrationPeriod}),
		fair.Bucket{Key: "registrations " + fair.Networks(from)[0] + " " + c.Software, Limit: fair.Limit{Burst: l.each, Per: registrationPeriod}})
	weights = append(fair.ByNetwork(from, "registered bytes", fair.Limit{Burst: bytes, Per: registrationPeriod}),
		fair.Bucket{Key: "registered bytes", Limit: fair.Limit{Burst: bytes * everybodyFactor, Per: registrationPeriod}})
	return counts, weights
}
