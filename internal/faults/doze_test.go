//go:build e2e

package faults

import (
	"fmt"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage/redis/redistest"
)

// doze describes how a primary stops for a moment.
type doze struct {
	replicas int
	// prepare is called before each round, if not nil.
	prepare func(s *succession)
	// sleep returns when the primary is to go on.
	sleep func(s *succession)
}

// TestPrimaryWakesUp: a primary that was only slow goes on before, in the middle of, or after a
// failover, and for a while there may be two. In a pair no server is left that could confirm
// writes to the old one, so none of them is acknowledged.
func TestPrimaryWakesUp(t *testing.T) {
	t.Parallel()
	dozes(t, doze{replicas: 1, sleep: func(s *succession) {
		<-time.After(1500 * time.Millisecond)
		s.pause(2700 * time.Millisecond)
	}})
}

// TestPrimaryWakesUpAmongThree: the same with a second replica, which follows the old primary to
// the end: the sentinels cannot make it follow the new one. So it has every write to the old
// primary after that goes on, which is when the other replica has just become a primary and few
// processes use it.
func TestPrimaryWakesUpAmongThree(t *testing.T) {
	t.Parallel()
	dozes(t, doze{replicas: 2, prepare: holdsOn, sleep: func(s *succession) {
		next := s.replicas[0]
		eventually(t, patience, func() error {
			if role := replication(t.Context(), next)["role"]; role != "master" {
				return fmt.Errorf("%s is a %s", next.Addr, role)
			}
			return nil
		})
		s.pause(400 * time.Millisecond)
	}})
}

// holdsOn pins the last replica to the primary, and has the sentinels prefer the other one.
func holdsOn(s *succession) {
	s.t.Helper()
	last := s.replicas[len(s.replicas)-1]
	s.configure(s.replicas[0], "replica-priority", "10")
	s.configure(s.primary, "replica-priority", "10")
	s.configure(last, "replica-priority", "100")
	last.Replicate(s.primary, s.primary.Addr)
	s.group.Settle(len(s.replicas))
	<-time.After(time.Second) // until the sentinels have asked for the priorities
}

func dozes(t *testing.T, d doze) {
	s := newSuccessionOf(t, cast{replicas: d.replicas, workers: flapWorkers, downAfter: time.Second})
	replaced, rounds := 0, amount(2, 20)
	for range rounds {
		old := s.term()
		s.doze(d)
		if t.Failed() {
			return
		}
		if s.term() != old {
			replaced++
		}
	}
	t.Logf("%d of %d primaries were replaced; everything worked at most %s afterwards; answers %v",
		replaced, rounds, s.longest.Round(time.Millisecond), s.answers)
}

// doze is one round.
func (s *succession) doze(d doze) {
	s.t.Helper()
	begun, old, term := time.Now(), s.primary, s.term()
	s.begin()
	if d.prepare != nil {
		d.prepare(s)
	}
	rest := s.work()
	s.ripen()
	s.more(60)
	enough := s.registering()
	s.lose(old.Pause)
	fell := time.Now()
	d.sleep(s)
	old.Resume()
	asleep := time.Since(fell)
	woke := time.Now()
	for range 25 {
		s.more(8)
		s.pause(200 * time.Millisecond)
	}
	enough()
	s.recoversFrom(woke)
	s.release(s.replicas)
	s.reunites()
	what := "replaced"
	switch {
	case s.term() == term:
		what = "in time"
		s.restore()
	case s.primary == old:
		what = "replaced, and restored"
	}
	s.more(60)
	rest()
	s.settle(fmt.Sprintf("the primary was stopped for %s, %s", asleep.Round(time.Millisecond), what), begun)
}

// registering has clients register at both processes until the returned function is called, so
// that some write is acknowledged whenever any can be.
func (s *succession) registering() (enough func()) {
	return s.meanwhile(2*len(s.at), 10*time.Millisecond, func(i int) { s.register(s.at[i%len(s.at)].process) })
}

// meanwhile has n goroutines call do again and again, with pauses, until the returned function is
// called or the test is over.
func (s *succession) meanwhile(n int, pause time.Duration, do func(i int)) (enough func()) {
	done := make(chan struct{})
	var busy sync.WaitGroup
	for i := range n {
		busy.Go(func() {
			for {
				do(i)
				select {
				case <-done:
					return
				case <-time.After(pause):
				}
			}
		})
	}
	enough = sync.OnceFunc(func() { close(done); busy.Wait() })
	s.t.Cleanup(enough)
	return enough
}

// term returns the number that the sentinels gave to the present primary. It grows with each
// failover, also with one that restores the old primary.
func (s *succession) term() (epoch string) {
	s.t.Helper()
	for _, sentinel := range s.group.Nodes {
		said := goredis.NewMapStringStringCmd(s.t.Context(), "sentinel", "master", redistest.PrimaryName)
		if err := sentinel.Client().Process(s.t.Context(), said); err != nil {
			s.t.Fatal(err)
		}
		epoch = max(epoch, fmt.Sprintf("%9s", said.Val()["config-epoch"]))
	}
	return epoch
}

// restore resets the loss of the primary: it was back before another one took over.
func (s *succession) restore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost, s.named = time.Time{}, time.Now()
}
