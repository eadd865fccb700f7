package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// unknownKeyPause is how long no keys are fetched after some were, whatever keys tokens
	// name: a stream of invented ones costs the issuer no more. It is one pause for all, so
	// whoever comes last in a stream waits no longer than whoever comes first. A token that
	// may be newer than what is known does not wait for its end, earlyFetches times in a row.
	unknownKeyPause = 30 * time.Second
	earlyFetches    = 4
	// failurePause is how long a failed fetch is not repeated while no keys are known,
	// and stalePause the same while old keys serve.
	failurePause = 2 * time.Second
	stalePause   = 30 * time.Second
	// defaultStaleKeys is how old keys may be that serve while the issuer cannot be reached.
	defaultStaleKeys = 24 * time.Hour
)

// errKeys says that the keys of an issuer cannot be had at the moment.
var errKeys = errors.New("the keys of the issuer are not available")

// errTooFresh says that an issuer may have published a key since its keys were fetched.
var errTooFresh = errors.New("the token names a key that is not known, and may be younger than what is known")

// keyID finds a key: by the id and by the algorithm that it is used with. Without an id it
// is the only key for the algorithm (RFC 7515 section 4.1.4: "kid" is optional).
type keyID struct {
	id        string
	algorithm jose.SignatureAlgorithm
}

// verifyKey is a public key of an issuer, ready for use with one algorithm.
type verifyKey struct {
	public    any
	algorithm jose.SignatureAlgorithm
}

// keySet is what an issuer published, as of one fetch. It never changes.
type keySet struct {
	keys    map[keyID]*verifyKey
	asOf    time.Time // what was published later may be missing
	renew   time.Time // from here on it is renewed in the background
	expires time.Time // from here on a request waits for the renewal
	ends    time.Time // from here on it is of no use, whether or not there is a newer one
}

// key returns the key that a token was signed with, nil if it is not in the set. A token
// that names no key has to fit the only one.
func (s *keySet) key(by *signedBy) *verifyKey {
	if s == nil {
		return nil
	}
	key := s.keys[by.id]
	if key != nil && by.id.id == "" && !by.check(key) {
		return nil // perhaps a newer key took its place
	}
	return key
}

// signedBy is what a token says about its key.
type signedBy struct {
	id      keyID
	issued  time.Time             // by the clock of the issuer
	arrived time.Time             // by ours
	check   func(*verifyKey) bool // whether a key made the signature
}

// decidedBy reports whether a set that lacks the key proves that the issuer does not publish
// it: it was fetched after the token was made, for certain. The clocks may differ; a token
// that was here already was made before whatever came after it.
func (by *signedBy) decidedBy(set *keySet) bool {
	return set != nil && (!set.asOf.Before(by.arrived) || !set.asOf.Before(by.issued.Add(leeway)))
}

// issuer caches the keys of one authorization server. A known key is found without a
// lock. Fetches run one at a time and on their own, so that a request which gives up
// takes nothing away from the others.
type issuer struct {
	name  string
	urls  []string
	fetch *fetcher
	asks  *introspector // nil where tokens are judged by themselves alone
	stale time.Duration // how old keys may be that serve
	now   func() time.Time
	log   *slog.Logger

	current atomic.Pointer[keySet]

	mu     sync.Mutex
	flight chan struct{} // closed when the fetch in progress ends; nil without one
	failed error         // outcome of the last fetch
	pause  time.Time     // no new fetch before
	early  time.Time     // the same for a token that may be newer than the keys
}

// key returns a key of the issuer, and the set that it is in. The error is a [challenge]
// when the issuer has no such key, and wraps errKeys when that cannot be known. What nobody
// knows is never 401: a client would throw a good token away. But once the keys are newer
// than the token it is, or clients of an issuer that lost its keys would never sign in again.
func (i *issuer) key(ctx context.Context, by signedBy) (*verifyKey, *keySet, error) {
	by.arrived = i.now()
	set := i.current.Load()
	if key := set.key(&by); key != nil && (by.arrived.Before(set.expires) || by.arrived.Before(set.ends) && i.failing()) {
		if !by.arrived.Before(set.renew) {
			i.start(set, false)
		}
		return key, set, nil
	}
	for range 2 { // a fetch that was in progress may have begun too early
		err := i.renewed(ctx, set, set != nil && !by.decidedBy(set))
		set = i.current.Load()
		key := set.key(&by)
		switch {
		case key != nil && i.now().Before(set.ends):
			return key, set, nil // perhaps stale: the issuer is down, and its tokens still are good
		case key == nil && by.decidedBy(set):
			return nil, nil, invalid("The access token is signed with a key that its issuer does not publish.")
		case err != nil:
			return nil, nil, err
		}
	}
	return nil, nil, i.wait(errTooFresh)
}

// failing reports whether the last fetch failed. Then the old keys serve at once, because
// an issuer that hangs would make every request wait for what it gets anyway.
func (i *issuer) failing() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.failed != nil
}

// renewed waits for a fetch that is newer than seen, unless there was one a moment ago.
// It returns the failure of the last fetch.
func (i *issuer) renewed(ctx context.Context, seen *keySet, early bool) error {
	flight := i.start(seen, early)
	if flight != nil {
		select {
		case <-flight:
		case <-ctx.Done():
			return fmt.Errorf("middleware: issuer %s: %w: %w", i.name, errKeys, ctx.Err())
		}
	}
	i.mu.Lock()
	failed := i.failed
	i.mu.Unlock()
	if failed == nil {
		return nil
	}
	return i.wait(failed)
}

// wait is the error of a token that can be judged after the next fetch.
func (i *issuer) wait(cause error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	pause := i.pause
	if errors.Is(cause, errTooFresh) {
		pause = i.early
	}
	return &keysError{issuer: i.name, cause: cause, retry: pause.Sub(i.now())}
}

// start joins the fetch in progress or begins one, and returns a channel that is closed
// when it ends. It returns nil when the keys are newer than those seen, or when the
// last fetch was a moment ago; early is for a token that those keys cannot judge.
func (i *issuer) start(seen *keySet, early bool) <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.flight != nil {
		return i.flight
	}
	pause := i.pause
	if early {
		pause = i.early
	}
	if i.current.Load() != seen || i.now().Before(pause) {
		return nil
	}
	flight, began := make(chan struct{}), i.now()
	i.flight = flight
	go func() {
		got, err := i.fetch.keys(context.Background(), i.name, i.urls)
		i.land(began, got, err)
		close(flight)
	}()
	return flight
}

// land records the outcome of a fetch.
func (i *issuer) land(began time.Time, got fetched, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	i.flight, i.failed = nil, err
	if err == nil {
		i.current.Store(i.setOf(began.Add(-got.held), now, got))
		i.pause = now.Add(unknownKeyPause)
		if rested := now.Add(-earlyFetches * unknownKeyPause); i.early.Before(rested) {
			i.early = rested
		}
		i.early = i.early.Add(unknownKeyPause)
		return
	}
	i.pause = now.Add(failurePause)
	set := i.current.Load()
	stale := set != nil && now.Before(set.ends)
	if stale {
		i.pause = now.Add(stalePause)
	}
	if i.early.Before(i.pause) {
		i.early = i.pause
	}
	i.log.Warn("cannot fetch the keys of an issuer", slog.String("issuer", i.name),
		slog.Bool("old_keys_serve", stale), slog.Any("error", err))
}

// setOf is what was fetched, with its times. Keys serve for as long as the issuer said, and
// while it cannot be reached until they are too old: whoever took a key away from it must not
// gain more by keeping us from it.
func (i *issuer) setOf(asOf, now time.Time, got fetched) *keySet {
	set := &keySet{keys: got.keys, asOf: asOf, renew: now.Add(got.life * 4 / 5), expires: now.Add(got.life), ends: asOf.Add(i.stale)}
	if set.ends.Before(set.expires) {
		set.ends = set.expires
	}
	return set
}

// keysError says why the keys of an issuer cannot be had, and when to try again.
type keysError struct {
	issuer string
	cause  error
	retry  time.Duration
}

// Error implements error.
func (e *keysError) Error() string {
	return fmt.Sprintf("middleware: issuer %s: %v: %v", e.issuer, errKeys, e.cause)
}

// Unwrap returns the kind and the cause.
func (e *keysError) Unwrap() []error { return []error{errKeys, e.cause} }

// unavailable is the answer while a token cannot be judged. It is not 401: the token may
// be good, and a client that is told otherwise throws it away.
func unavailable(err error) challenge {
	c := challenge{status: http.StatusServiceUnavailable, code: "temporarily_unavailable", retryAfter: 1,
		description: "The access token cannot be checked at the moment."}
	var keys *keysError
	if errors.As(err, &keys) {
		c.retryAfter = max(1, int((keys.retry+time.Second-1)/time.Second))
	}
	return c
}
