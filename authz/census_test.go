package authz_test

import (
	"testing"
	"time"

	"gatehouse.example/authz"
)

// TestGrantsAreCounted: the count of a running server follows the grants in the lists, by a few people
// in each step, and a round that fails is done again.
func TestGrantsAreCounted(t *testing.T) {
	t.Parallel()
	inBubble(t, [][]byte{masterKey}, func(t *testing.T, s *bubble) {
		s.observed = func(authz.Observation) {}
		s.start(s.store)
		if _, counted := s.server.GrantsCounted(); counted {
			t.Error("they are counted before the server runs")
		}
		end := s.run()
		defer end()
		want := func(want int) {
			t.Helper()
			time.Sleep(11 * time.Second) // two rounds
			if n, counted := s.server.GrantsCounted(); n != want || !counted {
				t.Errorf("%d grants are counted (%t), want %d", n, counted, want)
			}
		}
		want(0)
		s.granted(s.store, "registered")
		s.granted(s.store, "configured")
		want(2)
		s.faults.SetDown(true)
		want(2)
		s.faults.SetDown(false)
		g, _ := s.granted(s.store, "registered")
		want(3)
		if err := s.store.RevokeUser(t.Context(), g.Subject, "test"); err != nil {
			t.Fatal(err)
		}
		want(0)
	})
}
