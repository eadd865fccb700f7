package redis

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
)

// TestFlightsEnd: a flight lasts as long as the caller with the most time, one with less leaves before,
// and where a flight hangs in a lost connection the next commands go without it.
func TestFlightsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		b := w.backend(0)
		within := func(d time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return ctx
		}
		hung := get(t, within(time.Second), b, "a")
		short := get(t, within(promptPatience/2), b, "short")
		time.Sleep(promptPatience / 2)
		wantErr(t, short, context.DeadlineExceeded)
		begun := time.Now()
		waits, joins := get(t, within(300*time.Millisecond), b, "c"), get(t, within(600*time.Millisecond), b, "d")
		time.Sleep(lookAfter - promptPatience/2 - time.Nanosecond)
		w.want(t, "a")
		time.Sleep(time.Nanosecond)
		w.want(t, "a", "c d")
		wantErr(t, chanOf(<-waits), context.DeadlineExceeded)
		wantErr(t, chanOf(<-joins), context.DeadlineExceeded)
		if took := time.Since(begun); took != 600*time.Millisecond {
			t.Errorf("the flight of two callers lasted until %v", took)
		}
		wantErr(t, chanOf(<-hung), context.DeadlineExceeded)
		next := get(t, t.Context(), b, "e")
		w.want(t, "a", "c d", "e")
		w.land(2)
		wantErr(t, next, nil)
	})
}

// hang has as many flights out as may be: another one begins after each lookAfter, for those that wait,
// without anybody new.
func (w *tower) hang(t *testing.T, b *backend) (flights []string, outs []<-chan error) {
	t.Helper()
	for i := range lateFlights {
		key := fmt.Sprint(i)
		outs, flights = append(outs, get(t, t.Context(), b, key)), append(flights, key)
		w.want(t, flights[:max(1, i)]...)
		if i > 0 {
			time.Sleep(lookAfter)
		}
		w.want(t, flights...)
	}
	return flights, outs
}

// TestLateFlightsAreBounded: while flights hang, others begin up to a bound. Then what waits goes when one
// of them has ended.
func TestLateFlightsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		b := w.backend(0)
		flights, outs := w.hang(t, b)
		outs = append(outs, get(t, t.Context(), b, "last"))
		time.Sleep(10 * lookAfter)
		w.want(t, flights...)
		w.land(0)
		w.want(t, append(flights, "last")...)
		for flight := 1; flight <= lateFlights; flight++ {
			w.land(flight)
		}
		for _, out := range outs {
			wantErr(t, out, nil)
		}
	})
}

func chanOf(err error) <-chan error {
	out := make(chan error, 1)
	out <- err
	return out
}

// TestLateIsTheLastFlight: patience counts from the begin of the flight that is out, whenever somebody began to
// wait. Who arrives after it takes along those that wait, and a look that comes when nobody waits changes
// nothing.
func TestLateIsTheLastFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		b := w.backend(0)
		arrive := func(keys ...string) (outs []<-chan error) {
			for _, key := range keys {
				outs = append(outs, get(t, t.Context(), b, key))
			}
			return outs
		}
		outs := arrive("a", "b")
		time.Sleep(promptPatience / 2)
		w.land(0)
		w.want(t, "a", "b")
		outs = append(outs, arrive("c")...)
		time.Sleep(promptPatience - time.Nanosecond)
		outs = append(outs, arrive("d")...)
		w.want(t, "a", "b")
		time.Sleep(time.Nanosecond)
		outs = append(outs, arrive("e")...)
		w.want(t, "a", "b", "c d e")
		time.Sleep(lookAfter) // nobody waits any more
		w.want(t, "a", "b", "c d e")
		outs = append(outs, arrive("f")...)
		w.want(t, "a", "b", "c d e", "f")
		for flight := 1; flight < 4; flight++ {
			w.land(flight)
		}
		for _, out := range outs {
			wantErr(t, out, nil)
		}
	})
}

// TestLateFlightsGoAway: when a late flight lands while another one is out, those that wait go after that one,
// so one at a time is out again.
func TestLateFlightsGoAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		b := w.backend(0)
		outs := []<-chan error{get(t, t.Context(), b, "late")}
		time.Sleep(promptPatience)
		outs = append(outs, get(t, t.Context(), b, "beside"), get(t, t.Context(), b, "a"), get(t, t.Context(), b, "b"))
		w.want(t, "late", "beside")
		w.land(0)
		w.want(t, "late", "beside")
		w.land(1)
		w.want(t, "late", "beside", "a b")
		w.land(2)
		for _, out := range outs {
			wantErr(t, out, nil)
		}
	})
}

// TestALateFlightHoldsNobody: beside a flight that hangs, commands share flights as ever, one at a time: each
// goes when the one before it lands, however soon that is.
func TestALateFlightHoldsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		b := w.backend(0)
		outs := []<-chan error{get(t, t.Context(), b, "hangs")}
		time.Sleep(promptPatience)
		outs = append(outs, get(t, t.Context(), b, "a"), get(t, t.Context(), b, "b"), get(t, t.Context(), b, "c"))
		w.want(t, "hangs", "a")
		w.land(1)
		w.want(t, "hangs", "a", "b c")
		outs = append(outs, get(t, t.Context(), b, "d"))
		w.want(t, "hangs", "a", "b c")
		w.land(2)
		w.want(t, "hangs", "a", "b c", "d")
		w.land(3)
		outs = append(outs, get(t, t.Context(), b, "e"))
		w.want(t, "hangs", "a", "b c", "d", "e")
		w.land(4)
		w.land(0)
		for _, out := range outs {
			wantErr(t, out, nil)
		}
	})
}

// TestOthersDoNotWaitForAFlight: who may not fly with those that board has a flight of their own.
func TestOthersDoNotWaitForAFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		b := w.backend(1)
		confirmed := &b.lanesTo(towerAddr).confirmed
		first := &job{ctx: t.Context(), server: b.client.(*goredis.Client), need: 2, cmds: []goredis.Cmder{goredis.NewStringCmd(t.Context(), "get", "a")}}
		begun, opens := confirmed.opens(first)
		if !opens {
			t.Fatal("the first job does not begin a flight")
		}
		out := swap(t, t.Context(), b, storage.Put{Key: "b"})
		w.want(t)
		if confirmed.closes(first, begun) {
			t.Fatal("a job is left behind")
		}
		synctest.Wait()
		if b.Flights() != 2 || len(w.flights) != 2 {
			t.Fatalf("flights: %q", w.flights)
		}
		w.land(0)
		w.land(1)
		<-first.done
		wantErr(t, out, nil)
	})
}
