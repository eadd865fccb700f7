package storage

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestLimited: a limited context ends like one of the standard library, for those who wait and for
// those who ask.
func TestLimited(t *testing.T) {
	type key struct{}
	for name, end := range map[string]struct {
		how  func(caller context.CancelFunc, l *limited)
		want error
	}{
		"in time":         {func(context.CancelFunc, *limited) { time.Sleep(time.Second) }, context.DeadlineExceeded},
		"with the caller": {func(caller context.CancelFunc, _ *limited) { caller() }, context.Canceled},
		"at the end":      {func(_ context.CancelFunc, l *limited) { l.end() }, context.Canceled},
	} {
		for _, waited := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				caller, stop := context.WithCancel(context.WithValue(t.Context(), key{}, name))
				defer stop()
				l := within(caller, time.Second)
				defer l.end()
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
				<-l.Done() // a deadlock if it is not over
				if at, ok := l.Deadline(); !ok || time.Until(at) > time.Second || l.Value(key{}) != name || Caller(l) != caller || Caller(caller) != caller {
					t.Errorf("%s: deadline %v, value %v, caller %v", name, at, l.Value(key{}), Caller(l))
				}
			})
		}
	}
}

// childOf returns what a context derived from l waits for, or nothing.
func childOf(l *limited, derive bool) <-chan struct{} {
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
		l := within(caller, time.Second)
		defer l.end()
		begin := time.Now()
		<-l.Done()
		if took := time.Since(begin); took != time.Millisecond || !errors.Is(l.Err(), context.DeadlineExceeded) {
			t.Errorf("it ended after %v: %v", took, l.Err())
		}
	})
}
