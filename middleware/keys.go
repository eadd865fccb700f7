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
	// unknownKeyPause is how long a key that the issuer did not publish is believed not
	// to exist. It keeps a stream of invented key ids away from the issuer.
	unknownKeyPause = 30 * time.Second
	// failurePause is how long a failed fetch is not repeated while no keys are known,
	// and stalePause the same while old keys serve.
	failurePause = 2 * time.Second
	stalePause   = 30 * time.Second
)

// errKeys says that the keys of an issuer cannot be had at the moment.
var errKeys = errors.New("the keys of the issuer are not available")

// keyID finds a key: by the id and by the algorithm that it is used with.
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
	renew   time.Time // from here on it is renewed in the background
	expires time.Time // from here on a request waits for the renewal
}

// issuer caches the keys of one authorization server. A known key is found without a
// lock. Fetches run one at a time and on their own, so that a request which gives up
// takes nothing away from the others.
type issuer struct {
	name  string
	urls  []string
	fetch *fetcher
	asks  *introspector // nil where tokens are judged by themselves alone
	now   func() time.Time
	log   *slog.Logger

	current atomic.Pointer[keySet]

	mu     sync.Mutex
	flight chan struct{} // closed when the fetch in progress ends; nil without one
	failed error         // outcome of the last fetch
	pause  time.Time     // no new fetch before
}

// key returns a key of the issuer, and the set that it is in. The error is a [challenge]
// when the issuer has no such key, and wraps errKeys when that cannot be known.
func (i *issuer) key(ctx context.Context, id keyID) (*verifyKey, *keySet, error) {
	now := i.now()
	set := i.current.Load()
	if set != nil {
		if key, ok := set.keys[id]; ok && (now.Before(set.expires) || i.failing()) {
			if !now.Before(set.renew) {
				i.start(set)
			}
			return key, set, nil
		}
	}
	err := i.renewed(ctx, set)
	if set = i.current.Load(); set != nil {
		if key, ok := set.keys[id]; ok {
			return key, set, nil // perhaps stale: the issuer is down, and its tokens still are good
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return nil, nil, invalid("The access token is signed with a key that its issuer does not publish.")
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
func (i *issuer) renewed(ctx context.Context, seen *keySet) error {
	flight := i.start(seen)
	if flight != nil {
		select {
		case <-flight:
		case <-ctx.Done():
			return fmt.Errorf("middleware: issuer %s: %w: %w", i.name, errKeys, ctx.Err())
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.failed == nil {
		return nil
	}
	return &keysError{issuer: i.name, cause: i.failed, retry: i.pause.Sub(i.now())}
}

// start joins the fetch in progress or begins one, and returns a channel that is closed
// when it ends. It returns nil when the keys are newer than those seen, or when the
// last fetch was a moment ago.
func (i *issuer) start(seen *keySet) <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.flight != nil {
		return i.flight
	}
	if i.current.Load() != seen || i.now().Before(i.pause) {
		return nil
	}
	flight := make(chan struct{})
	i.flight = flight
	go func() {
		keys, age, err := i.fetch.keys(context.Background(), i.name, i.urls)
		i.land(keys, age, err)
		close(flight)
	}()
	return flight
}

// land records the outcome of a fetch.
func (i *issuer) land(keys map[keyID]*verifyKey, age time.Duration, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	i.flight, i.failed = nil, err
	if err == nil {
		i.current.Store(&keySet{keys: keys, renew: now.Add(age * 4 / 5), expires: now.Add(age)})
		i.pause = now.Add(unknownKeyPause)
		return
	}
	i.pause = now.Add(failurePause)
	stale := i.current.Load() != nil
	if stale {
		i.pause = now.Add(stalePause)
	}
	i.log.Warn("cannot fetch the keys of an issuer", slog.String("issuer", i.name),
		slog.Bool("old_keys_serve", stale), slog.Any("error", err))
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
