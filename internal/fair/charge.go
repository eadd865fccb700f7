package fair

import "time"

// Charge is what one operation does to a bucket.
type Charge struct {
	Bucket
	// Area is the limiter of a [Shared] that has the bucket.
	Area int
	// Need must be there, unless the bucket is full. Spend is spent; if it is negative, so much is
	// given back.
	Need, Spend int64
}

// Takes returns charges that take a weight from buckets, as [Limiter.Take] does.
func Takes(weight int64, buckets ...Bucket) []Charge { return charges(buckets, weight, weight) }

// Checks returns charges that need a weight and spend nothing, as [Limiter.Wait].
func Checks(weight int64, buckets ...Bucket) []Charge { return charges(buckets, weight, 0) }

// Spends returns charges that spend a weight whether it is there or not, as [Limiter.Spend], and
// with a weight below zero give it back, as [Limiter.Return].
func Spends(weight int64, buckets ...Bucket) []Charge { return charges(buckets, 0, weight) }

func charges(buckets []Bucket, need, spend int64) []Charge {
	all := make([]Charge, len(buckets))
	for i, b := range buckets {
		all[i] = Charge{Bucket: b, Need: need, Spend: spend}
	}
	return all
}

// In returns charges in an area.
func In(area int, charges []Charge) []Charge {
	for i := range charges {
		charges[i].Area = area
	}
	return charges
}

// Times returns what a charge needs and spends as times in which it is refilled.
func (c Charge) Times() (need, spend time.Duration) {
	return c.Limit.cost(c.Need), c.Limit.cost(c.Spend)
}

// Debt is a charge in times, for buckets that are given so.
type Debt struct {
	Key              string
	Per, Need, Spend time.Duration
}

// Apply spends from a bucket if what is needed is there. It returns what the bucket owes then.
func (l *Limiter) Apply(d Debt) (owed time.Duration, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.since()
	owed = l.owed(now, d.bucket(), l.places(d.Key))
	if d.Need > 0 && Wait(owed, d.Need, d.Per) > 0 {
		return owed, false
	}
	return l.change(now, d.bucket(), d.Spend), true
}

func (d Debt) bucket() Bucket { return Bucket{Key: d.Key, Limit: Limit{Per: d.Per}} }

// Wait returns how long to wait until a bucket that owes so much has what is needed.
func Wait(owed, need, per time.Duration) time.Duration {
	if owed <= 0 {
		return 0
	}
	return max(min(owed, owed+need-per), 0)
}

// change adds a time to what a bucket owes, and returns the sum.
func (l *Limiter) change(now time.Duration, b Bucket, by time.Duration) time.Duration {
	places := l.places(b.Key)
	was := l.owed(now, b, places)
	owes := min(max(was+by, 0), b.Limit.Per)
	for row, place := range places {
		at := l.debt(now, b, row, place)
		if by > 0 && at < owes || by < 0 && at == was {
			l.rows[row].setFull(place, now+owes)
		}
	}
	return owes
}

// Raise makes a bucket owe at least a time: what another count of the same bucket says.
func (l *Limiter) Raise(b Bucket, owes time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.since()
	if was := l.owed(now, b, l.places(b.Key)); was < owes {
		l.change(now, b, owes-was)
	}
}
