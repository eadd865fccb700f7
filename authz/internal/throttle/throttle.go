// Package throttle bounds guessing and registering, by network beside by name, so that
// nobody is locked out and nobody's flood is another one's trouble.
//
// [Throttle] counts attempts to sign in and wrong secrets of clients in constant memory, in
// this process only. What strangers send is never kept, so no flood of invented names ends a
// count.
//
//	attempt, wait := throttle.Begin(throttle.SignIn{Name: name, From: addr, Device: device})
//	if wait > 0 {
//		return tooMany(wait)
//	}
//	if right { attempt.Right() }
//
// What is refused, all of it for single networks (see [fair.ByNetwork]) and at this moment
// only: more than 30 failures for one name in ten minutes, or 4 while many networks fail at
// that name; more than 100 failures whatever the names; more than 3000 sign-ins. A browser
// that signed in before as the same person has 20 failures of its own, which count for no
// network.
package throttle

import (
	"net/netip"
	"time"

	"gatehouse.example/internal/fair"
)

// period is how long it takes until everything that was used up is there again.
const period = 10 * time.Minute

// What one network may do in a period. A wider one may do more.
var (
	failuresPerName        = fair.Limit{Burst: 30, Per: period}
	failuresPerSprayedName = fair.Limit{Burst: 4, Per: period}
	failuresPerNetwork     = fair.Limit{Burst: 100, Per: period}
	signInsPerNetwork      = fair.Limit{Burst: 3000, Per: period}
	wrongPerClient         = fair.Limit{Burst: 20, Per: period}
	wrongPerNetwork        = fair.Limit{Burst: 200, Per: period}
)

// What one browser may do that signed in before as the same person.
var (
	failuresPerDevice = fair.Limit{Burst: 20, Per: period}
	signInsPerDevice  = fair.Limit{Burst: 100, Per: period}
)

// noisy is how many failures make a network stand in line behind those with fewer.
var noisy = fair.Limit{Burst: 3, Per: time.Hour}

// sprayed is how many failures for a name, from everywhere, make every network have fewer.
var sprayed = fair.Limit{Burst: 200, Per: time.Hour}

// Throttle counts attempts to sign in and wrong secrets. It is safe for concurrent use.
//
// What stops somebody is counted apart from what does not, and known browsers apart from
// strangers: in constant memory keys share places, and a flood in one count must not fill
// another.
type Throttle struct{ strangers, known, soft, secrets *fair.Limiter }

// New returns a Throttle that has counted nothing, and reads the time from now.
func New(now func() time.Time) *Throttle {
	return &Throttle{fair.NewLimiter(now), fair.NewLimiter(now), fair.NewLimiter(now), fair.NewLimiter(now)}
}

// SignIn is an attempt to sign in.
type SignIn struct {
	// Name is the name of a person in its one spelling, "" for what can be nobody's.
	Name string
	// From is where the attempt comes from.
	From netip.Addr
	// Device tells browsers apart that have signed in as this very person before; "" for
	// all others.
	Device string
}

// The lanes of attempts. None takes the turns of another.
const (
	LaneKnown = "known" // browsers that signed in before
	LaneQuiet = "quiet" // networks with few failures in the last hour
	LaneNoisy = "noisy" // all others
)

// Attempt is an attempt that may be made. It counts as a failure until something else is
// said.
type Attempt struct {
	// Lane is where it waits for its turn.
	Lane string

	limiter *fair.Limiter
	failed  []fair.Bucket // taken, and counted back if it did not fail
	forget  []fair.Bucket // failures that the right password makes up for
	right   []fair.Bucket // taken by a right password

	soft  *fair.Limiter
	noise []fair.Bucket // like failed, but what is used up here stops nobody
}

// Begin counts an attempt as a failure, or returns how long none may be made. A known
// browser that has used up what is its own is like any other.
func (t *Throttle) Begin(s SignIn) (*Attempt, time.Duration) {
	if s.Device != "" {
		if a, wait := t.knownBrowser(s).begin(); wait == 0 {
			return a, 0
		}
	}
	return t.stranger(s).begin()
}

// Wait returns how long a browser that has not signed in before may make no attempt, and
// counts nothing. What it refuses, [Throttle.Begin] would refuse too.
func (t *Throttle) Wait(s SignIn) time.Duration {
	a := t.stranger(s)
	return max(a.limiter.Wait(1, a.right...), a.limiter.Wait(1, a.failed...))
}

func (a *Attempt) begin() (*Attempt, time.Duration) {
	if wait := a.limiter.Wait(1, a.right...); wait > 0 {
		return nil, wait
	}
	if wait := a.limiter.Take(1, a.failed...); wait > 0 {
		return nil, wait
	}
	a.soft.Spend(1, a.noise...)
	return a, 0
}

func (t *Throttle) knownBrowser(s SignIn) *Attempt {
	failed := []fair.Bucket{{Key: "failed device " + s.Device, Limit: failuresPerDevice}}
	return &Attempt{
		Lane: LaneKnown, limiter: t.known, soft: t.soft, failed: failed, forget: failed,
		right: []fair.Bucket{{Key: "signed in device " + s.Device, Limit: signInsPerDevice}},
	}
}

func (t *Throttle) stranger(s SignIn) *Attempt {
	everywhere := fair.Bucket{Key: "failed name " + s.Name, Limit: sprayed}
	perName := failuresPerName
	if t.soft.Wait(1, everywhere) > 0 {
		perName = failuresPerSprayedName
	}
	noise, lane := fair.ByNetwork(s.From, "noise of", noisy), LaneQuiet
	if t.soft.Wait(1, noise...) > 0 {
		lane = LaneNoisy
	}
	named := fair.ByNetwork(s.From, "failed "+s.Name+" from", perName)
	return &Attempt{
		Lane: lane, limiter: t.strangers, soft: t.soft, noise: append(noise, everywhere), forget: named[:1:1],
		failed: append(named, fair.ByNetwork(s.From, "failed from", failuresPerNetwork)...),
		right:  fair.ByNetwork(s.From, "signed in from", signInsPerNetwork),
	}
}

// Right says that the password was right. What failed before for this name from the same
// address is forgotten: whoever has the password does not guess.
func (a *Attempt) Right() {
	a.Void()
	for _, share := range a.forget {
		a.limiter.Return(share.Limit.Burst, share)
	}
	a.limiter.Spend(1, a.right...)
}

// Void says that nothing was compared.
func (a *Attempt) Void() {
	a.limiter.Return(1, a.failed...)
	a.soft.Return(1, a.noise...)
}

// Wrong counts a wrong secret of a client or resource server, whatever kind of secret it
// is. A wait says that too many came from this network, for this id or for others, and how
// long it should send none.
func (t *Throttle) Wrong(id string, from netip.Addr) (wait time.Duration) {
	shares := append(fair.ByNetwork(from, "wrong "+id+" from", wrongPerClient), fair.ByNetwork(from, "wrong from", wrongPerNetwork)...)
	return t.secrets.Take(1, shares...)
}
