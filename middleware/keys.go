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
	// unknownKeyPause is the pause after a successful fetch in which unknown key ids start no
	// further fetch, so that a stream of invented ids costs the issuer no more than that. All
	// key ids share one pause, so the last request of a stream waits no longer than the first.
	// A token that may be newer than the keys does not wait for its end, earlyFetches times in
	// a row.
	unknownKeyPause = 30 * time.Second
	earlyFetches    = 4
	// failurePause is the pause after a failed fetch while there are no keys, and stalePause
	// while old keys are in use.
	failurePause = 2 * time.Second
	stalePause   = 30 * time.Second
	// defaultStaleKeys is the maximum age of keys while the issuer cannot be reached.
	defaultStaleKeys = 24 * time.Hour
)

// errKeys means that the keys of an issuer are not available at the moment.
var errKeys = errors.New("the keys of the issuer are not available")

// errTooFresh means that the issuer may have published a key since its keys were fetched.
var errTooFresh = errors.New("the token names a key that is not known, and may be younger than the known keys")

// errUnknownKey is the refusal of a token whose issuer certainly does not publish its key.
var errUnknownKey = invalid("The access token is signed with a key that its issuer does not publish.")

// keyID identifies a key of an issuer by its "kid" and its algorithm. With an empty id it
// stands for the only key for the algorithm (RFC 7515 section 4.1.4: "kid" is optional).
type keyID struct {
	id        string
	algorithm jose.SignatureAlgorithm
}

// verifyKey is a public key of an issuer, ready for use with one algorithm.
type verifyKey struct {
	public    any
	algorithm jose.SignatureAlgorithm
}

// keySet is the immutable result of one fetch of the keys of an issuer.
type keySet struct {
	keys    map[keyID]*verifyKey
	asOf    time.Time // keys that were published later may be missing
	renew   time.Time // from then on, requests start a fetch in the background
	expires time.Time // from then on, requests wait for the fetch
	ends    time.Time // from then on, the keys are not used, even if the issuer cannot be reached
}

// key returns the key of a token, nil if it is not in the set. For a token without "kid" it
// returns the only key for the algorithm, if that made the signature.
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

// signedBy describes the signature of a token, to find its key.
type signedBy struct {
	id      keyID
	issued  time.Time             // by the clock of the issuer
	arrived time.Time             // by the clock of this server
	leeway  time.Duration         // the accepted difference of the two
	check   func(*verifyKey) bool // whether a key made the signature
}

// decidedBy reports whether a set without the key proves that the issuer does not publish it:
// the set was certainly fetched after the token was issued, because it was fetched after the
// token arrived, or after its time of issue with leeway for the difference of the clocks.
func (by *signedBy) decidedBy(set *keySet) bool {
	return set != nil && (!set.asOf.Before(by.arrived) || !set.asOf.Before(by.issued.Add(by.leeway)))
}

// issuer caches the keys of one authorization server, for all guards that share it. A known key is found without a lock.
// Fetches run one at a time, in a goroutine of their own, so that a request that is cancelled
// does not cancel the fetch for the others.
type issuer struct {
	name     string
	as       Issuer // as it is configured
	rules    *tokenRules
	headers  headers
	urls     []string // of the metadata
	keysAt   string   // the URL of the keys; "" if the metadata names it
	fixed    bool     // whether the keys never change
	fetch    *fetcher
	endpoint endpoint      // for introspection
	stale    time.Duration // the maximum age of keys while the issuer cannot be reached
	now      func() time.Time
	log      *slog.Logger
	watch    Hook

	current atomic.Pointer[keySet]

	mu     sync.Mutex
	flight chan struct{} // closed when the fetch in progress ends; nil without one
	failed error         // the error of the last fetch
	pause  time.Time     // no new fetch before
	early  time.Time     // the same for a token that may be newer than the keys
}

// key returns the key of a token, and the set that it is in. The error is a [challenge] when
// the issuer has no such key, and wraps errKeys when the guard cannot know that. The latter
// must not become 401, because the client would discard a good token. Once the keys are newer
// than the token, an unknown key is 401: otherwise clients of an issuer that lost its keys
// would never sign in again.
func (i *issuer) key(ctx context.Context, by signedBy) (*verifyKey, *keySet, error) {
	by.arrived, by.leeway = i.now(), i.rules.leeway
	set := i.current.Load()
	if key := set.key(&by); key != nil && i.usable(ctx, set, by.arrived) {
		return key, set, nil
	}
	return i.fetchedKey(ctx, set, &by)
}

// usable reports whether requests may use a set without waiting for a fetch. It starts one in
// the background when the set is due for renewal.
func (i *issuer) usable(ctx context.Context, set *keySet, now time.Time) bool {
	if !now.Before(set.expires) && (!now.Before(set.ends) || !i.failing()) {
		return false
	}
	if !now.Before(set.renew) {
		i.start(ctx, set, false)
	}
	return true
}

// fetchedKey is [issuer.key] for a key that is not in set, or for a set that has expired.
func (i *issuer) fetchedKey(ctx context.Context, set *keySet, by *signedBy) (*verifyKey, *keySet, error) {
	if i.fixed {
		return nil, nil, errUnknownKey
	}
	for range 2 { // the first may join a fetch that began before the token was issued
		err := i.renewed(ctx, set, set != nil && !by.decidedBy(set))
		set = i.current.Load()
		key := set.key(by)
		switch {
		case key != nil && i.now().Before(set.ends):
			return key, set, nil // perhaps stale: the issuer is down, but its tokens are still good
		case key == nil && by.decidedBy(set):
			return nil, nil, errUnknownKey
		case err != nil:
			return nil, nil, err
		}
	}
	return nil, nil, i.wait(errTooFresh)
}

// failing reports whether the last fetch failed. Requests then use the old keys at once: if the
// issuer hangs, each of them would otherwise wait and still get the old keys.
func (i *issuer) failing() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.failed != nil
}

// renewed waits for a fetch that is newer than seen, unless the pause after the last one has
// not passed. It returns the error of the last fetch.
func (i *issuer) renewed(ctx context.Context, seen *keySet, early bool) error {
	flight := i.start(ctx, seen, early)
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

// wait returns the error for a token that can be verified after the next fetch.
func (i *issuer) wait(cause error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	pause := i.pause
	if errors.Is(cause, errTooFresh) {
		pause = i.early
	}
	return &keysError{issuer: i.name, cause: cause, retry: pause.Sub(i.now())}
}

// start joins the fetch in progress or begins one, and returns a channel that is closed when
// the fetch ends. It returns nil when the keys are newer than seen, or during the pause after
// the last fetch. early selects the pause for a token that may be newer than the keys.
func (i *issuer) start(ctx context.Context, seen *keySet, early bool) <-chan struct{} {
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
	ctx = i.watch.outlived(ctx)
	go func() {
		got, err := i.fetchKeys(ctx)
		i.land(began, got, err)
		close(flight)
	}()
	return flight
}

// land records the result of a fetch.
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

// setOf returns the key set of a fetch. Its keys are used for as long as the issuer allowed,
// and while the issuer cannot be reached until they are i.stale old: an attacker with a key
// that the issuer withdrew must not extend its use by blocking the way to the issuer.
func (i *issuer) setOf(asOf, now time.Time, got fetched) *keySet {
	set := &keySet{keys: got.keys, asOf: asOf, renew: now.Add(got.life * 4 / 5), expires: now.Add(got.life), ends: asOf.Add(i.stale)}
	if set.ends.Before(set.expires) {
		set.ends = set.expires
	}
	return set
}

// keysError is an error about the keys of an issuer, with the time until the next fetch.
type keysError struct {
	issuer string
	cause  error
	retry  time.Duration
}

// Error implements error.
func (e *keysError) Error() string {
	return fmt.Sprintf("middleware: issuer %s: %v: %v", e.issuer, errKeys, e.cause)
}

// Unwrap returns errKeys and the cause.
func (e *keysError) Unwrap() []error { return []error{errKeys, e.cause} }

// unavailable returns the refusal for a token that cannot be verified at the moment. Its status
// is not 401: the token may be good, and on 401 the client would discard it.
func unavailable(err error) challenge {
	c := challenge{status: http.StatusServiceUnavailable, code: "temporarily_unavailable", retryAfter: 1,
		description: "The access token cannot be checked at the moment."}
	var keys *keysError
	if errors.As(err, &keys) {
		c.retryAfter = max(1, int((keys.retry+time.Second-1)/time.Second))
	}
	if busy := (*busyError)(nil); errors.As(err, &busy) {
		c.retryAfter = max(1, int((busy.retry+time.Second-1)/time.Second))
	}
	return c
}
