package limited_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/internal/limited"
)

// TestLimited: a limited context ends like one of the standard library, for those who wait and for
// those who ask.
func TestLimited(t *testing.T) {
	type key struct{}
	for name, end := range map[string]struct {
		how  func(caller context.CancelFunc, l *limited.Context)
		want error
	}{
		"in time":         {func(context.CancelFunc, *limited.Context) { time.Sleep(time.Second) }, context.DeadlineExceeded},
		"with the caller": {func(caller context.CancelFunc, _ *limited.Context) { caller() }, context.Canceled},
		"at the end":      {func(_ context.CancelFunc, l *limited.Context) { l.End() }, context.Canceled},
	} {
		for _, waited := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				caller, stop := context.WithCancel(context.WithValue(t.Context(), key{}, name))
				defer stop()
				l := limited.Within(caller, time.Second)
				defer l.End()
				if waited {
					l.Done()
				}
				time.Sleep(time.Second - 1)
				select {
				case <-childOf(l, waited):
					t.Errorf("%s: it is over before", name)
				default:
				}
				if err := l.Err(); err != nil {
					t.Errorf("%s: %v before", name, err)
				}
				end.how(stop, l)
				if err := l.Err(); !errors.Is(err, end.want) {
					t.Errorf("%s: %v, want %v", name, err, end.want)
				}
				synctest.Wait()
				select {
				case <-l.Done():
				default:
					t.Errorf("%s: who waits from now on is not told", name)
				}
				if at, ok := l.Deadline(); !ok || time.Until(at) > time.Second || l.Value(key{}) != name {
					t.Errorf("%s: deadline %v, value %v", name, at, l.Value(key{}))
				}
			})
		}
	}
}

// childOf returns what a context derived from l waits for, or nothing.
func childOf(l *limited.Context, derive bool) <-chan struct{} {
	if !derive {
		return nil
	}
	child, stop := context.WithCancel(l)
	defer stop()
	return context.WithoutCancel(child).Done()
}

// TestLimitedByCaller: a caller with less time keeps it.
func TestLimitedByCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		l := limited.Within(caller, time.Second)
		defer l.End()
		begin := time.Now()
		<-l.Done()
		if took := time.Since(begin); took != time.Millisecond || !errors.Is(l.Err(), context.DeadlineExceeded) {
			t.Errorf("it ended after %v: %v", took, l.Err())
		}
	})
}

// TestWait: who waits gets what happens, and otherwise leaves when the time of one of the contexts is
// over, or with the innermost caller. No context gets a timer for that.
func TestWait(t *testing.T) {
	for name, test := range map[string]struct {
		outer, inner time.Duration
		how          func(caller context.CancelFunc, event chan<- int)
		took         time.Duration
		want         error
	}{
		"the event":         {2 * time.Second, time.Second, func(_ context.CancelFunc, event chan<- int) { event <- 7 }, time.Millisecond, nil},
		"the caller leaves": {2 * time.Second, time.Second, func(leave context.CancelFunc, _ chan<- int) { leave() }, time.Millisecond, context.Canceled},
		"the inner end":     {2 * time.Second, time.Second, func(context.CancelFunc, chan<- int) {}, time.Second, context.DeadlineExceeded},
		"the outer end":     {time.Second, 2 * time.Second, func(context.CancelFunc, chan<- int) {}, time.Second, context.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			caller, leave := context.WithCancel(t.Context())
			defer leave()
			watched := &watchedContext{Context: caller}
			outer := limited.Within(watched, test.outer)
			defer outer.End()
			inner := limited.Within(outer, test.inner)
			defer inner.End()
			var timers limited.Timers
			for range 2 { // with a timer that was used before
				begin, event := time.Now(), make(chan int)
				inner := limited.Within(outer, test.inner)
				if name == "the event" {
					event = make(chan int, 1)
				}
				go func() {
					time.Sleep(time.Millisecond)
					test.how(leave, event)
				}()
				got, err := limited.Wait(inner, &timers, event)
				inner.End()
				if took := time.Since(begin); !errors.Is(err, test.want) || (got == 7) != (test.want == nil) || took != test.took {
					t.Errorf("%s: got %d after %v: %v", name, got, took, err)
				}
				synctest.Wait()
				if test.want != nil {
					break // it is over
				}
			}
			if watched.children > 0 {
				t.Errorf("%s: %d contexts wait for that of the caller", name, watched.children)
			}
		})
	}
}

// watchedContext counts the contexts that would be told of its end.
type watchedContext struct {
	context.Context
	children int
}

// Value implements [context.Context]: contexts of the standard library look for one that they know.
func (w *watchedContext) Value(key any) any {
	w.children++
	return w.Context.Value(key)
}

// TestWaitPlainly: for another context, Wait waits for its end.
func TestWaitPlainly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		var timers limited.Timers
		if _, err := limited.Wait(ctx, &timers, make(chan struct{})); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// TestDerived: a context that is made from a limited one needs no goroutine, and ends with it.
func TestDerived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limited.Within(t.Context(), time.Second)
		defer l.End()
		before := runtime.NumGoroutine()
		child, stop := context.WithCancel(l)
		defer stop()
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("%d goroutines wait for the end", n-before)
		}
		time.Sleep(time.Second)
		if <-child.Done(); !errors.Is(child.Err(), context.DeadlineExceeded) {
			t.Error(child.Err())
		}
	})
}
