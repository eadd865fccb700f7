package fair

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// Limit bounds a rate: Burst units may be spent at once after a pause, and they are refilled
// evenly over Per. Both must be positive.
type Limit struct {
	Burst int64
	Per   time.Duration
}

// cost returns the time in which a weight is refilled.
func (l Limit) cost(weight int64) time.Duration {
	return time.Duration(float64(weight) * float64(l.Per) / float64(l.Burst))
}

// Bucket is a token bucket of a [Limiter], found by its key. A key always has the same limit.
type Bucket struct {
	Key   string
	Limit Limit
}

// ByNetwork returns the buckets of an address for one kind of work, one for each of its
// networks (see [Networks]). The narrowest network has the limit each, the wider ones two and
// four times that.
func ByNetwork(addr netip.Addr, kind string, each Limit) []Bucket {
	networks := Networks(addr)
	buckets := make([]Bucket, len(networks))
	for i, network := range networks {
		buckets[i] = Bucket{Key: kind + " " + network, Limit: Limit{Burst: each.Burst << i, Per: each.Per}}
	}
	return buckets
}

const (
	sketchRows  = 3
	sketchWidth = 1 << 15
	blockSize   = 1 << 9 // places of a row that are allocated together: a page of memory
)

// Limiter is a rate limiter for any number of keys in constant memory. It keeps its buckets in
// a sketch (at most 768 KiB, allocated in blocks of 4 KiB as they are used): a bucket has a place
// in each of three rows, and its debt is the least of the three. So a flood of new keys
// never resets another bucket. While ten thousand buckets are in debt, about one other bucket
// in fifty shares the debt of one of them. It is safe for concurrent use and counts in this
// process only.
type Limiter struct {
	now   func() time.Time
	begin time.Time
	seed  maphash.Seed

	mu   sync.Mutex
	rows [sketchRows]row
	last time.Duration // the latest time that was read, since begin
	back time.Duration // the sum of the times by which the clock was set back
}

// row says when each place is full again, in the time since the beginning of its limiter. Places of
// a block that is not there are full.
type row [sketchWidth / blockSize]*[blockSize]time.Duration

func (r *row) full(place int) time.Duration {
	if block := r[place/blockSize]; block != nil {
		return block[place%blockSize]
	}
	return 0
}

func (r *row) setFull(place int, at time.Duration) {
	block := &r[place/blockSize]
	if *block == nil {
		*block = new([blockSize]time.Duration)
	}
	(*block)[place%blockSize] = at
}

// NewLimiter returns a Limiter with full buckets, which reads the time from now.
func NewLimiter(now func() time.Time) *Limiter {
	return &Limiter{now: now, begin: now(), seed: maphash.MakeSeed()}
}

// Take spends weight from all buckets and returns 0. If one of them has too little, it spends
// nothing and returns how long to wait until all have enough. A weight above the burst passes
// when the bucket is full.
func (l *Limiter) Take(weight int64, buckets ...Bucket) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.since()
	if wait := l.wait(now, weight, buckets); wait > 0 {
		return wait
	}
	l.spend(now, weight, buckets)
	return 0
}

// Wait returns how long to wait until weight can be taken from all buckets, 0 if it can be
// taken now. It spends nothing.
func (l *Limiter) Wait(weight int64, buckets ...Bucket) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wait(l.since(), weight, buckets)
}

// Spend takes weight from all buckets, even if they have too little: for work that is counted
// after it has happened. The debt of a bucket is at most one burst.
func (l *Limiter) Spend(weight int64, buckets ...Bucket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spend(l.since(), weight, buckets)
}

// Return gives back what was taken for work that did not happen.
func (l *Limiter) Return(weight int64, buckets ...Bucket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.since()
	for _, s := range buckets {
		l.change(now, s, -s.Limit.cost(weight))
	}
}

// since returns the time that has passed since the start. After the clock was set back, time
// goes on from the latest value seen, so that debts do not grow. The caller holds the lock.
func (l *Limiter) since() time.Duration {
	now := l.now().Sub(l.begin) + l.back
	if now < l.last {
		l.back += l.last - now
		now = l.last
	}
	l.last = now
	return now
}

func (l *Limiter) wait(now time.Duration, weight int64, buckets []Bucket) (wait time.Duration) {
	for _, s := range buckets {
		wait = max(wait, Wait(l.owed(now, s, l.places(s.Key)), s.Limit.cost(weight), s.Limit.Per))
	}
	return wait
}

func (l *Limiter) spend(now time.Duration, weight int64, buckets []Bucket) {
	for _, s := range buckets {
		l.change(now, s, s.Limit.cost(weight))
	}
}

// owed returns how long it takes until a bucket is full.
func (l *Limiter) owed(now time.Duration, s Bucket, places [sketchRows]int) time.Duration {
	owed := l.debt(now, s, 0, places[0])
	for row := 1; row < sketchRows; row++ {
		owed = min(owed, l.debt(now, s, row, places[row]))
	}
	return owed
}

// debt returns the debt of a bucket in one row, at most one burst.
func (l *Limiter) debt(now time.Duration, s Bucket, row, place int) time.Duration {
	return min(max(l.rows[row].full(place)-now, 0), s.Limit.Per)
}

func (l *Limiter) places(key string) (places [sketchRows]int) {
	hash := maphash.String(l.seed, key)
	for row := range places {
		places[row] = int(hash % sketchWidth)
		hash /= sketchWidth
	}
	return places
}
