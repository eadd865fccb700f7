package limit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// waited runs one attempt and returns how long it stood in line.
func waited(t *testing.T, g *Guesses, key string) time.Duration {
	t.Helper()
	begin := time.Now()
	if err := g.Wait(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	return time.Since(begin)
}

func TestGuessingSlowsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGuesses(time.Now)
		for i := range freeFailures {
			if d := waited(t, g, "a"); d != 0 {
				t.Fatalf("attempt %d waited %s", i, d)
			}
			g.Failed("a")
		}
		begin := time.Now()
		for range 100 {
			waited(t, g, "a")
			g.Failed("a")
		}
		if took := time.Since(begin); took < 80*time.Second || took > 100*time.Second {
			t.Errorf("100 further guesses took %s, want about one a second", took)
		}
		if d := waited(t, g, "b"); d != 0 {
			t.Errorf("another key waited %s", d)
		}
		if d := waited(t, g, "a"); d > lastSpacing {
			t.Errorf("the right answer would wait %s: that locks a person out", d)
		}
		g.Forget("a")
		if d := waited(t, g, "a"); d != 0 {
			t.Errorf("after the right answer an attempt waited %s", d)
		}
	})
}

func TestTheLineIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGuesses(time.Now)
		for range 50 {
			g.Failed("a")
		}
		outcomes := make(chan error, 100)
		for range 100 {
			go func() { outcomes <- g.Wait(t.Context(), "a") }()
		}
		busy := 0
		for range 100 {
			if errors.Is(<-outcomes, ErrBusy) {
				busy++
			}
		}
		if busy < 90 || busy == 100 {
			t.Errorf("%d of 100 were turned away, want most and not all", busy)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGuesses(time.Now)
		for range 50 {
			g.Failed("a")
		}
		waited(t, g, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := g.Wait(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the deadline", err)
		}
	})
}

func TestKeysAreBounded(t *testing.T) {
	now := time.Unix(0, 0)
	g := NewGuesses(func() time.Time { return now })
	for i := range 3 * maxKeys {
		g.Failed(fmt.Sprint(i))
	}
	if len(g.keys) > maxKeys {
		t.Errorf("%d keys are kept", len(g.keys))
	}
	now = now.Add(forgetAfter + time.Second)
	g.Failed("new")
	if len(g.keys) != 1 {
		t.Errorf("%d keys are kept after all were forgotten", len(g.keys))
	}
}
