package redis_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// clock is a clock that the test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestEmbeddedClock(t *testing.T) {
	clock := &clock{now: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	b := open(t, redis.Options{URL: "embedded:", Now: clock.Now})
	defer b.Close()
	there := func(key string) bool {
		t.Helper()
		_, err := b.Get(t.Context(), key)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	// The server's clock is up to a second behind when an item is put.
	for _, late := range []time.Duration{0, time.Millisecond, 999 * time.Millisecond, time.Second, time.Hour} {
		clock.advance(late)
		put(t, b, storage.Put{Key: "item", If: storage.Always, Operation: storage.Version{1, byte(late)}, TTL: 10 * time.Second})
		put(t, b, storage.Put{Key: "kept", If: storage.Always, Operation: storage.Version{2, byte(late)}})
		for range 99 {
			clock.advance(100 * time.Millisecond)
			if !there("item") {
				t.Fatalf("put %v after a tick, the item ended before its time", late)
			}
		}
		clock.advance(2 * time.Second)
		if there("item") {
			t.Errorf("put %v after a tick, the item did not end", late)
		}
		if !there("kept") {
			t.Error("an item without a lifetime ended")
		}
	}
	clock.advance(-time.Hour) // setting a clock back changes nothing
	put(t, b, storage.Put{Key: "item", Operation: storage.Version{3}, TTL: time.Minute})
	if !there("item") {
		t.Error("an item ended when the clock was set back")
	}
}

func put(t *testing.T, b storage.Backend, p storage.Put) {
	t.Helper()
	if _, err := b.Put(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// TestEmbeddedStores: two embedded stores have nothing in common.
func TestEmbeddedStores(t *testing.T) {
	one, two := openEmbedded(t), openEmbedded(t)
	defer one.Close()
	defer two.Close()
	put(t, one, storage.Put{Key: "k", Operation: storage.Version{1}})
	if _, err := two.Get(t.Context(), "k"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("Get in another store returned error %v", err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 3 {
		b := openEmbedded(t)
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() { put(t, b, storage.Put{Key: "k", If: storage.Always, Operation: storage.Version{byte(i + 1)}}) })
		}
		wg.Wait()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Get(t.Context(), "k"); err == nil {
			t.Error("Get after Close succeeded")
		}
	}
	wantGoroutines(t, before)
}

// wantGoroutines waits until no more goroutines run than before.
func wantGoroutines(t *testing.T, before int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, before there were %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
