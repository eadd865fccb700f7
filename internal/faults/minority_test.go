//go:build e2e

package faults

import (
	"fmt"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// TestMinorityVouchesForNothing: a process, the primary and one sentinel are cut off from two
// sentinels, the replicas and another process. There a replica takes over, families are revoked
// and tokens change. The first process still reaches its primary, and gives no outdated answers:
// it answers 503.
func TestMinorityVouchesForNothing(t *testing.T) {
	t.Parallel()
	// If sentinels stall meanwhile, the other process has not watched the term to its end, and waits for
	// the primary before; that is another fault, so the wait is short.
	s := newSuccessionOf(t, cast{replicas: 2, workers: flapWorkers, downAfter: time.Second, divisible: true, parameters: "?wait-for-missing=3s"})
	rounds := amount(1, 20)
	for range rounds {
		s.divide()
		if t.Failed() {
			return
		}
	}
	t.Logf("%d rounds: everything worked at most %s after the sides were united; answers %v", rounds, s.longest.Round(time.Millisecond), s.answers)
}

// divide is one round.
func (s *succession) divide() {
	s.t.Helper()
	begun := time.Now()
	s.begin()
	rest := s.work()
	s.ripen()
	p := s.pledge()
	old := s.primary
	far, near := s.at[0], s.at[1]
	if s.random.IntN(2) == 0 {
		far, near = near, far
	}
	s.mustHave(len(s.replicas))
	<-time.After(300 * time.Millisecond) // until both processes have seen that: a replica that does not follow is no candidate
	s.lose(func() {
		sentinel := s.group.Nodes[s.random.IntN(len(s.group.Nodes))]
		s.divided.Divide([]*redistest.Server{old, sentinel}, far.pid())
	})
	s.succeed(old)
	longest := s.longest
	s.recoversAt(s.named, near)
	s.longest = longest // that is about another fault
	s.unname()
	p.near = near
	p.keep()
	p.near = nil
	enough := p.watch()
	least := s.shortly()
	for kept := time.Now(); time.Since(kept) < least; {
		s.more(4)
		s.pause(200 * time.Millisecond)
	}
	s.divided.Unite()
	united := time.Now()
	s.reunites()
	enough()
	p.mustBeKept()
	rest()
	s.settle(fmt.Sprintf("a process was cut off for %s", united.Sub(s.lost).Round(time.Millisecond)), begun)
}

// pid returns the id of the running process.
func (p *process) pid() int {
	cmd, _ := p.running()
	return cmd.Process.Pid
}
