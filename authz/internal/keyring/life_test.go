package keyring_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/storage"
	"gatehouse.example/storage/storagetest"
)

// memory is a backend that needs no goroutine and no connection, so that it can live
// inside a bubble. Key sets use nothing but Get and Put.
type memory struct {
	storage.Backend
	mu    sync.Mutex
	items map[string]storage.Item
	swaps int
	gets  int
}

func (m *memory) Get(_ context.Context, key string) (storage.Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gets++
	item, ok := m.items[key]
	if !ok {
		return storage.Item{}, storage.ErrNotFound
	}
	return item, nil
}

func (m *memory) Put(_ context.Context, put storage.Put) (storage.Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	item := m.items[put.Key]
	switch {
	case item.Version == put.Operation:
		return item, nil
	case !put.If.Any() && item.Version != put.If.Version():
		return item, storage.ErrConflict
	}
	m.swaps++
	m.items[put.Key] = storage.Item{Data: slices.Clone(put.Data), Version: put.Operation}
	return m.items[put.Key], nil
}

// IndexPage finds nobody: there are only keys here.
func (m *memory) IndexPage(context.Context, string, string, int) ([]string, error) { return nil, nil }

func newMemory() *memory { return &memory{items: map[string]storage.Item{}} }

// The times of these tests.
const (
	cacheTime   = 10 * time.Second
	tokenLife   = 2 * time.Minute
	rotateEvery = 10 * time.Minute
	outlives    = cacheTime + tokenLife + time.Minute
)

// timed is a key ring on the clock of the bubble.
func timed(store *storage.Store) keyring.Config {
	return keyring.Config{
		Store: store, Issuer: issuer, CacheTime: cacheTime, TokenLife: tokenLife, RotateEvery: rotateEvery,
		Logger: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader,
	}
}

func bubbleStore(t *testing.T, backend storage.Backend) *storage.Store {
	t.Helper()
	return newStore(t, backend, storage.Options{Issuer: issuer, MasterKeys: [][]byte{masterKey}})
}

// run lets a ring run and returns what ends it and waits for that.
func run(t *testing.T, ring *keyring.Ring) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := ring.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return func() { cancel(); wg.Wait() }
}

// states returns the keys in the store by state, and checks what holds at all times.
func states(t *testing.T, store *storage.Store) map[storage.KeyState][]storage.SigningKey {
	t.Helper()
	set, err := store.KeySet(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	by := map[storage.KeyState][]storage.SigningKey{}
	for _, k := range set.Keys {
		by[k.State] = append(by[k.State], k)
		if (k.State == storage.KeyRetired) != (k.Private == nil) {
			t.Errorf("a %s key has a private part of %d bytes", k.State, len(k.Private))
		}
	}
	if len(by[storage.KeyActive]) != 1 || len(by[storage.KeyPending]) > 1 || set.Keys[0].State != storage.KeyActive {
		t.Errorf("%d keys are active, %d pending, the first is %s", len(by[storage.KeyActive]), len(by[storage.KeyPending]), set.Keys[0].State)
	}
	return by
}

// living returns the token of a ring that lives for so long.
func living(t testing.TB, ring *keyring.Ring, life time.Duration) string {
	t.Helper()
	c := someClaims()
	c.IssuedAt, c.Expires = time.Now().Unix(), time.Now().Add(life).Unix()
	token, err := ring.Sign(c)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// kidOf returns the id of the key that signed.
func kidOf(t testing.TB, token string) string {
	t.Helper()
	jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256})
	if err != nil {
		t.Fatal(err)
	}
	return jws.Signatures[0].Header.KeyID
}

func published(t testing.TB, ring *keyring.Ring) jose.JSONWebKeySet {
	t.Helper()
	var set jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(jwks(t, ring)), &set); err != nil {
		t.Fatal(err)
	}
	return set
}

// TestLife follows two keys through their states by the clock.
func TestLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t, newMemory())
		ring := open(t, timed(store))
		defer run(t, ring)()
		began := time.Now()
		first := states(t, store)[storage.KeyActive][0].ID
		var second, last string
		at := func(d time.Duration) time.Duration { return time.Until(began.Add(d)) }
		tick := cacheTime / 4 // longer than the longest interval
		for _, step := range []struct {
			what                   string
			at                     time.Duration
			signs                  *string
			pending, retired, keys int
		}{
			{"the beginning", 0, &first, 0, 0, 1},
			{"before the next is due", rotateEvery - 2*cacheTime - time.Millisecond, &first, 0, 0, 1},
			{"the next is made", rotateEvery - 2*cacheTime + tick, &first, 1, 0, 2},
			{"it is not published for long enough", rotateEvery - time.Millisecond, &first, 1, 0, 2},
			{"it signs", rotateEvery + 2*tick, &second, 0, 1, 2},
			{"the first is still needed", rotateEvery + outlives - time.Millisecond, &second, 0, 1, 2},
			{"the first is gone", rotateEvery + outlives + 3*tick, &second, 0, 0, 1},
			{"the third is pending", 2*rotateEvery - cacheTime, &second, 1, 0, 2},
		} {
			time.Sleep(at(step.at))
			synctest.Wait()
			by := states(t, store)
			if second == "" && len(by[storage.KeyPending]) > 0 {
				second = by[storage.KeyPending][0].ID
			}
			if step.at == rotateEvery-time.Millisecond {
				last = living(t, ring, tokenLife)
			}
			if active := by[storage.KeyActive][0].ID; active != *step.signs || kidOf(t, living(t, ring, time.Minute)) != *step.signs {
				t.Errorf("%s: %s is active, want %s", step.what, active, *step.signs)
			}
			if p, r, k := len(by[storage.KeyPending]), len(by[storage.KeyRetired]), len(published(t, ring).Keys); p != step.pending || r != step.retired || k != step.keys {
				t.Errorf("%s: %d pending, %d retired, %d published; want %d, %d, %d", step.what, p, r, k, step.pending, step.retired, step.keys)
			}
			_, err := ring.Verify(last)
			if alive := last != "" && time.Now().Before(began.Add(rotateEvery+tokenLife-time.Second)); alive != (err == nil) {
				t.Errorf("%s: the last token of the first key: %v", step.what, err)
			}
		}
	})
}

// forged returns a good token with a long life, signed with a key taken from the store.
func forged(t testing.TB, f forger) string {
	t.Helper()
	return f.sign(jose.ES256, f.key, map[jose.HeaderKey]any{"typ": "at+jwt"}, claim(t, "exp", time.Now().Add(240*time.Hour).Unix()))
}

// TestRetiredKeyEnds: whoever stole a private key can use it until the key is destroyed,
// and no longer, whatever the token says; also at a ring that cannot read the store.
func TestRetiredKeyEnds(t *testing.T) {
	t.Parallel()
	for _, down := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			faults := storagetest.NewFaults(newMemory())
			store := bubbleStore(t, faults)
			ring := open(t, timed(store))
			token := forged(t, theKey(t, store))
			if _, err := keyring.Rotate(t.Context(), timed(store), true); err != nil {
				t.Fatal(err)
			}
			retired := time.Now()
			defer run(t, ring)()
			faults.SetDown(down)
			time.Sleep(time.Until(retired.Add(outlives - time.Millisecond)))
			if _, err := ring.Verify(token); err != nil {
				t.Errorf("down %t: before the end: %v", down, err)
			}
			time.Sleep(time.Millisecond)
			if _, err := ring.Verify(token); !errors.Is(err, keyring.ErrToken) {
				t.Errorf("down %t: after the end: %v", down, err)
			}
			time.Sleep(cacheTime)
			if n := len(published(t, ring).Keys); n != 1 && !down {
				t.Errorf("%d keys are published", n)
			}
		})
	}
}

// TestOneWinner: of many processes that find the same step due one takes it.
func TestOneWinner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := newMemory()
		store := bubbleStore(t, backend)
		var rings []*keyring.Ring
		for range 8 {
			rings = append(rings, open(t, timed(store)))
			defer run(t, rings[len(rings)-1])()
		}
		const rotations = 5
		for end := time.Now().Add(rotations*rotateEvery + outlives + cacheTime); time.Now().Before(end); time.Sleep(cacheTime / 10) {
			states(t, store)
		}
		// The first set; each rotation makes, activates and later destroys a key. The
		// reserve is that a rotation late by an interval delays the next one.
		if backend.swaps > 1+3*rotations || backend.swaps < 1+3*(rotations-1) {
			t.Errorf("%d swaps for %d rotations", backend.swaps, rotations)
		}
	})
}

// TestRotateTogether: processes over one backend that race for the same step by real
// parallelism leave one active and one pending key.
func TestRotateTogether(t *testing.T) {
	t.Parallel()
	gate := newGated(t)
	store := gate.store(t)
	for range 20 {
		open(t, config(store, ""))
		var wg sync.WaitGroup
		kids := make([]string, 8)
		gate.hold(int64(len(kids))) // all have seen the same keys
		for i := range kids {
			wg.Go(func() {
				key, err := keyring.Rotate(context.Background(), config(store, ""), false)
				if err != nil {
					t.Error(err)
				}
				kids[i] = key.ID
			})
		}
		wg.Wait()
		if by := states(t, store); len(slices.Compact(kids)) != 1 || by[storage.KeyPending][0].ID != kids[0] {
			t.Fatalf("the winners are %v", kids)
		}
		if _, err := keyring.Rotate(context.Background(), config(store, ""), true); err != nil {
			t.Fatal(err)
		}
	}
}

// cache is a resource server that keeps the published keys as long as it may and does
// not ask about unknown ones.
type cache struct {
	keys    jose.JSONWebKeySet
	fetched time.Time
}

func (c *cache) accepts(t *testing.T, ring *keyring.Ring, token string) bool {
	if time.Since(c.fetched) >= cacheTime {
		c.keys, c.fetched = published(t, ring), time.Now()
	}
	return len(c.keys.Key(kidOf(t, token))) == 1
}

// TestTenRotations: under load over two processes no valid token is refused, by them or
// by a resource with the oldest keys that it may have, and in the end no retired key is
// left.
func TestTenRotations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t, newMemory())
		const every = 3 * cacheTime
		var rings []*keyring.Ring
		for range 2 {
			cfg := timed(store)
			cfg.RotateEvery = every
			rings = append(rings, open(t, cfg))
			defer run(t, rings[len(rings)-1])()
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		kids := map[string]bool{}
		end := time.Now().Add(12 * every)
		for i := range 4 {
			wg.Go(func() {
				resources := []*cache{{}, {}}
				type held struct {
					token string
					until time.Time
				}
				var tokens []held
				for time.Now().Before(end) {
					life := tokenLife - time.Duration(i)*20*time.Second
					tokens = append(tokens, held{living(t, rings[i%2], life), time.Now().Add(life - time.Second)})
					mu.Lock()
					kids[kidOf(t, tokens[len(tokens)-1].token)] = true
					mu.Unlock()
					tokens = slices.DeleteFunc(tokens, func(h held) bool { return !time.Now().Before(h.until) })
					for _, h := range []held{tokens[0], tokens[len(tokens)/2], tokens[len(tokens)-1]} {
						for at, ring := range rings {
							if _, err := ring.Verify(h.token); err != nil {
								t.Errorf("ring %d: %v", at, err)
							}
							if !resources[at].accepts(t, ring, h.token) {
								t.Errorf("a resource of ring %d does not know key %s", at, kidOf(t, h.token))
							}
						}
					}
					time.Sleep(time.Second + time.Duration(i)*7*time.Millisecond)
				}
			})
		}
		for time.Now().Before(end) {
			states(t, store)
			time.Sleep(time.Second)
		}
		wg.Wait()
		if len(kids) < 11 {
			t.Errorf("%d keys signed, want ten rotations", len(kids))
		}
	})
}

// TestRevoke: nobody accepts a revoked key after the next reading, and another signs at
// once if it was the active one.
func TestRevoke(t *testing.T) {
	t.Parallel()
	for _, state := range []storage.KeyState{storage.KeyActive, storage.KeyPending, storage.KeyRetired} {
		synctest.Test(t, func(t *testing.T) {
			store := bubbleStore(t, newMemory())
			ring := open(t, timed(store))
			defer run(t, ring)()
			stolen := theKey(t, store)
			if _, err := keyring.Rotate(t.Context(), timed(store), true); err != nil {
				t.Fatal(err)
			}
			if _, err := keyring.Rotate(t.Context(), timed(store), false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(cacheTime / 4)
			before := states(t, store)
			victim := before[state][0]
			token := forged(t, stolen)
			if state != storage.KeyRetired {
				raw, err := store.OpenKey(victim.ID, victim.Private)
				if err != nil {
					t.Fatal(err)
				}
				if err := stolen.key.UnmarshalJSON(raw); err != nil {
					t.Fatal(err)
				}
				token = forged(t, stolen)
			}
			if _, err := ring.Verify(token); err != nil {
				t.Fatalf("%s: before: %v", state, err)
			}
			active, err := keyring.Revoke(t.Context(), timed(store), victim.ID)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(cacheTime / 4)
			if _, err := ring.Verify(token); !errors.Is(err, keyring.ErrToken) {
				t.Errorf("%s: after the next reading: %v", state, err)
			}
			if strings.Contains(jwks(t, ring), victim.ID) {
				t.Errorf("%s: it is still published", state)
			}
			if now := kidOf(t, living(t, ring, time.Minute)); now != active.ID || (state == storage.KeyActive) == (now == before[storage.KeyActive][0].ID) {
				t.Errorf("%s: %s signs now, Revoke returned %s", state, now, active.ID)
			}
			states(t, store)
			if _, err := keyring.Revoke(t.Context(), timed(store), victim.ID); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("%s: again: %v", state, err)
			}
		})
	}
}

// TestStoreDown: a ring whose store is down keeps its keys, and signs as long as no
// token can outlive them. When the store is back it goes on by itself.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := storagetest.NewFaults(newMemory())
		store := bubbleStore(t, faults)
		ring := open(t, timed(store))
		defer run(t, ring)()
		faults.SetDown(true)
		began := time.Now()
		token := living(t, ring, tokenLife)
		time.Sleep(tokenLife - 2*time.Second)
		if _, err := ring.Verify(token); err != nil {
			t.Error(err)
		}
		living(t, ring, 10*time.Second) // ends in time
		long := someClaims()
		long.Expires = began.Add(cacheTime + tokenLife + time.Second).Unix()
		if _, err := ring.Sign(long); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("a token that may outlive its key: %v", err)
		}
		time.Sleep(24 * time.Hour)
		long.Expires = time.Now().Add(time.Minute).Unix()
		if _, err := ring.Sign(long); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("a day without a reading: %v", err)
		}
		faults.SetDown(false)
		time.Sleep(cacheTime)
		if _, err := ring.Verify(living(t, ring, tokenLife)); err != nil {
			t.Errorf("after recovery: %v", err)
		}
		states(t, store)
	})
}

// TestBehind: a process that misses a retirement signs tokens that the others accept
// until they end.
func TestBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := newMemory()
		faults := storagetest.NewFaults(backend)
		cut := open(t, timed(bubbleStore(t, faults)))
		faults.SetDown(true)
		store := bubbleStore(t, backend)
		other := open(t, timed(store))
		defer run(t, other)()
		if _, err := keyring.Rotate(t.Context(), timed(store), true); err != nil {
			t.Fatal(err)
		}
		var tokens []string
		var ends time.Time
		for len(tokens) < 1000 {
			c := someClaims()
			c.Expires = time.Now().Add(tokenLife).Unix()
			token, err := cut.Sign(c)
			if errors.Is(err, storage.ErrUnavailable) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			tokens, ends = append(tokens, token), time.Now().Add(tokenLife)
			time.Sleep(time.Second)
		}
		if len(tokens) < int(cacheTime/time.Second) {
			t.Errorf("%d tokens were signed", len(tokens))
		}
		time.Sleep(time.Until(ends) - time.Second)
		if _, err := other.Verify(tokens[len(tokens)-1]); err != nil {
			t.Errorf("the last token of a retired key: %v", err)
		}
	})
}

// TestWithoutRun: a ring that does not run follows the store when it is used, and
// rotates nothing.
func TestWithoutRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := newMemory()
		store := bubbleStore(t, backend)
		ring := open(t, timed(store))
		time.Sleep(3 * rotateEvery)
		living(t, ring, time.Minute)
		if backend.swaps != 1 {
			t.Errorf("%d swaps", backend.swaps)
		}
		next, err := keyring.Rotate(t.Context(), timed(store), true)
		if err != nil {
			t.Fatal(err)
		}
		if kidOf(t, living(t, ring, time.Minute)) == next.ID {
			t.Error("the store is read for each token")
		}
		time.Sleep(cacheTime)
		if kidOf(t, living(t, ring, time.Minute)) != next.ID || len(published(t, ring).Keys) != 2 {
			t.Error("the change is not seen")
		}
	})
}

// TestC1StoreEmptied: rings that run over a store which lost everything make no new keys.
func TestC1StoreEmptied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := newMemory()
		store := bubbleStore(t, backend)
		one, two := open(t, timed(store)), open(t, timed(store))
		defer run(t, one)()
		defer run(t, two)()
		backend.mu.Lock()
		clear(backend.items)
		backend.mu.Unlock()
		kid, before := kidOf(t, living(t, one, time.Minute)), jwks(t, one)
		time.Sleep(cacheTime)
		if kidOf(t, living(t, one, time.Minute)) != kid || jwks(t, one) != before || jwks(t, two) != before {
			t.Error("they have other keys")
		}
		if _, err := store.KeySet(t.Context()); !errors.Is(err, storage.ErrForged) || len(backend.items) > 0 {
			t.Errorf("the key set reads with error %v, and there are %d records", err, len(backend.items))
		}
	})
}

// TestCacheControl: caches are told to keep the keys as long as a new one waits for.
func TestCacheControl(t *testing.T) {
	t.Parallel()
	store := ourStore(t)
	for age, want := range map[time.Duration]string{0: "public, max-age=300", 2 * time.Second: "public, max-age=2", time.Hour: "public, max-age=3600"} {
		cfg := config(store, "")
		cfg.CacheTime = age
		ring := open(t, cfg)
		w := httptest.NewRecorder()
		ring.JWKS().ServeHTTP(w, httptest.NewRequest("GET", "/jwks.json", nil))
		if got := w.Header().Get("Cache-Control"); got != want {
			t.Errorf("%s: Cache-Control %q, want %q", age, got, want)
		}
		r := httptest.NewRequest("GET", "/jwks.json", nil)
		r.Header.Set("If-None-Match", w.Header().Get("Etag"))
		again := httptest.NewRecorder()
		ring.JWKS().ServeHTTP(again, r)
		if got := again.Header().Get("Cache-Control"); got != want || again.Code != 304 {
			t.Errorf("%s: %d, Cache-Control %q, want %q", age, again.Code, got, want)
		}
		post := httptest.NewRecorder()
		ring.JWKS().ServeHTTP(post, httptest.NewRequest("POST", "/jwks.json", nil))
		if got := post.Header().Get("Cache-Control"); got != "" {
			t.Errorf("%s: POST: Cache-Control %q", age, got)
		}
	}
}

func TestConfigRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*keyring.Config){
		"a cache of less than a second":  func(c *keyring.Config) { c.CacheTime = time.Millisecond },
		"a cache of less than nothing":   func(c *keyring.Config) { c.CacheTime = -time.Minute },
		"tokens of less than nothing":    func(c *keyring.Config) { c.TokenLife = -time.Second },
		"rotation faster than published": func(c *keyring.Config) { c.RotateEvery = 10*time.Minute - 1 },
	} {
		cfg := config(ourStore(t), "")
		change(&cfg)
		if _, err := keyring.Open(context.Background(), cfg); err == nil {
			t.Errorf("%s: it opens", name)
		}
	}
}

// TestAmendRefuses: what the servers could not open is not sealed.
func TestAmendRefuses(t *testing.T) {
	t.Parallel()
	ctx, backend := context.Background(), newBackend(t)
	ours := newStore(t, backend, storage.Options{Issuer: issuer, MasterKeys: [][]byte{masterKey}})
	if _, err := keyring.Rotate(ctx, config(ours, ""), false); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("no keys yet: %v", err)
	}
	open(t, config(ours, "EdDSA"))
	kid := states(t, ours)[storage.KeyActive][0].ID
	for name, o := range map[string]storage.Options{
		"another master key": {Issuer: issuer, MasterKeys: [][]byte{make([]byte, 32)}},
		"another issuer":     {Issuer: issuer + "/tenant", MasterKeys: [][]byte{masterKey}},
		"no master key":      {Issuer: issuer},
	} {
		store := newStore(t, backend, o)
		if _, err := keyring.Rotate(ctx, config(store, ""), true); err == nil {
			t.Errorf("rotate with %s", name)
		}
		if _, err := keyring.Revoke(ctx, config(store, ""), kid); err == nil {
			t.Errorf("revoke with %s", name)
		}
	}
	if _, err := keyring.Rotate(ctx, config(ours, "HS256"), false); err == nil {
		t.Error("rotate to HS256")
	}
	if by := states(t, ours); by[storage.KeyActive][0].ID != kid || len(by[storage.KeyPending]) != 0 {
		t.Error("something changed")
	}
	for _, step := range []struct{ algorithm, want string }{{"", "EdDSA"}, {"ES256", "ES256"}, {"", "ES256"}} {
		next, err := keyring.Rotate(ctx, config(ours, step.algorithm), true)
		if err != nil || next.Algorithm != step.want {
			t.Errorf("%q: %s, %v", step.algorithm, next.Algorithm, err)
		}
	}
}

// TestDamagedStates: a set whose states cannot be is refused at the start, and does not
// replace what a running ring knows.
func TestDamagedStates(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func([]storage.SigningKey){
		"two active keys":            func(k []storage.SigningKey) { k[1].State = storage.KeyActive },
		"no active key":              func(k []storage.SigningKey) { k[0].State = storage.KeyPending },
		"all retired":                func(k []storage.SigningKey) { k[0].State, k[1].State = storage.KeyRetired, storage.KeyRetired },
		"a state of the future":      func(k []storage.SigningKey) { k[1].State = "frozen" },
		"a pending key without core": func(k []storage.SigningKey) { k[1].Private = nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			store := bubbleStore(t, newMemory())
			ring := open(t, timed(store))
			defer run(t, ring)()
			if _, err := keyring.Rotate(t.Context(), timed(store), false); err != nil {
				t.Fatal(err)
			}
			set, err := store.KeySet(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			damage(set.Keys)
			if err := store.SwapKeySet(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			if _, err := keyring.Open(t.Context(), timed(store)); !errors.Is(err, storage.ErrRecord) {
				t.Errorf("%s: %v", name, err)
			}
			time.Sleep(cacheTime)
			if _, err := ring.Verify(living(t, ring, time.Minute)); err != nil {
				t.Errorf("%s: the running ring: %v", name, err)
			}
		})
	}
}

// TestStatelessSet: the set of a program from before there were states goes on.
func TestStatelessSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t, newMemory())
		open(t, timed(store))
		set, err := store.KeySet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		old := set.Keys[0].ID
		set.Keys[0].State, set.Keys[0].Activated = "", time.Time{}
		if err := store.SwapKeySet(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		ring := open(t, timed(store))
		defer run(t, ring)()
		token := living(t, ring, tokenLife)
		if kidOf(t, token) != old {
			t.Error("another key signs")
		}
		time.Sleep(rotateEvery + cacheTime)
		if by := states(t, store); by[storage.KeyActive][0].ID == old || by[storage.KeyRetired][0].ID != old {
			t.Errorf("it does not rotate: %v", by)
		}
	})
}
