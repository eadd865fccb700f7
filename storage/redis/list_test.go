package redis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestList: a list behaves as a sorted set does, while it grows to many pieces and shrinks to
// none.
func TestList(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var l list
	var want []string
	entry := func() string { return fmt.Sprintf("%04d", random.IntN(6000)) }
	check := func() {
		t.Helper()
		if l.n != len(want) {
			t.Fatalf("the list has %d entries; want %d", l.n, len(want))
		}
		after, limit := entry(), random.IntN(1500)
		i, found := slices.BinarySearch(want, after)
		if found {
			i++
		}
		if got, rest := l.page(after, limit), want[i:]; !slices.Equal(got, rest[:min(limit, len(rest))]) {
			t.Fatalf("a page of %d entries after %s has %d; want %d", limit, after, len(got), min(limit, len(rest)))
		}
		if got := l.upTo(after); !slices.Equal(got, want[:i]) {
			t.Fatalf("up to %s there are %d entries; want %d", after, len(got), i)
		}
		for _, piece := range l.pieces {
			if len(piece) == 0 || len(piece) > pieceLen {
				t.Fatalf("a piece has %d entries", len(piece))
			}
		}
	}
	for phase, adds := range []int{9, 5, 1, 9, 0} { // of ten steps
		for step := range 12000 {
			e := entry()
			i, found := slices.BinarySearch(want, e)
			if random.IntN(10) < adds {
				l.add(e)
				if !found {
					want = slices.Insert(want, i, e)
				}
			} else {
				l.remove(e)
				if found {
					want = slices.Delete(want, i, i+1)
				}
			}
			if step%50 == 0 {
				check()
			}
		}
		check()
		if phase == 0 && len(l.pieces) < 8 {
			t.Errorf("%d entries are in %d pieces", l.n, len(l.pieces))
		}
	}
	for _, e := range slices.Clone(want) {
		l.remove(e)
		want = want[1:]
	}
	check()
	if len(l.pieces) != 0 || l.page("", 10) != nil || l.page("", -1) != nil {
		t.Errorf("an empty list has %d pieces", len(l.pieces))
	}
}
