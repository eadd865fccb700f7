package message_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"gatehouse.example/message"
)

func TestSessionIDs(t *testing.T) {
	var s message.SessionIDs
	var large message.ID
	if err := json.Unmarshal([]byte(`18446744073709551617`), &large); err != nil { // 2^64 + 1: 1 if digits are lost
		t.Fatal(err)
	}
	for _, id := range []message.ID{
		message.NumberID(1), text(t, "1"), large, message.NumberID(math.MaxInt64), message.NumberID(math.MinInt64),
		message.NumberID(math.MaxInt64 - 1), message.NumberID(math.MinInt64 + 1), message.NumberID(3), message.NumberID(2),
		message.NumberID(1 << 53), message.NumberID(1<<53 + 1), text(t, ""), message.NumberID(0), message.NumberID(-1),
	} {
		if err := s.Use(id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if err := s.Use(id); !errors.Is(err, message.ErrIDReused) {
			t.Errorf("%s again: %v", id, err)
		}
	}
	if err := s.Use(message.ID{}); err == nil {
		t.Error("no id is an id")
	}
}

// TestSessionIDsAgainstSet compares with a plain set.
func TestSessionIDsAgainstSet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var s message.SessionIDs
		used := map[int64]bool{}
		for range 300 {
			n := random.Int64N(128)
			if err := s.Use(message.NumberID(n)); (err != nil) != used[n] || err != nil && !errors.Is(err, message.ErrIDReused) {
				t.Fatalf("%d, used before: %v; %v", n, used[n], err)
			}
			used[n] = true
		}
	}
}

// TestSessionIDsBounded: consecutive integers take the space of one id, other ids fill the space,
// and none is removed when it is full.
func TestSessionIDsBounded(t *testing.T) {
	s := message.SessionIDs{Max: 3}
	use := func(id message.ID, want error) {
		t.Helper()
		if err := s.Use(id); !errors.Is(err, want) {
			t.Fatalf("%s: %v, want %v", id, err, want)
		}
	}
	for n := range int64(100_000) {
		use(message.NumberID(n), nil)
	}
	use(text(t, "a"), nil)
	use(message.NumberID(200_000), nil)
	use(text(t, "b"), message.ErrTooManyIDs)
	use(message.NumberID(300_000), message.ErrTooManyIDs)
	use(message.NumberID(100_000), nil)
	use(message.NumberID(199_999), nil)
	use(text(t, "a"), message.ErrIDReused)
	use(message.NumberID(7), message.ErrIDReused)
	use(message.NumberID(200_000), message.ErrIDReused)
}

// TestSessionIDsJoin: two runs become one when the gap between them is filled.
func TestSessionIDsJoin(t *testing.T) {
	s := message.SessionIDs{Max: 2}
	for _, n := range []int64{1, 3, 2, 10, 4, 9} {
		if err := s.Use(message.NumberID(n)); err != nil {
			t.Fatalf("%d: %v", n, err)
		}
	}
	if err := s.Use(message.NumberID(20)); !errors.Is(err, message.ErrTooManyIDs) {
		t.Error(err)
	}
}

func TestSessionIDsDefaultBound(t *testing.T) {
	var s message.SessionIDs
	var err error
	n := 0
	for ; err == nil && n < 1<<20; n++ {
		err = s.Use(text(t, fmt.Sprint("x", n)))
	}
	if !errors.Is(err, message.ErrTooManyIDs) || n != 1<<14+1 {
		t.Errorf("%v after %d", err, n)
	}
}

func TestInFlight(t *testing.T) {
	f := message.InFlight{Max: 2}
	one, two, three := message.NumberID(1), text(t, "1"), message.NumberID(3)
	if err := errors.Join(f.Begin(one), f.Begin(two)); err != nil {
		t.Fatal(err)
	}
	if err := f.Begin(one); !errors.Is(err, message.ErrIDReused) {
		t.Errorf("while it waits: %v", err)
	}
	if err := f.Begin(three); !errors.Is(err, message.ErrTooManyIDs) {
		t.Errorf("when it is full: %v", err)
	}
	if f.End(three) || !f.End(one) || f.End(one) {
		t.Error("which request waits")
	}
	if err := f.Begin(one); err != nil {
		t.Errorf("after its answer: %v", err)
	}
	if err := f.Begin(message.ID{}); err == nil {
		t.Error("no id is an id")
	}
}

func TestInFlightDefaultBound(t *testing.T) {
	var f message.InFlight
	for n := range int64(1 << 10) {
		if err := f.Begin(message.NumberID(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Begin(message.NumberID(-1)); !errors.Is(err, message.ErrTooManyIDs) {
		t.Error(err)
	}
}

// TestRequestersTogether: of several goroutines that use an id at once, one succeeds.
func TestRequestersTogether(t *testing.T) {
	var s message.SessionIDs
	var f message.InFlight
	var used, begun atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for n := range int64(500) {
				if s.Use(message.NumberID(n)) == nil {
					used.Add(1)
				}
				if f.Begin(message.NumberID(n)) == nil {
					begun.Add(1)
				}
			}
		})
	}
	all.Wait()
	var ended atomic.Int64
	for range 4 {
		all.Go(func() {
			for n := range int64(500) {
				if f.End(message.NumberID(n)) {
					ended.Add(1)
				}
			}
		})
	}
	all.Wait()
	if ended.Load() != 500 {
		t.Errorf("%d ended, want 500", ended.Load())
	}
	if used.Load() != 500 || begun.Load() != 500 {
		t.Errorf("%d and %d won, want 500", used.Load(), begun.Load())
	}
}
