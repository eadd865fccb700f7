// Package throttle slows down guessing of passwords and secrets. It limits attempts by
// network as well as by name, so that an attacker can neither lock a person out nor use up
// the attempts of other networks.
//
// [Throttle] counts attempts to sign in and wrong secrets of clients, in constant memory: attempts
// for all processes that share a store, wrong secrets in this process only. It does not store names
// that requests contain, so a flood of invented names cannot displace a count.
//
//	attempt, wait := throttle.Begin(throttle.SignIn{Name: name, From: addr, Device: device})
//	if wait > 0 {
//		return tooMany(wait)
//	}
//	settle := attempt.Wrong
//	if right {
//		settle = attempt.Right
//	}
//	if wait, err := settle(ctx); wait > 0 || err != nil { … }
//
// All limits apply to single networks (see [fair.ByNetwork]) and are temporary: 30 failures
// for one name in ten minutes, or 4 while many networks fail at that name; 100 failures for
// all names; 3000 sign-ins. A browser that signed in before as the same person has 20
// failures of its own, which do not count for its network.
package throttle

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"gatehouse.example/internal/fair"
)

// period is the time after which a used-up limit is fully available again.
const period = 10 * time.Minute

// The limits of one network. Wider networks have higher limits.
var (
	failuresPerName        = fair.Limit{Burst: 30, Per: period}
	failuresPerSprayedName = fair.Limit{Burst: 4, Per: period}
	failuresPerNetwork     = fair.Limit{Burst: 100, Per: period}
	signInsPerNetwork      = fair.Limit{Burst: 3000, Per: period}
	wrongPerClient         = fair.Limit{Burst: 20, Per: period}
	wrongPerNetwork        = fair.Limit{Burst: 200, Per: period}
)

// The limits on wrong second factors, which only who knows the password can send: for a browser
// that signed in before, for one network, and for all networks together. A code of six digits has
// three right values at a time, so the last limit leaves a chance of one in a thousand a day.
var (
	codesPerDevice  = fair.Limit{Burst: 10, Per: period}
	codesPerNetwork = fair.Limit{Burst: 10, Per: period}
	codesPerPerson  = fair.Limit{Burst: 15, Per: time.Hour}
)

// The limits of one browser that signed in before as the same person.
var (
	failuresPerDevice = fair.Limit{Burst: 20, Per: period}
	signInsPerDevice  = fair.Limit{Burst: 100, Per: period}
)

// noisyLimit is the number of failures after which a network waits behind those with fewer.
var noisyLimit = fair.Limit{Burst: 3, Per: time.Hour}

// sprayLimit is the number of failures for a name, from all networks together, after which
// each network has fewer attempts for that name.
var sprayLimit = fair.Limit{Burst: 200, Per: time.Hour}

// The limiters of attempts, as areas of what processes share.
const (
	areaUnknown = iota
	areaKnown
	areaSoft
	areaCodes
)

// Throttle counts attempts to sign in and wrong secrets. It is safe for concurrent use.
//
// Counts that refuse attempts are kept apart from those that do not (soft), and those of
// known browsers from those of others: in constant memory keys share places, and a flood of
// one kind of count must not fill another.
type Throttle struct {
	unknown, known, soft, secrets, codes *fair.Limiter

	shared *fair.Shared // attempts of all processes; nil if this one is alone
}

// New returns a Throttle without counts. now is its clock. With a counter, attempts to sign in
// count for all processes that have the same; nil counts in this process only.
func New(now func() time.Time, count fair.Counter) *Throttle {
	limiter := func() *fair.Limiter { return fair.NewLimiter(now) }
	t := &Throttle{unknown: limiter(), known: limiter(), soft: limiter(), secrets: limiter(), codes: limiter()}
	if count != nil {
		t.shared = fair.NewShared(count, t.unknown, t.known, t.soft, t.codes)
	}
	return t
}

// SignIn is an attempt to sign in.
type SignIn struct {
	// Name is the canonical name of a person, or "" if the input cannot be a name. For
	// [Throttle.BeginCode] it is what stays with the person for good.
	Name string
	// From is the address from which the attempt comes.
	From netip.Addr
	// Device identifies a browser that has signed in as the same person before; "" for all
	// others.
	Device string
}

// The lanes in which attempts wait. None takes the turns of another, and unknown browsers take no
// room from those that are known. Among unknown ones the network with most is turned away, quiet or
// noisy.
const (
	LaneKnown = "known"         // browsers that signed in before
	LaneQuiet = "unknown/quiet" // networks with few failures in the last hour
	LaneNoisy = "unknown/noisy" // all others
)

// Attempt is a permitted attempt. In this process it counts as a failure unless [Attempt.Right] or
// [Attempt.Void] is called; for all processes it counts with [Attempt.Right] and [Attempt.Wrong],
// which decide whether the caller may be told what the password was. So however many attempts are
// in flight at once, in however many processes, the limits hold exactly: an attempt beyond them gets
// no answer.
type Attempt struct {
	// Lane is the lane in which the attempt waits.
	Lane string

	shared  *fair.Shared
	area    int
	limiter *fair.Limiter
	failed  []fair.Bucket // taken at the beginning, returned if the attempt did not fail
	refund  []fair.Bucket // returned in full after the right password
	right   []fair.Bucket // taken by the right password

	soft  *fair.Limiter
	noise []fair.Bucket // like failed, but without refusing attempts
}

// Begin counts an attempt as a failure and returns it. If a limit is reached, it returns nil
// and the time to wait. A known browser that has used up its own limits is treated like an
// unknown one.
func (t *Throttle) Begin(s SignIn) (*Attempt, time.Duration) {
	if s.Device != "" {
		if a, wait := t.knownBrowser(s).begin(); wait == 0 {
			return a, 0
		}
	}
	return t.unknownBrowser(s).begin()
}

// BeginCode is [Throttle.Begin] for a second factor, after the right password of a person. Wrong
// codes of browsers that signed in before do not count for the person, and those of others do not
// keep them out: whoever guesses cannot lock the person out of their own browser.
func (t *Throttle) BeginCode(s SignIn) (*Attempt, time.Duration) {
	a := &Attempt{Lane: LaneQuiet, shared: t.shared, area: areaCodes, limiter: t.codes, soft: t.soft}
	if s.Device != "" {
		a.failed = []fair.Bucket{{Key: "code of device " + s.Device, Limit: codesPerDevice}}
		return a.begin()
	}
	a.failed = append(fair.ByNetwork(s.From, "code of "+s.Name+" from", codesPerNetwork), fair.Bucket{Key: "code of " + s.Name, Limit: codesPerPerson})
	return a.begin()
}

// Wait returns the time to wait before [Throttle.Begin] permits an attempt of a browser that
// has not signed in before. It counts nothing.
func (t *Throttle) Wait(s SignIn) time.Duration {
	a := t.unknownBrowser(s)
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
		Lane: LaneKnown, shared: t.shared, area: areaKnown, limiter: t.known, soft: t.soft, failed: failed, refund: failed,
		right: []fair.Bucket{{Key: "signed in device " + s.Device, Limit: signInsPerDevice}},
	}
}

func (t *Throttle) unknownBrowser(s SignIn) *Attempt {
	everywhere := fair.Bucket{Key: "failed name " + s.Name, Limit: sprayLimit}
	perName := failuresPerName
	if t.soft.Wait(1, everywhere) > 0 {
		perName = failuresPerSprayedName
	}
	noise, lane := fair.ByNetwork(s.From, "noise of", noisyLimit), LaneQuiet
	if t.soft.Wait(1, noise...) > 0 {
		lane = LaneNoisy
	}
	named := fair.ByNetwork(s.From, "failed "+s.Name+" from", perName)
	return &Attempt{
		Lane: lane, shared: t.shared, area: areaUnknown, limiter: t.unknown, soft: t.soft, noise: append(noise, everywhere), refund: named[:1:1],
		failed: append(named, fair.ByNetwork(s.From, "failed from", failuresPerNetwork)...),
		right:  fair.ByNetwork(s.From, "signed in from", signInsPerNetwork),
	}
}

// Right records that the password was right. Earlier failures for this name from the same
// address no longer count, because a client with the password does not guess. A wait above zero
// means that the limits were reached meanwhile, in some process: then nobody may be signed in.
func (a *Attempt) Right(ctx context.Context) (wait time.Duration, err error) {
	a.Void()
	for _, bucket := range a.refund {
		a.limiter.Return(bucket.Limit.Burst, bucket)
	}
	a.limiter.Spend(1, a.right...)
	charges := slices.Concat(fair.Checks(1, a.failed...), fair.Takes(1, a.right...))
	for _, bucket := range a.refund {
		charges = append(charges, fair.Spends(-bucket.Limit.Burst, bucket)...)
	}
	return a.settle(ctx, fair.In(a.area, charges))
}

// Wrong records that the password was wrong. A wait above zero means that the limits were reached
// meanwhile, in some process: then the caller must not be told that it was wrong.
func (a *Attempt) Wrong(ctx context.Context) (wait time.Duration, err error) {
	charges := slices.Concat(fair.Takes(1, a.failed...), fair.Checks(1, a.right...))
	return a.settle(ctx, append(fair.In(a.area, charges), fair.In(areaSoft, fair.Spends(1, a.noise...))...))
}

func (a *Attempt) settle(ctx context.Context, charges []fair.Charge) (wait time.Duration, err error) {
	if a.shared == nil {
		return 0, nil
	}
	return a.shared.Settle(ctx, charges)
}

// Void records that no password was compared.
func (a *Attempt) Void() {
	a.limiter.Return(1, a.failed...)
	a.soft.Return(1, a.noise...)
}

// Wrong counts a wrong secret of a client or resource server, of any kind. A wait above zero
// means that too many came from this network, for this id or for all ids; the client should
// not try again before.
func (t *Throttle) Wrong(id string, from netip.Addr) (wait time.Duration) {
	buckets := append(fair.ByNetwork(from, "wrong "+id+" from", wrongPerClient), fair.ByNetwork(from, "wrong from", wrongPerNetwork)...)
	return t.secrets.Take(1, buckets...)
}
