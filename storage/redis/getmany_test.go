package redis

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestGetEachFails: what one of several values could not be read for is the error of all, and is not read as
// if nothing were there.
func TestGetEachFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		b := w.backend(0)
		b.withoutMGet.Store(true)
		for flight, keys := range [][]string{{"a", "none"}, {"a", "broken", "none"}} {
			out := make(chan error, 1)
			go func() {
				items, err := b.GetMany(t.Context(), keys)
				if err == nil && (len(items) != 2 || string(items[0].Data) != "a" || items[1].Data != nil) {
					t.Errorf("items %q", items)
				}
				out <- err
			}()
			w.land(flight)
			if err := <-out; (err == nil) != (len(keys) == 2) {
				t.Errorf("GetMany of %q: %v", keys, err)
			}
		}
	})
}

// TestMGetThatFails: a read of several values that fails is not read anew value by value, and the next one is
// one command again: only a server that denies the command is asked otherwise.
func TestMGetThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		b := w.backend(0)
		ctx, leave := context.WithCancel(t.Context())
		out := make(chan error, 1)
		go func() {
			_, err := b.GetMany(ctx, []string{"a", "b"})
			out <- err
		}()
		w.want(t, "MGET")
		leave()
		if err := <-out; !errors.Is(err, context.Canceled) {
			t.Errorf("GetMany: %v", err)
		}
		if w.want(t, "MGET"); b.withoutMGet.Load() {
			t.Error("MGET is not used any more")
		}
	})
}
