package fair

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
)

// TestQueueForgetsEverybody: nothing is left of who gave up, was turned away or has gone.
func TestQueueForgetsEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, addr := NewQueue(1, 1), netip.MustParseAddr("192.0.2.1")
		leave, err := q.Enter(t.Context(), "first", addr)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := q.Enter(ctx, "impatient", addr); !errors.Is(err, context.Canceled) {
				t.Errorf("who gave up got %v", err)
			}
		}()
		synctest.Wait()
		if _, err := q.Enter(t.Context(), "late/inner", addr); !errors.Is(err, ErrBusy) {
			t.Errorf("with no room to wait: %v", err)
		}
		want := func(lanes ...string) {
			t.Helper()
			for _, lane := range lanes {
				if q.root.members[lane] == nil {
					t.Errorf("%s is forgotten", lane)
				}
			}
			if len(q.root.members) != len(lanes) {
				t.Errorf("%d lanes are known, not %q", len(q.root.members), lanes)
			}
		}
		want("first", "impatient")
		cancel()
		synctest.Wait()
		want("first")
		leave()
		want()
	})
}

// TestQueueGivesNoPlaceToNobody: a place that is given to somebody who gives up in the same moment is
// not lost.
func TestQueueGivesNoPlaceToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, addr := NewQueue(1, 1), netip.MustParseAddr("192.0.2.1")
		first := q.enqueue("", addr)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if leave, err := q.Enter(ctx, "", addr); err == nil {
				leave()
			}
		}()
		synctest.Wait()
		q.mu.Lock()
		cancel() // the second one is on its way out, and comes no further than to the lock
		first.at.count(0, -1)
		q.serve()
		q.mu.Unlock()
		synctest.Wait()
		if q.root.holding != 0 || q.root.waiting != 0 {
			t.Errorf("%d places are taken, and %d wait", q.root.holding, q.root.waiting)
		}
	})
}
