package storagetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// unit is what the counts of these tests spend at a time: a thirtieth of the longest, so that a slow
// machine refills none of it.
const unit = storage.CountMost / 30

// counting is one operation that takes a unit from each count.
func counting(pool string, names ...string) storage.Counting {
	c := storage.Counting{Pool: pool}
	for _, n := range names {
		c.Counts = append(c.Counts, storage.Count{Name: n, Per: storage.CountMost, Need: unit, Spend: unit})
	}
	return c
}

// count does an operation, and checks whether it was done and what the counts owe, to a unit.
func count(t *testing.T, b storage.Backend, what string, c storage.Counting, done bool, units ...int) {
	t.Helper()
	counted, err := b.Count(t.Context(), c)
	if err != nil || counted.Done != done || len(counted.Owed) != len(c.Counts) {
		t.Fatalf("%s: %+v, %v, want done %v", what, counted, err, done)
	}
	for i, owed := range counted.Owed {
		if want := time.Duration(units[i]) * unit; owed > want || owed < want-unit/2 {
			t.Errorf("%s: count %d owes %s, want %s", what, i, owed, want)
		}
	}
}

// testCount: what is needed must fit, all counts change or none, what is spent without need is owed
// up to the bound, what is given back is not owed, and pools, areas and names are apart.
func testCount(t *testing.T, b storage.Backend) {
	pool, other := unique("pool"), unique("other")
	count(t, b, "nothing", storage.Counting{Pool: pool}, true)
	for i := 1; i <= 30; i++ {
		count(t, b, "a unit", counting(pool, "a"), true, i)
	}
	count(t, b, "one more", counting(pool, "a"), false, 30)
	count(t, b, "of two, one of which has too little", counting(pool, "b", "a"), false, 0, 30)
	count(t, b, "another pool", counting(other, "a"), true, 1)
	area := counting(pool, "a")
	area.Counts[0].Area = storage.CountAreas - 1
	count(t, b, "another area", area, true, 1)
	over := counting(pool, "a", "b")
	over.Counts[0].Need, over.Counts[1].Spend = 0, 0
	count(t, b, "without need, and without spending", over, true, 30, 0)
	back := counting(pool, "a", "b")
	back.Counts[0].Need, back.Counts[0].Spend, back.Counts[1].Need, back.Counts[1].Spend = 0, -2*unit, 0, -unit
	count(t, b, "given back", back, true, 28, 0)
	count(t, b, "the same count twice", counting(pool, "a", "a"), true, 30, 30)
	short := counting(pool, "a")
	short.Counts[0].Per = 2 * unit
	count(t, b, "with another bound", short, false, 2)
	large := counting(pool, "c")
	large.Counts[0].Need, large.Counts[0].Spend = 2*storage.CountMost, 2*storage.CountMost
	count(t, b, "more than the bound, of a count that owes nothing", large, true, 30)
	count(t, b, "and once more", large, false, 30)
	keys, _, err := b.Scan(t.Context(), pool, "", 100)
	if err != nil || len(keys) > 0 {
		t.Errorf("a pool is scanned as an item: %q, %v", keys, err)
	}
}

// raceCount: of many operations at once exactly as many are done as fit.
func raceCount(t *testing.T, b storage.Backend) {
	pool := unique("race")
	refused := errors.New("refused")
	errs := together(3*runners, func(int) error {
		counted, err := b.Count(context.WithoutCancel(t.Context()), counting(pool, "a", "b"))
		if err == nil && !counted.Done {
			err = refused
		}
		return err
	})
	done := 0
	for _, err := range errs {
		switch {
		case err == nil:
			done++
		case !errors.Is(err, refused):
			t.Fatal(err)
		}
	}
	if want := min(30, 3*runners); done != want {
		t.Errorf("%d of %d operations were done, want %d", done, 3*runners, want)
	}
}
