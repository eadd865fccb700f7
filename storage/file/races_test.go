package file_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"gatehouse.example/storage"
)

// newStore returns a store on a backend.
func newStore(t testing.TB, b storage.Backend) *storage.Store {
	t.Helper()
	s, err := storage.New(b, storage.Options{Issuer: "https://auth.example.com", MasterKeys: [][]byte{bytes.Repeat([]byte("0123"), 8)}})
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

// atOnce runs something n times, 50 at a time: a request has two seconds, also on a slow machine.
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

var histories = flag.Int("file.histories", 5, "how many histories to check")

// register is what one key has.
type register storage.Version

// asked is a call, with a write if put has an operation; told is the answer to it.
type asked struct {
	put    storage.Put
	delete bool
}

type told struct {
	version  storage.Version
	conflict bool
	unknown  bool
}

// after is the contract of [storage.Backend] as one step.
func (r register) after(a asked, out told) (bool, register) {
	now := storage.Version(r)
	switch {
	case a.delete:
		return true, register{}
	case a.put.Operation == storage.Version{}:
		return out.version == now, r
	case now == a.put.Operation:
		return out.unknown || out.version == now && !out.conflict, r
	case a.put.If.Any() || now == a.put.If.Version():
		return out.unknown || out.version == a.put.Operation && !out.conflict, register(a.put.Operation)
	}
	return out.unknown || out.version == now && out.conflict, r
}

var model = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, in, out any) (bool, any) {
		ok, next := state.(register).after(in.(asked), out.(told))
		return ok, next
	},
}

// TestHistories: the answers to many who use one key at once are as if one call happened after the
// other, also when they give up waiting and do not learn whether their write happened.
func TestHistories(t *testing.T) {
	t.Parallel()
	b := openAt(t, memory(t))
	defer b.Close()
	unknown := 0
	for range *histories {
		history := record(t, b, rand.Text())
		for _, op := range history {
			if op.Output.(told).unknown {
				unknown++
			}
		}
		if got := porcupine.CheckOperationsTimeout(model, history, 20*time.Second); got != porcupine.Ok {
			t.Fatalf("the history is %s: %v", got, history)
		}
	}
	t.Log(*histories, "histories,", unknown, "writes without an answer")
}

// TestHistoryModel: the model refuses what must not happen.
func TestHistoryModel(t *testing.T) {
	one, two := storage.Version{1}, storage.Version{2}
	first := asked{put: storage.Put{Operation: one}}
	for name, wrong := range map[string][]porcupine.Operation{
		"two winners":                       {{Input: first, Output: told{version: one}, Return: 1}, {Input: asked{put: storage.Put{Operation: two}}, Output: told{version: two}, Call: 2, Return: 3}},
		"a lost write":                      {{Input: first, Output: told{version: one}, Return: 1}, {Input: asked{}, Output: told{}, Call: 2, Return: 3}},
		"a write that was refused, and yet": {{Input: asked{}, Output: told{version: one}, Return: 1}},
	} {
		if porcupine.CheckOperations(model, wrong) {
			t.Errorf("%s is accepted", name)
		}
	}
}

// record has some clients use one key, and returns what they asked and were told.
func record(t *testing.T, b storage.Backend, key string) (history []porcupine.Operation) {
	begin := time.Now()
	var mu sync.Mutex
	var all sync.WaitGroup
	for client := range 6 {
		all.Go(func() {
			known := storage.Version{}
			for range 40 {
				a := choose(key, known)
				call := time.Since(begin).Nanoseconds()
				out, happened := ask(t, b, key, a)
				end := time.Since(begin).Nanoseconds()
				if out.unknown {
					end = 1 << 62
				} else {
					known = out.version
				}
				if happened {
					mu.Lock()
					history = append(history, porcupine.Operation{ClientId: client, Input: a, Call: call, Output: out, Return: end})
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return history
}

func choose(key string, known storage.Version) asked {
	a := asked{put: storage.Put{Key: key}}
	switch n := mathrand.IntN(20); {
	case n < 6:
		return a
	case n < 7:
		a.delete = true
		return a
	case n < 9:
		a.put.If = storage.Always
	default:
		a.put.If = storage.Unchanged(known)
	}
	_, _ = rand.Read(a.put.Operation[:]) // never fails
	return a
}

// ask makes a call, and reports whether it may have had an effect.
func ask(t *testing.T, b storage.Backend, key string, a asked) (out told, happened bool) {
	ctx, stop := t.Context(), func() {}
	if mathrand.IntN(4) == 0 {
		ctx, stop = context.WithTimeout(ctx, time.Duration(mathrand.IntN(300))*time.Microsecond)
	}
	defer stop()
	var item storage.Item
	var err error
	switch {
	case a.delete:
		err = b.Delete(ctx, key)
	case a.put.Operation == storage.Version{}:
		item, err = b.Get(ctx, key)
	default:
		item, err = b.Put(ctx, a.put)
	}
	switch {
	case err == nil, errors.Is(err, storage.ErrNotFound):
		return told{version: item.Version}, true
	case errors.Is(err, storage.ErrConflict):
		return told{version: item.Version, conflict: true}, true
	case errors.Is(err, storage.ErrUncertain):
		return told{unknown: true}, true
	case !errors.Is(err, context.DeadlineExceeded):
		t.Error(err)
	}
	return told{}, false // it certainly had no effect
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
