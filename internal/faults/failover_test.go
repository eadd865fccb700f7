//go:build e2e

package faults

import (
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// TestFailoversUnderLoad: whatever the replicas have received when the primary is lost, all
// acknowledged writes are there when one of them has taken over, and no code gives tokens twice.
// In between every request is served or answered with 503. A code from before gives no tokens
// afterwards, unless it has given them already; that, and a lost page in progress, is all that
// clients and people notice.
func TestFailoversUnderLoad(t *testing.T) {
	t.Parallel()
	s := newSuccession(t, 2)
	rounds := amount(3, 21)
	for i := range rounds {
		s.fail(lags[i%len(lags)], losses[i%len(losses)])
		if t.Failed() {
			return
		}
	}
	t.Logf("%d failovers; everything worked at most %s after the sentinels named a primary, %s after the one before was lost; answers %v",
		rounds, s.longest.Round(time.Millisecond), s.absence.Round(time.Millisecond), s.answers)
}

// TestPrimaryServesAlone: when all replicas are gone for good, none could take over, so writes
// wait for none. A request that was answered with 503 until then has lost nothing.
func TestPrimaryServesAlone(t *testing.T) {
	t.Parallel()
	s := newSuccession(t, 2)
	s.begin()
	rest := s.work()
	s.ripen()
	for _, r := range s.replicas {
		r.Kill()
	}
	s.named = time.Now()
	s.more(60)
	s.recovers()
	s.ripen()
	rest()
	s.settle("the replicas are gone", s.named)
	t.Logf("the primary served alone after %s", s.longest.Round(time.Millisecond))
}

// TestFailoverForgets: the primary is lost together with the replica that confirmed its last
// writes, and the other replica takes over, which lacks them. It is not trusted until the two
// have been waited for. Then it serves alone, and no code gives tokens a second time, nor for the
// first time; clients go on with refresh tokens of families that it has, unless it lacks more
// than eight of their rotations.
func TestFailoverForgets(t *testing.T) {
	t.Parallel()
	s := newSuccession(t, 2, "?wait-for-missing=2s")
	s.begin()
	p := s.fleet.newParty(s.at[0].process)
	codes := p.mustCodes(s.at[0].process, 4)
	var families []answer
	for range 10 {
		families = append(families, p.mustTokens(s.at[1].process))
	}
	s.mustHave(len(s.replicas))
	way := redistest.StartProxy(t, s.primary.Addr)
	s.replicas[0].Replicate(s.primary, way.Addr)
	s.group.Settle(len(s.replicas))
	way.Latency(redistest.Replies, forever, 0)
	s.serveAgain() // without the replica that receives nothing any more

	var spent []answer
	for _, code := range codes[1:] {
		spent = append(spent, must(t, "tokens", p.redeem(s.at[0].process, code), succeeded))
	}
	for missing := range families { // each lacks one more of them than the one before
		for i := range missing {
			families[missing] = must(t, "rotated", p.refresh(s.at[i%2].process, families[missing].Refresh), succeeded)
		}
	}
	s.mustHave(1)
	old, confirmed := s.primary, s.replicas[1]
	s.lose(func() { old.Kill(); confirmed.Kill() })
	s.release(s.replicas[:1])
	s.succeed(old)
	s.recovers()
	s.mustHaveForgotten(p, codes, spent, families)
	s.group.Rejoin(old)
	s.group.Rejoin(confirmed)
	s.group.Settle(len(s.replicas))
	s.recovers()
	s.mustHaveForgotten(p, codes, spent, nil)
}
