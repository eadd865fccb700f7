package keyring_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/storage"
)

// flaky is a memory with a switch: while it is down, every reading fails, after a delay that
// takes no time in a bubble.
type flaky struct {
	*memory
	mu   sync.Mutex
	down bool
	took time.Duration
}

func (f *flaky) setDown(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

func (f *flaky) Get(ctx context.Context, key string) (storage.Item, error) {
	item, err := f.memory.Get(ctx, key)
	f.mu.Lock()
	down, took := f.down, f.took
	f.mu.Unlock()
	time.Sleep(took)
	if down {
		return storage.Item{}, errors.New("the connection is closed")
	}
	return item, err
}

// readings returns the number of readings of the store during call.
func (f *flaky) readings(call func()) int {
	count := func() int {
		f.memory.mu.Lock()
		defer f.memory.mu.Unlock()
		return f.gets
	}
	before := count()
	call()
	return count() - before
}

func newFlaky() *flaky { return &flaky{memory: newMemory()} }

// unknownKeyTokens returns a function that makes tokens which differ from valid ones only in
// their unknown key ids. Each id has the form of a thumbprint.
func unknownKeyTokens(t *testing.T) (token func() string) {
	t.Helper()
	return func() string {
		store := bubbleStore(t, newMemory())
		open(t, timed(store))
		return forged(t, activeKey(t, store))
	}
}

// rotateElsewhere makes another process activate a key at once, and returns a token of it.
func rotateElsewhere(t *testing.T, backend storage.Backend) string {
	t.Helper()
	store := bubbleStore(t, backend)
	if _, err := keyring.Rotate(t.Context(), timed(store), true); err != nil {
		t.Fatal(err)
	}
	return tokenFor(t, open(t, timed(store)), tokenLife)
}

// TestActivatedElsewhere: a token of a key that another process activated at once is
// accepted, whenever the keys were read last and whatever other ids are looked up.
func TestActivatedElsewhere(t *testing.T) {
	t.Parallel()
	for _, since := range []time.Duration{0, time.Millisecond, 199 * time.Millisecond, time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			backend := newFlaky()
			here := open(t, timed(bubbleStore(t, backend)))
			defer run(t, here)()
			invent := unknownKeyTokens(t)
			token := rotateElsewhere(t, backend.memory)
			time.Sleep(since)
			if _, err := here.Verify(invent()); !errors.Is(err, keyring.ErrToken) {
				t.Errorf("after %s: an invented key: %v", since, err)
			}
			if _, err := here.Verify(token); err != nil {
				t.Errorf("after %s: a key from elsewhere: %v", since, err)
			}
			again := rotateElsewhere(t, backend.memory)
			if _, err := here.Verify(again); err != nil {
				t.Errorf("after %s: another one, right after a reading: %v", since, err)
			}
		})
	}
}

// TestInventedKeys: a stream of invented key ids is refused, costs few readings, and delays
// no caller for long; a known key costs none.
func TestInventedKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := newFlaky()
		ring := open(t, timed(bubbleStore(t, backend)))
		invent := unknownKeyTokens(t)
		invented := []string{invent(), invent(), invent()}
		known := tokenFor(t, ring, time.Minute)
		const callers, lasting = 40, 2 * time.Second
		end := time.Now().Add(lasting)
		var asked int
		var mu sync.Mutex
		readings := backend.readings(func() {
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					for time.Now().Before(end) {
						began := time.Now()
						_, err := ring.Verify(invented[i%len(invented)])
						if took := time.Since(began); !errors.Is(err, keyring.ErrToken) || took > 400*time.Millisecond {
							t.Errorf("after %s: %v", took, err)
						}
						mu.Lock()
						asked++
						mu.Unlock()
						time.Sleep(time.Duration(i+1) * time.Millisecond)
					}
				})
			}
			wg.Wait()
		})
		if most := 5*int(lasting/time.Second) + 2; readings > most || readings < 5 || asked < callers*5 {
			t.Errorf("%d questions took %d readings, want at most %d", asked, readings, most)
		}
		if n := backend.readings(func() {
			if _, err := ring.Verify(known); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("a known key takes %d readings", n)
		}
	})
}

// TestUnknownWhileDown: while the keys cannot be read, an unknown key is an error other than
// ErrToken, and known keys are accepted. The store is not read for two seconds after each
// failure. After its recovery unknown keys are looked up at once.
func TestUnknownWhileDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := newFlaky()
		ring := open(t, timed(bubbleStore(t, backend)))
		known, unknown, invented := tokenFor(t, ring, tokenLife), rotateElsewhere(t, backend.memory), unknownKeyTokens(t)()
		time.Sleep(time.Second)
		backend.setDown(true)
		unanswered := func(when string, want int) {
			t.Helper()
			n := backend.readings(func() {
				for _, token := range []string{unknown, invented, unknown} {
					if c, err := ring.Verify(token); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, keyring.ErrToken) || c.GrantID != "" {
						t.Errorf("%s: %+v, %v", when, c, err)
					}
				}
				if _, err := ring.Verify(known); err != nil {
					t.Errorf("%s: a known key: %v", when, err)
				}
			})
			if n != want {
				t.Errorf("%s: %d readings, want %d", when, n, want)
			}
		}
		unanswered("at the first question", 1)
		time.Sleep(2*time.Second - time.Nanosecond)
		unanswered("in the pause", 0)
		time.Sleep(time.Nanosecond)
		unanswered("after the pause", 1)
		backend.setDown(false)
		unanswered("recovered, in the pause", 0)
		time.Sleep(2 * time.Second)
		if _, err := ring.Verify(invented); !errors.Is(err, keyring.ErrToken) {
			t.Errorf("an invented key after recovery: %v", err)
		}
		if _, err := ring.Verify(unknown); err != nil {
			t.Errorf("a key from elsewhere after recovery: %v", err)
		}
	})
}

// TestUnknownWhileRunning: the same holds for a ring whose periodic reading failed, until one
// succeeds.
func TestUnknownWhileRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := newFlaky()
		cfg := timed(bubbleStore(t, backend))
		cfg.CacheTime = 2 * time.Second // it is read every 0.4 s
		ring := open(t, cfg)
		defer run(t, ring)()
		invented := unknownKeyTokens(t)()
		backend.setDown(true)
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			if _, err := ring.Verify(invented); !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("down: %v", err)
			}
		}
		backend.setDown(false)
		time.Sleep(500 * time.Millisecond)
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			if _, err := ring.Verify(invented); !errors.Is(err, keyring.ErrToken) {
				t.Errorf("up: %v", err)
			}
		}
	})
}

// TestUnknownWhileSlow: look-ups during a reading that hangs are all answered when it has
// failed, and do not wait for a reading of their own.
func TestUnknownWhileSlow(t *testing.T) {
	t.Parallel()
	backend := newFlaky()
	ring := open(t, timed(bubbleStore(t, backend)))
	invented := unknownKeyTokens(t)()
	backend.setDown(true)
	backend.took = 300 * time.Millisecond
	errs := make(chan error, 20)
	n := backend.readings(func() {
		for range cap(errs) {
			go func() { _, err := ring.Verify(invented); errs <- err }()
		}
		for range cap(errs) {
			if err := <-errs; !errors.Is(err, storage.ErrUnavailable) {
				t.Error(err)
			}
		}
	})
	if n != 1 {
		t.Errorf("%d readings for questions that came together", n)
	}
}

// TestUnknownInDamagedSet: with a record that cannot be read, an unknown key is an error
// other than ErrToken, also with one that was removed.
func TestUnknownInDamagedSet(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]struct {
		damage func(item storage.Item) (storage.Item, bool)
		want   error
	}{
		"a record of the future": {func(i storage.Item) (storage.Item, bool) { i.Data[0] = 99; return i, true }, storage.ErrRecord},
		"half a record":          {func(i storage.Item) (storage.Item, bool) { i.Data = i.Data[:len(i.Data)/2]; return i, true }, storage.ErrRecord},
		"no record":              {func(i storage.Item) (storage.Item, bool) { return i, false }, storage.ErrRecord},
	} {
		synctest.Test(t, func(t *testing.T) {
			backend := newMemory()
			ring := open(t, timed(bubbleStore(t, backend)))
			known, invented := tokenFor(t, ring, tokenLife), unknownKeyTokens(t)()
			for key, item := range backend.items {
				item.Data = slices.Clone(item.Data)
				if item, kept := step.damage(item); kept {
					backend.items[key] = item
				} else {
					delete(backend.items, key)
				}
			}
			for range 3 {
				for _, want := range []error{storage.ErrRecord, storage.ErrUnavailable, keyring.ErrToken} {
					if _, err := ring.Verify(invented); errors.Is(err, want) != (want == step.want) {
						t.Errorf("%s: %v", name, err)
					}
				}
				if _, err := ring.Verify(known); err != nil {
					t.Errorf("%s: a known key: %v", name, err)
				}
				time.Sleep(time.Second)
			}
		})
	}
}

// TestNeverOurs: a token that this issuer cannot have signed with any key is refused without
// a reading, also while the store is down.
func TestNeverOurs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := newFlaky()
		ring := open(t, timed(bubbleStore(t, backend)))
		other := bubbleStore(t, newMemory())
		open(t, timed(other))
		f := activeKey(t, other)
		named := func(kid, typ string) string {
			return f.sign(jose.ES256, jose.JSONWebKey{Key: f.key.Key, KeyID: kid}, map[jose.HeaderKey]any{"typ": jose.ContentType(typ)}, claim(t, "", nil))
		}
		time.Sleep(time.Minute)
		backend.setDown(true)
		tokens := map[string]string{
			"no key id":       f.sign(jose.ES256, f.key.Key, map[jose.HeaderKey]any{"typ": "at+jwt"}, claim(t, "", nil)),
			"a name":          named("2026-03", "at+jwt"),
			"a short id":      named(f.key.KeyID[:42], "at+jwt"),
			"a long id":       named(f.key.KeyID+"A", "at+jwt"),
			"a padded id":     named(f.key.KeyID+"=", "at+jwt"),
			"an ID token":     named(f.key.KeyID, "JWT"),
			"a refresh token": "gate_rt_AAAA",
		}
		// The ring is older than its cache time: the first use reads it once.
		living := backend.readings(func() { jwks(t, ring) })
		if n := backend.readings(func() {
			for name, token := range tokens {
				if _, err := ring.Verify(token); !errors.Is(err, keyring.ErrToken) || errors.Is(err, storage.ErrUnavailable) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}); n != 0 || living != 1 {
			t.Errorf("%d readings, want none", n)
		}
	})
}
