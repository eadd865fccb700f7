package fair_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"gatehouse.example/internal/fair"
)

// store is a counter that says what a test wants.
type store struct {
	owed  time.Duration
	done  bool
	err   error
	asked [][]fair.Charge
}

func (s *store) count(_ context.Context, charges []fair.Charge) ([]time.Duration, bool, error) {
	s.asked = append(s.asked, charges)
	return slices.Repeat([]time.Duration{s.owed}, len(charges)), s.done, s.err
}

// TestSharedKnowsWhatTheStoreSaid: the store decides, and what it said last is refused without asking,
// in the area of the bucket alone, until something is given back.
func TestSharedKnowsWhatTheStoreSaid(t *testing.T) {
	t.Parallel()
	c, says := newClock(), &store{}
	s := fair.NewShared(says.count, fair.NewLimiter(c.now), fair.NewLimiter(c.now))
	charge := func(area int) []fair.Charge { return fair.In(area, fair.Takes(1, share("a"))) }
	take := func(what string, area int, want time.Duration, asked int) {
		t.Helper()
		says.asked = nil
		if wait, err := s.Take(t.Context(), charge(area)); err != nil || wait != want || len(says.asked) != asked {
			t.Errorf("%s: a wait of %v, %v, after %d questions; want %v after %d", what, wait, err, len(says.asked), want, asked)
		}
	}
	says.owed, says.done = time.Minute, false
	take("the store refuses", 1, 6*time.Second, 1)
	take("again", 1, 6*time.Second, 0)
	says.done = true
	take("another area, the last one there is", 0, 0, 1)
	take("again", 0, 6*time.Second, 0)
	if wait := s.Wait(1, share("a")); wait != 6*time.Second {
		t.Errorf("the first area lets wait %v", wait)
	}

	says.owed, says.asked = 54*time.Second, nil
	if err := s.Return(t.Context(), charge(0)); err != nil {
		t.Error(err)
	}
	if len(says.asked) != 1 || says.asked[0][0].Spend != -1 || says.asked[0][0].Need != 0 || says.asked[0][0].Area != 0 {
		t.Errorf("the store was told %+v", says.asked)
	}
	take("what was given back", 0, 0, 1)
	take("the other area", 1, 6*time.Second, 0)

	c.at = c.at.Add(time.Hour)
	says.err = errors.New("down")
	if _, err := s.Take(t.Context(), charge(0)); !errors.Is(err, says.err) {
		t.Errorf("the store is down: %v", err)
	}
	if err := s.Return(t.Context(), charge(0)); !errors.Is(err, says.err) {
		t.Errorf("the store is down: %v", err)
	}
}

// TestCharges: only what takes or spends a weight spends it, and only what takes or checks needs it.
func TestCharges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		charges     []fair.Charge
		need, spend int64
	}{
		"takes": {fair.Takes(3, share("a")), 3, 3}, "checks": {fair.Checks(3, share("a")), 3, 0},
		"spends": {fair.Spends(3, share("a")), 0, 3}, "gives back": {fair.Spends(-3, share("a")), 0, -3},
	} {
		if want := []fair.Charge{{Bucket: share("a"), Need: c.need, Spend: c.spend}}; !slices.Equal(c.charges, want) {
			t.Errorf("%s: %+v, want %+v", name, c.charges, want)
		}
	}
}

// TestRaise: a bucket owes at least what another count says, and not the sum.
func TestRaise(t *testing.T) {
	t.Parallel()
	l := fair.NewLimiter(newClock().now)
	for _, step := range []struct{ owes, want time.Duration }{
		{30 * time.Second, 0}, {33 * time.Second, 0}, {57 * time.Second, 3 * time.Second}, {time.Minute, 6 * time.Second}, {time.Second, 6 * time.Second}, {time.Hour, 6 * time.Second},
	} {
		l.Raise(share("a"), step.owes)
		if wait := l.Wait(1, share("a")); wait != step.want {
			t.Errorf("raised to %v, the wait is %v, want %v", step.owes, wait, step.want)
		}
	}
}

// TestApply: a charge is spent if what it needs is there, and says what is owed then.
func TestApply(t *testing.T) {
	t.Parallel()
	l := fair.NewLimiter(newClock().now)
	const sixth = 10 * time.Second
	for i, step := range []struct {
		need, spend, owed time.Duration
		done              bool
	}{
		{sixth, sixth, sixth, true}, {5 * sixth, 5 * sixth, 6 * sixth, true}, {sixth, sixth, 6 * sixth, false}, {0, sixth, 6 * sixth, true},
		{0, -2 * sixth, 4 * sixth, true}, {3 * sixth, 3 * sixth, 4 * sixth, false}, {2 * sixth, 0, 4 * sixth, true}, {0, -time.Hour, 0, true},
	} {
		owed, done := l.Apply(fair.Debt{Key: "a", Per: time.Minute, Need: step.need, Spend: step.spend})
		if owed != step.owed || done != step.done {
			t.Errorf("step %d: %v, %t, want %v, %t", i, owed, done, step.owed, step.done)
		}
	}
}
