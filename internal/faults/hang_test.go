//go:build e2e

package faults

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// hangCost is how long a write may take while one replica hangs and another one follows.
const hangCost = 3 * time.Second

// TestReplicaHangs: one of two replicas stops without closing connections. Writes wait a moment
// at most, while the other one confirms.
func TestReplicaHangs(t *testing.T) {
	t.Parallel()
	s := newSuccessionOf(t, cast{replicas: 2, workers: flapWorkers, downAfter: time.Second})
	var worst time.Duration
	rounds := amount(1, 20)
	for i := range rounds {
		worst = max(worst, s.hang(s.replicas[i%2]))
		if t.Failed() {
			return
		}
	}
	t.Logf("%d rounds: a write took %s at most; answers %v", rounds, worst.Round(time.Millisecond), s.answers)
}

// hang is one round. It returns the longest time from the first try of a write until it was
// acknowledged.
func (s *succession) hang(r *redistest.Server) (worst time.Duration) {
	s.t.Helper()
	begun := time.Now()
	s.begin()
	rest := s.work()
	s.ripen()
	p := s.pledge()
	p.keep()
	enough := s.writing(&worst)
	r.Pause()
	for range 25 + s.random.IntN(25) {
		s.more(8)
		s.pause(200 * time.Millisecond)
	}
	r.Resume()
	enough()
	if worst > hangCost {
		s.t.Errorf("while a replica hung, a write took %s", worst)
	}
	s.reunites()
	p.mustBeKept()
	rest()
	s.settle("a replica hung", begun)
	return worst
}

// writing has clients register at both processes, one after the other, until the returned
// function is called. The longest time of one of them is in worst then.
func (s *succession) writing(worst *time.Duration) (enough func()) {
	return s.meanwhile(len(s.at), 20*time.Millisecond, func(i int) {
		began := time.Now()
		s.insist(i, s.register)
		s.mu.Lock()
		defer s.mu.Unlock()
		*worst = max(*worst, time.Since(began))
	})
}

// TestReplicaHangsAndTakesOver: the only replica stops without closing connections. Writes are
// 503 until it is certain that it will not take over; then the primary serves alone. When the
// replica goes on, which lacks those writes, the primary stops, and Sentinel promotes the
// replica. The writes that the primary acknowledged alone are not lost, neither for the processes
// that saw them nor for one that has just been started.
func TestReplicaHangsAndTakesOver(t *testing.T) {
	t.Parallel()
	s := newSuccessionOf(t, cast{replicas: 1, workers: flapWorkers, downAfter: time.Second, hesitant: true})
	struck, tried, wanted := 0, 0, amount(1, 20)
	var alone time.Duration
	for ; struck < wanted && tried < 3*wanted && !t.Failed(); tried++ {
		ok, after := s.hangAndTakeOver()
		alone = max(alone, after)
		if ok {
			struck++
		}
	}
	t.Logf("%d rounds: the primary served alone after %s at most; Sentinel promoted the replica in %d; everything worked at most %s after the last fault; answers %v",
		tried, alone.Round(time.Millisecond), struck, s.longest.Round(time.Millisecond), s.answers)
	if struck < wanted && !t.Failed() {
		t.Errorf("Sentinel promoted the replica in %d of %d rounds, which shows too little", struck, tried)
	}
}

func (s *succession) hangAndTakeOver() (struck bool, alone time.Duration) {
	s.t.Helper()
	begun, term := time.Now(), s.term()
	s.begin()
	primary, replica := s.primary, s.replicas[0]
	way := redistest.StartProxy(s.t, primary.Addr)
	defer way.Close()
	replica.Replicate(primary, way.Addr)
	s.group.Settle(1)
	rest := s.work()
	s.ripen()
	p := s.pledge()
	s.lose(func() {
		way.Latency(redistest.Replies, forever, 0)
		replica.Pause()
	})
	alone = s.servesAlone()
	if s.t.Failed() {
		return false, alone
	}
	p.keep()
	enough := p.watch()
	late := s.leaves()
	way.Cut() // bytes on their way to the replica are lost
	replica.Resume()
	s.release(s.replicas)
	primary.Pause()
	running := s.comes(late)
	struck = s.outlast(primary, s.shortly())
	primary.Resume()
	s.reunites()
	running()
	enough()
	if s.term() == term {
		s.restore()
	}
	p.mustBeKept()
	rest()
	s.settle(fmt.Sprintf("the replica was promoted %t", struck), begun)
	return struck, alone
}

// servesAlone waits until the primary answers alone, and returns how long that took.
func (s *succession) servesAlone() time.Duration {
	s.t.Helper()
	longest := s.longest
	s.longest = 0
	s.recoversFrom(s.lost)
	alone := s.longest
	s.longest = longest
	return alone
}

// leaves kills a process.
func (s *succession) leaves() *member {
	late := s.at[s.random.IntN(len(s.at))]
	late.leave()
	late.kill()
	return late
}

// comes starts a process again and again, until it runs. Without its store it ends. The returned
// function waits for it.
func (s *succession) comes(m *member) (running func()) {
	var starting sync.WaitGroup
	starting.Go(func() {
		client := &http.Client{Timeout: time.Second}
		defer client.CloseIdleConnections()
		m.launch(s.t, m.flags)
		for began := time.Now(); m.ended() || !m.answers(client); <-time.After(50 * time.Millisecond) {
			if time.Since(began) > 2*patience {
				s.t.Errorf("authz at %s does not start: %v", m.address, m.err)
				return
			}
			if m.ended() {
				m.launch(s.t, m.flags)
			}
		}
		m.arrive()
	})
	return starting.Wait
}

// answers reports whether the process is healthy.
func (m *member) answers(client *http.Client) bool {
	resp, err := client.Get("http://" + m.address + "/healthz")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
