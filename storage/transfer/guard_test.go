package transfer_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/storagetest"
	"gatehouse.example/storage/transfer"
)

// TestGuardSuite: with a guard in front a store keeps every rule that it keeps without one.
func TestGuardSuite(t *testing.T) {
	t.Parallel()
	storagetest.TestBackend(t, func(t *testing.T) storage.Backend {
		return guarded(t, openRedis(t, time.Now))
	})
}

// guarded returns a guard in front of a store.
func guarded(t *testing.T, b storage.Backend) storage.Backend {
	t.Helper()
	g, err := transfer.Guard(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// counted is a store that counts how often its mark is read, and may fail to.
type counted struct {
	storage.Backend
	mu    sync.Mutex
	looks int
	err   error
}

func (c *counted) Get(ctx context.Context, key string) (storage.Item, error) {
	if key != markKey {
		return c.Backend.Get(ctx, key)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	if c.err != nil {
		return storage.Item{}, c.err
	}
	return c.Backend.Get(ctx, key)
}

func (c *counted) counted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks
}

func (c *counted) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// TestGuardNotices: two seconds after a store was marked every operation is refused, and goes on two
// seconds after that was undone. Operations cost no look: there is one a second, whatever is asked.
func TestGuardNotices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := filled(t), openRedis(t, now)
		c := &counted{Backend: from}
		b := guarded(t, c)
		for range 100 {
			if _, err := b.Get(t.Context(), "gatehouse:user:ann"); err != nil {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if looks := c.counted(); looks != 11 {
			t.Errorf("%d looks, want one for Guard and ten in ten seconds", looks)
		}
		began := time.Now()
		o := between(from, to)
		o.Wait = transfer.NoticeTime
		mustCopy(t, o)
		if waited := time.Since(began); waited < transfer.NoticeTime {
			t.Errorf("servers had %v to notice the mark", waited)
		}
		time.Sleep(2 * time.Second) // until the end of the copy is noticed too
		for name, operation := range operations(t.Context(), b) {
			var marked *transfer.MarkedError
			if err := operation(); !errors.As(err, &marked) || !marked.Done || !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := newStore(t, b, records()).User(t.Context(), "ann"); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("a read through a store: %v", err)
		}
		if _, err := transfer.Undo(t.Context(), from); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		for name, operation := range operations(t.Context(), b) {
			if err := operation(); err != nil {
				t.Errorf("%s after the mark is gone: %v", name, err)
			}
		}
	})
}

// TestGuardDoesNotGuess: thirty seconds after the mark could be read last, nothing is done, and the next
// operation looks again.
func TestGuardDoesNotGuess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Backend: filled(t)}
		b := guarded(t, c)
		c.fail(errDead)
		time.Sleep(29 * time.Second)
		for name, operation := range operations(t.Context(), b) {
			if err := operation(); err != nil {
				t.Errorf("%s while the last look counts: %v", name, err)
			}
		}
		time.Sleep(time.Second)
		for name, operation := range operations(t.Context(), b) {
			if err := operation(); !errors.Is(err, errDead) {
				t.Errorf("%s: %v", name, err)
			}
		}
		c.fail(nil)
		for name, operation := range operations(t.Context(), b) {
			if err := operation(); err != nil {
				t.Errorf("%s afterwards: %v", name, err)
			}
		}
		c.fail(errDead)
		if _, err := transfer.Guard(t.Context(), c); !errors.Is(err, errDead) {
			t.Errorf("Guard: %v", err)
		}
	})
}

// lateAnswer is a store that tells of its mark what was true a while before.
type lateAnswer struct {
	*counted
	late time.Duration
}

func (l lateAnswer) Get(ctx context.Context, key string) (storage.Item, error) {
	item, err := l.counted.Get(ctx, key)
	if key == markKey {
		time.Sleep(l.late)
	}
	return item, err
}

// TestGuardCountsFromTheQuestion: a look counts for thirty seconds from its question. What was written
// between that and its answer is not in the answer.
func TestGuardCountsFromTheQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Backend: filled(t)}
		b := guarded(t, lateAnswer{c, 20 * time.Second})
		c.fail(errDead)
		time.Sleep(9 * time.Second)
		if _, err := b.Get(t.Context(), "gatehouse:user:ann"); err != nil {
			t.Errorf("29 seconds after the question: %v", err)
		}
		time.Sleep(time.Second)
		if _, err := b.Get(t.Context(), "gatehouse:user:ann"); !errors.Is(err, errDead) {
			t.Errorf("30 seconds after the question: %v", err)
		}
	})
}

// operations are the operations of a backend that a guard refuses.
func operations(ctx context.Context, b storage.Backend) map[string]func() error {
	put := storage.Put{Key: "gatehouse:group:new", If: storage.Always, Operation: storage.Version{7}}
	return map[string]func() error{
		"Get":             func() error { _, err := b.Get(ctx, "gatehouse:user:ann"); return err },
		"GetMany":         func() error { _, err := b.GetMany(ctx, []string{"gatehouse:user:ann"}); return err },
		"Put":             func() error { _, err := b.Put(ctx, put); return err },
		"Delete":          func() error { return b.Delete(ctx, "gatehouse:group:new") },
		"IndexAdd":        func() error { return b.IndexAdd(ctx, "gatehouse:users:all", "ann") },
		"IndexRemove":     func() error { return b.IndexRemove(ctx, "gatehouse:users:all", "x") },
		"Count":           func() error { _, err := b.Count(ctx, storage.Counting{Pool: "test"}); return err },
		"IndexPage":       func() error { _, err := b.IndexPage(ctx, "gatehouse:users:all", "", 1); return err },
		"IndexPageBefore": func() error { _, err := b.IndexPageBefore(ctx, "gatehouse:users:all", "", 1); return err },
		"IndexLen":        func() error { _, err := b.IndexLen(ctx, "gatehouse:users:all"); return err },
		"Scan":            func() error { _, _, err := b.Scan(ctx, "gatehouse:", "", 1); return err },
	}
}
