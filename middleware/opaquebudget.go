package middleware

import (
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"gatehouse.example/internal/fair"
)

const (
	// defaultPerHour is the default of [Introspection.PerHour].
	defaultPerHour = 4000
	// knownLife is how long a token that was valid is told from an invented one.
	knownLife = 24 * time.Hour
	// busyPause is how long a provider is not asked that refused an answer and said no time, and
	// maxBusyPause the longest time that is believed (GitHub, "Rate limits for the REST API":
	// wait at least a minute).
	busyPause    = time.Minute
	maxBusyPause = time.Hour
	// faultPause is the same for a provider that failed.
	faultPause = time.Second
)

// busyError is why a provider is not asked, or did not answer, and when to try again.
type busyError struct {
	why   string
	retry time.Duration
}

// Error implements error.
func (e *busyError) Error() string { return e.why }

// Budget counts what providers are asked that count questions ([Introspection.PerHour]). Make one with
// [NewBudget]. It is safe for concurrent use.
type Budget struct {
	mu            sync.Mutex
	known, others time.Time         // when nothing of each is taken
	valid         *memory[struct{}] // the tokens that were valid
	paused        time.Time

	at       time.Time     // of the last question about another token
	networks *fair.Limiter // what each network took of others; nil before the first
}

// NewBudget returns a budget of which nothing is taken.
func NewBudget() *Budget { return &Budget{valid: newMemory[struct{}](defaultCachedTokens)} }

// budget bounds the questions to a provider that counts them: those about tokens that were valid
// before, and those about all others, so that invented tokens take nothing from the first. No network
// may have taken more of the others than there is left, so that who comes new finds some. A nil budget
// has no bounds.
type budget struct {
	*Budget
	ofKnown, ofOthers allowance
}

func newBudget(i Introspection, p Profile) *budget {
	if !p.asksProvider() {
		return nil
	}
	all := i.PerHour
	if all == 0 {
		all = defaultPerHour
	}
	others := max(1, all/4)
	b := &budget{Budget: i.Budget, ofKnown: newAllowance(max(1, all-others)), ofOthers: newAllowance(others)}
	if b.Budget == nil {
		b.Budget = NewBudget()
	}
	return b
}

// take takes the question about a token, which an address sent, from the budget. The error is a
// busyError.
func (b *budget) take(id digest, from netip.Addr, now time.Time) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := b.paused.Sub(now); wait > 0 {
		return &busyError{"the provider asked for a pause", wait}
	}
	var wait time.Duration
	if b.valid.get(id, now) != nil {
		wait = b.ofKnown.take(&b.known, now)
	} else if wait = b.share(from, now); wait == 0 {
		wait = b.ofOthers.take(&b.others, now)
	}
	if wait > 0 {
		return &busyError{"the questions to the provider are used up", wait}
	}
	return nil
}

// share takes one of the others from the share of a network, or returns how long to wait for it. It
// takes none if nothing is left of all.
func (b *budget) share(from netip.Addr, now time.Time) (wait time.Duration) {
	if wait = b.ofOthers.wait(b.others, now); wait > 0 {
		return wait
	}
	if b.at = now; b.networks == nil {
		b.networks = fair.NewLimiter(func() time.Time { return b.at })
	}
	networks, each, all := fair.Networks(from), b.ofOthers.each, b.ofOthers.all()
	need := max(b.others.Sub(now), 0) + each
	owed, done := b.networks.Apply(fair.Debt{Key: networks[len(networks)-1], Per: all, Need: need, Spend: each})
	if done {
		return 0
	}
	return (owed + need - all + 1) / 2 // both become less with time
}

// know records a valid token.
func (b *budget) know(id digest, now time.Time) {
	if b != nil {
		b.valid.put(id, struct{}{}, now, now.Add(knownLife))
	}
}

// pause stops questions after an error that says how long.
func (b *budget) pause(err error, now time.Time) {
	if busy := (*busyError)(nil); b != nil && errors.As(err, &busy) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.paused = now.Add(busy.retry)
	}
}

// allowance is a number of questions that grows again with time.
type allowance struct {
	each  time.Duration // the time for one question
	burst int
}

// newAllowance returns an allowance of so many questions in an hour, and of a fiftieth of them at a time.
func newAllowance(perHour int) allowance {
	return allowance{each: time.Hour / time.Duration(perHour), burst: max(1, perHour/50)}
}

// take takes one question, or returns how long to wait for it. At full, nothing is taken any more.
func (a allowance) take(full *time.Time, now time.Time) (wait time.Duration) {
	if full.Before(now) {
		*full = now
	}
	if wait = a.wait(*full, now); wait == 0 {
		*full = full.Add(a.each)
	}
	return wait
}

// wait returns how long to wait for one question.
func (a allowance) wait(full, now time.Time) time.Duration {
	return max(max(full.Sub(now), 0)+a.each-a.all(), 0)
}

// all is the time for all questions that may be asked at a time.
func (a allowance) all() time.Duration { return time.Duration(a.burst) * a.each }

// pauseOf returns how long not to ask a provider after a response that is no answer: what it asks
// for in Retry-After or, as GitHub does, with the time when its limit is reset.
func pauseOf(status int, header http.Header, now time.Time) time.Duration {
	pause := faultPause
	if status == http.StatusForbidden || status == http.StatusTooManyRequests {
		pause = busyPause
	}
	if seconds, err := strconv.ParseUint(strings.TrimSpace(header.Get("Retry-After")), 10, 31); err == nil {
		pause = time.Duration(seconds) * time.Second
	} else if reset, err := strconv.ParseInt(header.Get("X-Ratelimit-Reset"), 10, 64); err == nil && header.Get("X-Ratelimit-Remaining") == "0" {
		pause = time.Unix(min(max(reset, 0), yearTenThousand), 0).Sub(now)
	}
	return min(max(pause, faultPause), maxBusyPause)
}
