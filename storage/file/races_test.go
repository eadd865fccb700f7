package file_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	mathrand "math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/internal/histories"
)

// newStore returns a store on a backend, with time enough for a machine that is busy with other tests.
func newStore(t testing.TB, b storage.Backend) *storage.Store {
	t.Helper()
	s, err := storage.New(b, storage.Options{Issuer: "https://auth.example.com", MasterKeys: [][]byte{bytes.Repeat([]byte("0123"), 8)}, WriteTime: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// newGrant returns a grant whose code was not redeemed yet.
func newGrant(t testing.TB, s *storage.Store) storage.Grant {
	t.Helper()
	g, err := makeGrant(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func makeGrant(ctx context.Context, s *storage.Store) (storage.Grant, error) {
	g, _, err := s.PrepareGrant(storage.NewGrant{
		ClientID: "client", Subject: "subject", Resources: []string{"https://notes.example.com/mcp"}, Scopes: []string{"notes:read"},
		AuthTime: time.Now(), RedirectURI: "http://127.0.0.1/callback", Challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
		Refreshable: true, CodeTTL: time.Hour,
	})
	if err == nil {
		err = s.CreateGrant(ctx, g)
	}
	if err != nil {
		return g, err
	}
	return s.Grant(ctx, g.ID)
}

func life() storage.Lifetime {
	return storage.Lifetime{Expires: time.Now().Add(90 * 24 * time.Hour), IdleExpires: time.Now().Add(30 * 24 * time.Hour), AccessUntil: time.Now().Add(time.Minute)}
}

// atOnce runs something n times, 50 at a time.
func atOnce(n int, run func()) {
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n))
	for range 50 {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				run()
			}
		})
	}
	all.Wait()
}

// TestOneRedemption: of 10 000 redemptions of one code one succeeds, and of 1 000 refreshes with one
// token every one leads to the same next generation.
func TestOneRedemption(t *testing.T) {
	s := newStore(t, openAt(t, memory(t)))
	g := newGrant(t, s)
	var won, lost, rotated, followed atomic.Int64
	atOnce(10_000, func() {
		switch _, err := s.Redeem(t.Context(), g, life()); {
		case err == nil:
			won.Add(1)
		case errors.Is(err, storage.ErrConflict):
			lost.Add(1)
		default:
			t.Error(err)
		}
	})
	if won.Load() != 1 || lost.Load() != 9_999 {
		t.Fatalf("%d redemptions succeeded, %d were refused", won.Load(), lost.Load())
	}
	g, err := s.Grant(t.Context(), g.ID)
	if err != nil {
		t.Fatal(err)
	}
	atOnce(1_000, func() {
		next, err := s.Rotate(t.Context(), g, life())
		switch {
		case err == nil:
			rotated.Add(1)
		case !errors.Is(err, storage.ErrConflict):
			t.Error(err)
		}
		if next.Generation == g.Generation+1 {
			followed.Add(1)
		}
	})
	if rotated.Load() != 1 || followed.Load() != 1_000 {
		t.Errorf("%d rotations succeeded, %d led to the next generation", rotated.Load(), followed.Load())
	}
}

var howMany = flag.Int("file.histories", 5, "how many histories to check")

// TestHistories: the answers to many who use one key at once are as if one call happened after the
// other, also when they give up waiting and do not learn whether their write happened.
func TestHistories(t *testing.T) {
	t.Parallel()
	b := openAt(t, memory(t))
	defer b.Close()
	for range *howMany {
		c := histories.New(b, 1)
		var all sync.WaitGroup
		for client := range 6 {
			all.Go(func() { live(t, c, client) })
		}
		all.Wait()
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", c.Count())
	}
}

// live makes some calls, of which one in four waits for a part of a millisecond only.
func live(t *testing.T, c *histories.Chronicle, client int) {
	for range 40 {
		ctx, stop := t.Context(), func() {}
		if mathrand.IntN(4) == 0 {
			ctx, stop = context.WithTimeout(ctx, time.Duration(mathrand.IntN(300))*time.Microsecond)
		}
		err := c.Do(ctx, client, c.Choose())
		stop()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
}

// TestReadWhileClosing: a read that ends after the file is being closed does not keep it open, and
// the next one is refused.
func TestReadWhileClosing(t *testing.T) {
	t.Parallel()
	b := openAt(t, memory(t))
	next, err := b.CloseInRead(t.Context()) // without an end if the transaction was kept
	if err != nil || !errors.Is(next, storage.ErrUnavailable) {
		t.Errorf("another read: %v; the end: %v", next, err)
	}
	if _, err := b.Get(t.Context(), "key"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a read of a closed file: %v", err)
	}
}

// TestGivenUp: of a write whose caller gives up, it is known whether it was begun. One that was not is
// not made later; of one that was, the outcome is uncertain.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	b := openAt(t, memory(t))
	held, begun, goOn := make(chan error, 1), make(chan struct{}), make(chan struct{})
	running, giveUp := context.WithCancel(t.Context())
	go func() { held <- b.Hold(running, begun, goOn) }()
	<-begun
	waiting, giveUpToo := context.WithCancel(t.Context())
	late := make(chan error, 2)
	for _, index := range []string{"one", "other"} {
		go func() { late <- b.IndexAdd(waiting, index, "entry") }()
	}
	for b.Waiting() < 2 {
		runtime.Gosched()
	}
	giveUp()
	if err := <-held; !errors.Is(err, storage.ErrUncertain) || !errors.Is(err, context.Canceled) {
		t.Errorf("a write that was begun: %v", err)
	}
	giveUpToo()
	for range 2 {
		if err := <-late; errors.Is(err, storage.ErrUncertain) || !errors.Is(err, context.Canceled) {
			t.Errorf("a write that was not begun: %v", err)
		}
	}
	close(goOn)
	if err := b.IndexAdd(t.Context(), "last", "entry"); err != nil { // after all others
		t.Error(err)
	}
	for index, want := range map[string]int{"one": 0, "other": 0, "last": 1} {
		if n, err := b.IndexLen(t.Context(), index); n != want || err != nil {
			t.Errorf("%s has %d entries, %v", index, n, err)
		}
	}
	if err := b.IndexAdd(waiting, "one", "entry"); !errors.Is(err, context.Canceled) || errors.Is(err, storage.ErrUncertain) {
		t.Errorf("a write of somebody who has given up: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
