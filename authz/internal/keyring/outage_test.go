package keyring_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/storage"
	"gatehouse.example/storage/storagetest"
)

// TestStoreDown: while the store is down, a ring keeps its keys and signs while no token can
// outlive them. When the store answers again, the ring continues by itself.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := storagetest.NewFaults(newMemory())
		store := bubbleStore(t, faults)
		ring := open(t, timed(store))
		defer run(t, ring)()
		faults.SetDown(true)
		began := time.Now()
		token := tokenFor(t, ring, tokenLife)
		time.Sleep(tokenLife - 2*time.Second)
		if _, err := ring.Verify(token); err != nil {
			t.Error(err)
		}
		tokenFor(t, ring, 10*time.Second) // ends before its key
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
		if _, err := ring.Verify(tokenFor(t, ring, tokenLife)); err != nil {
			t.Errorf("after recovery: %v", err)
		}
		states(t, store)
	})
}

// TestBehind: a process that misses a retirement signs tokens that the others accept until
// they end.
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

// TestWithoutRun: a ring without Run rereads the store when it is used, and rotates nothing.
func TestWithoutRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := newMemory()
		store := bubbleStore(t, backend)
		ring := open(t, timed(store))
		time.Sleep(3 * rotateEvery)
		tokenFor(t, ring, time.Minute)
		if backend.swaps != 1 {
			t.Errorf("%d swaps", backend.swaps)
		}
		next, err := keyring.Rotate(t.Context(), timed(store), true)
		if err != nil {
			t.Fatal(err)
		}
		if kidOf(t, tokenFor(t, ring, time.Minute)) == next.ID {
			t.Error("the store is read for each token")
		}
		time.Sleep(cacheTime)
		if kidOf(t, tokenFor(t, ring, time.Minute)) != next.ID || len(published(t, ring).Keys) != 2 {
			t.Error("the change is not seen")
		}
	})
}

// TestStoreEmptied: running rings over a store that lost all data make no new keys.
func TestStoreEmptied(t *testing.T) {
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
		kid, before := kidOf(t, tokenFor(t, one, time.Minute)), jwks(t, one)
		time.Sleep(cacheTime)
		if kidOf(t, tokenFor(t, one, time.Minute)) != kid || jwks(t, one) != before || jwks(t, two) != before {
			t.Error("they have other keys")
		}
		if _, err := store.KeySet(t.Context()); !errors.Is(err, storage.ErrForged) || len(backend.items) > 0 {
			t.Errorf("the key set reads with error %v, and there are %d records", err, len(backend.items))
		}
	})
}

// TestReadingsWhileDown: a ring whose keys are old asks a store that is down once in two seconds, however
// many tokens it signs and verifies: each question may take as long as the store takes to fail.
func TestReadingsWhileDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := newFlaky()
		ring := open(t, timed(bubbleStore(t, backend)))
		token := tokenFor(t, ring, tokenLife)
		backend.setDown(true)
		time.Sleep(cacheTime)
		for pause := range 3 {
			if n := backend.readings(func() {
				for range 20 {
					if _, err := ring.Verify(token); err != nil {
						t.Error(err)
					}
					tokenFor(t, ring, 10*time.Second)
				}
			}); n != 1 {
				t.Errorf("%d readings after pause %d", n, pause)
			}
			time.Sleep(2 * time.Second)
		}
	})
}

// TestEndedKeyIsNotPublished: a process reads a key that has ended, because nobody has destroyed it yet,
// and does not publish it.
func TestEndedKeyIsNotPublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t, newMemory())
		ring := open(t, timed(store))
		first := kidOf(t, tokenFor(t, ring, time.Minute))
		if _, err := keyring.Rotate(t.Context(), timed(store), true); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			after time.Duration
			keys  int
		}{{cacheTime, 2}, {outlives, 1}} {
			time.Sleep(test.after)
			if set := published(t, ring); len(set.Keys) != test.keys || (len(set.Key(first)) == 1) != (test.keys == 2) {
				t.Errorf("after %s more %d keys are published, want %d", test.after, len(set.Keys), test.keys)
			}
		}
		if n := len(states(t, store)[storage.KeyRetired]); n != 1 {
			t.Errorf("%d retired keys are on record: this is no test", n)
		}
	})
}

// overtaken is a memory in which others write something once, right before the next write.
type overtaken struct {
	*memory
	others func()
}

func (o *overtaken) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	if others := o.others; others != nil {
		o.others = nil
		others()
	}
	return o.memory.Put(ctx, put)
}

// TestLostSwap: a process whose step lost against that of another one goes on with what the other one
// wrote at once, and not after its next reading.
func TestLostSwap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := &overtaken{memory: newMemory()}
		ring, other := open(t, timed(bubbleStore(t, backend))), bubbleStore(t, backend.memory)
		next := make(chan string, 1)
		backend.others = func() {
			key, err := keyring.Rotate(t.Context(), timed(other), true)
			if err != nil {
				t.Error(err)
			}
			next <- key.ID
		}
		defer run(t, ring)()
		kid := <-next // of the key that the other process made when this one wanted to
		synctest.Wait()
		if signs := kidOf(t, tokenFor(t, ring, time.Second)); signs != kid {
			t.Errorf("%s signs after %s was activated", signs, kid)
		}
	})
}

// TestLostCreation: a process that wanted to make the first key, and found that another one had, says of no
// key that it made it.
func TestLostCreation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := &overtaken{memory: newMemory()}
		var first *keyring.Ring
		backend.others = func() { first = open(t, timed(bubbleStore(t, backend.memory))) }
		cfg := timed(bubbleStore(t, backend))
		cfg.Changed = func(kid, state string) { t.Errorf("%s became %s", kid, state) }
		second := open(t, cfg)
		if _, err := second.Verify(tokenFor(t, first, time.Minute)); err != nil {
			t.Error(err)
		}
	})
}
