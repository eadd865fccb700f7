package redis

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/storage"
)

// TestCallersOfAStoreLeave: a call of a store that waits for flights of others ends with the time that the
// store allows, and at once when its caller leaves. Its context has no timer for that.
func TestCallersOfAStoreLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		b := w.backend(0)
		store, err := storage.New(b, storage.Options{WriteTime: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		read := func(ctx context.Context) <-chan error {
			out := make(chan error, 1)
			go func() {
				_, err := store.User(ctx, "ann")
				out <- err
			}()
			synctest.Wait()
			return out
		}
		flights, outs := w.hang(t, b)
		caller, leave := context.WithCancel(t.Context())
		begun := time.Now()
		stays, left := read(t.Context()), read(caller)
		time.Sleep(50 * time.Millisecond)
		leave()
		wantErr(t, left, context.Canceled)
		if err := <-stays; !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("the answer after the time of a read is %v", err)
		}
		if took := time.Since(begun); took != 700*time.Millisecond {
			t.Errorf("a read of a store that allows 700 ms took %v", took)
		}
		w.want(t, flights...)
		if n := len(b.lanesTo(towerAddr).prompt.waiting); n != 0 {
			t.Errorf("%d jobs wait, of callers that have left", n)
		}
		outs = append(outs, get(t, t.Context(), b, "c"))
		again := read(t.Context()) // with a timer that was used before
		w.land(0)
		w.want(t, append(flights, "c gatehouse:user:ann")...)
		for flight := range flights {
			w.land(flight + 1)
		}
		wantErr(t, again, storage.ErrRecord) // what the tower says is no person
		for _, out := range outs {
			wantErr(t, out, nil)
		}
	})
}

// watched is a backend in which somebody begins to wait for the end of a call while the call waits too.
type watched struct{ *backend }

// Get implements [storage.Backend].
func (w watched) Get(ctx context.Context, key string) (storage.Item, error) {
	go func() {
		time.Sleep(time.Millisecond)
		<-ctx.Done()
	}()
	return w.backend.Get(ctx, key)
}

// TestTimeIsOverAtOnce: a call whose time is over has an error, also when its context is told of that
// a moment later.
func TestTimeIsOverAtOnce(t *testing.T) {
	t.Parallel()
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			w := &tower{}
			b := w.backend(0)
			store, err := storage.New(watched{b}, storage.Options{WriteTime: 2 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			flights, outs := w.hang(t, b)
			if _, err := store.User(t.Context(), "ann"); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("the answer after the time of a read is %v", err)
			}
			for flight := range flights {
				w.land(flight)
			}
			for _, out := range outs {
				wantErr(t, out, nil)
			}
		})
	}
}
