package keyring_test

import (
	"context"
	"errors"
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

// TestLife follows two keys through their states.
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
				last = tokenFor(t, ring, tokenLife)
			}
			if active := by[storage.KeyActive][0].ID; active != *step.signs || kidOf(t, tokenFor(t, ring, time.Minute)) != *step.signs {
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

// TestRetiredKeyEnds: a stolen private key is useful until the key is destroyed, and no
// longer, whatever the token claims, also at a ring that cannot read the store.
func TestRetiredKeyEnds(t *testing.T) {
	t.Parallel()
	for _, down := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			faults := storagetest.NewFaults(newMemory())
			store := bubbleStore(t, faults)
			ring := open(t, timed(store))
			token := forged(t, activeKey(t, store))
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

// TestOneWinner: of several processes for which the same step is due one performs it.
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

// TestRotateTogether: processes over one backend that race for the same step in real
// parallelism leave one active and one pending key.
func TestRotateTogether(t *testing.T) {
	t.Parallel()
	gate := newGated(t)
	store := gate.store(t)
	for range 20 {
		open(t, config(store, ""))
		var wg sync.WaitGroup
		kids := make([]string, 8)
		gate.hold(int64(len(kids))) // all have read the same keys
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

// cache is a resource server that keeps the published keys as long as it may and does not
// fetch them again for unknown ids.
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

// TestTenRotations: under load over two processes no valid token is refused, neither by them
// nor by a resource server with the oldest keys that it may have, and in the end no retired
// key is left.
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
					tokens = append(tokens, held{tokenFor(t, rings[i%2], life), time.Now().Add(life - time.Second)})
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

// TestRevoke: after its next reading no ring accepts a revoked key, and another key signs at
// once if it was the active one.
func TestRevoke(t *testing.T) {
	t.Parallel()
	for _, state := range []storage.KeyState{storage.KeyActive, storage.KeyPending, storage.KeyRetired} {
		synctest.Test(t, func(t *testing.T) {
			store := bubbleStore(t, newMemory())
			ring := open(t, timed(store))
			defer run(t, ring)()
			stolen := activeKey(t, store)
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
			if now := kidOf(t, tokenFor(t, ring, time.Minute)); now != active.ID || (state == storage.KeyActive) == (now == before[storage.KeyActive][0].ID) {
				t.Errorf("%s: %s signs now, Revoke returned %s", state, now, active.ID)
			}
			states(t, store)
			if _, err := keyring.Revoke(t.Context(), timed(store), victim.ID); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("%s: again: %v", state, err)
			}
		})
	}
}

// TestCacheControl: caches may keep the keys for CacheTime, half of the time that a new key
// is published before it signs.
func TestCacheControl(t *testing.T) {
	t.Parallel()
	store := newEmptyStore(t)
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
		cfg := config(newEmptyStore(t), "")
		change(&cfg)
		if _, err := keyring.Open(context.Background(), cfg); err == nil {
			t.Errorf("%s: it opens", name)
		}
	}
}
