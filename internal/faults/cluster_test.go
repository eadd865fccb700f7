//go:build e2e

package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// mustServe expects the right answer about the family from both processes, whether it is revoked
// or not.
func (h *stand) mustServe(revoked bool) {
	h.t.Helper()
	for _, m := range h.at {
		if a := h.served(m, func(p *process) answer { return h.introspect(p, h.family.tokens.Access) }); a.Active == revoked {
			h.t.Errorf("a family is revoked %t, and then: %s", revoked, a)
		}
		if revoked {
			if a := h.refresh(m.process, h.family, h.family.tokens.Refresh); !a.invalidGrant() && !a.uncertain() {
				h.t.Errorf("a family is revoked, and then: %s", a)
			}
			continue
		}
		h.family.tokens = h.served(m, func(p *process) answer { return h.refresh(p, h.family, h.family.tokens.Refresh) })
	}
}

// TestSlotsMoveUnderLoad: three primaries without replicas, and slots that move from one to the
// other, those of records and those of lists, some of which every request needs. No server is
// down, so no answer is 503.
func TestSlotsMoveUnderLoad(t *testing.T) {
	r := newRing(t, 0)
	for range amount(8, 330) {
		r.moves()
	}
	r.end()
	if n := r.answers[unavailable]; n > 0 {
		t.Errorf("nothing is down, and %d answers are 503", n)
	}
	r.finish("ASK", "MOVED")
}

// TestClusterFailoverUnderLoad: slots move, and one primary after the other is killed under load.
// Until its replica is promoted, requests that need its part of the keys are 503, and others go
// on. Ten seconds later everything works. Each primary has one replica, so the one that confirmed
// a write is the one that takes over: the journal holds as with one server. In most rounds that
// replica lacks the last writes. It may lack only what was not acknowledged: the outcome of a
// race for a code without an answer, and pages in progress.
func TestClusterFailoverUnderLoad(t *testing.T) {
	r := newRing(t, 1)
	for range amount(2, 20) {
		r.moves()
		r.moves()
		r.killPrimary()
	}
	r.finish("ASK")
	if t.Logf("%d looks at a part of the keys that was down", r.down); r.down == 0 {
		t.Error("nobody noticed that a part of the keys was down")
	}
}

// TestOneCodeInAMovingSlot: many redeem one code at two processes while the slot of its grant is
// half moved: before the grant has moved, afterwards, and while it does. One of them gets tokens.
func TestOneCodeInAMovingSlot(t *testing.T) {
	for _, replicas := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d replicas", replicas), func(t *testing.T) {
			cluster := redistest.StartCluster(t, 3, replicas, redistest.Config{})
			f := newFleet(t, fleetConfig{Store: cluster.URL()})
			d := f.pair([2]*process{f.start("--code-ttl", "10m"), f.start("--code-ttl", "10m")})
			for i, code := range d.party.mustCodes(d.at[0], amount(12, 150)) {
				d.mustRedeemOnce(t, code, d.raceInAMove(t, cluster, code, i%3))
			}
		})
	}
}

// raceInAMove redeems a code while its slot is half moved: before its grant moves (0), afterwards
// (1), or from before to afterwards (2).
func (d *pair) raceInAMove(t *testing.T, cluster *redistest.Cluster, code string, when int) (answers []answer) {
	t.Helper()
	for _, at := range d.at {
		// A process closes a connection that was never used when it is five seconds old, possibly
		// at the moment of its first use.
		at.client.CloseIdleConnections()
	}
	slot := cluster.Slot(grantKey(t, code))
	from := cluster.Owner(slot)
	to := cluster.Nodes[(slices.Index(cluster.Nodes, from)+1)%3]
	var race sync.WaitGroup
	redeem := func() {
		answers = d.race(workers, func(_ int, at *process) answer { return d.party.redeem(at, code) })
	}
	calls := 0
	cluster.MigrateSlot(slot, from, to, func() {
		switch {
		case calls == when && when < 2:
			redeem()
		case when == 2 && calls == 0:
			race.Go(redeem)
			<-time.After(rand.N(8 * time.Millisecond))
		case when == 2 && calls == 1:
			race.Wait()
		}
		calls++
	})
	return answers
}

// mustRedeemOnce expects that one of many redemptions of a code got tokens, and that a replay of
// the code ends them.
func (d *pair) mustRedeemOnce(t *testing.T, code string, answers []answer) {
	t.Helper()
	mustAll(t, answers, "tokens or invalid_grant", tokensOrInvalidGrant)
	winners := only(answers, granted)
	if len(winners) != 1 || len(answers) != workers {
		t.Fatalf("%d of %d redemptions of one code succeeded: %v", len(winners), len(answers), winners)
	}
	for _, at := range d.at {
		must(t, "refused", d.party.redeem(at, code), invalidGrant)
	}
	d.mustBeDead(t, winners)
}
