//go:build e2e

package faults

import (
	"testing"

	"gatehouse.example/storage/redis/redistest"
)

// TestFleet runs one family through two processes, over a restart and a kill.
func TestFleet(t *testing.T) {
	f := newFleet(t, fleetConfig{Store: redistest.StartServer(t)})
	a, b := f.start(), f.start("--refresh-window", "1s")
	p := f.newParty(a)
	code := p.mustConsent(b)
	first := p.redeem(a, code)
	if first.outcome() != granted || first.Refresh == "" {
		t.Fatal(first)
	}
	if got := p.introspect(b, first.Access); !got.Active {
		t.Errorf("the other process knows nothing of the token: %s", got)
	}
	a.kill()
	if got := p.refresh(a, first.Refresh); got.outcome() != unsent && got.outcome() != unknown {
		t.Errorf("a killed process answers: %s", got)
	}
	if got := p.refresh(a, first.Refresh); got.outcome() != unsent {
		t.Errorf("a killed process answers: %s", got)
	}
	a.start(t)
	b.restart(t, "--access-token-ttl", "1m")
	second := p.refresh(a, first.Refresh)
	if second.outcome() != granted || second.Refresh == first.Refresh {
		t.Fatal(second)
	}
	if got := p.revoke(b, second.Refresh); got.outcome() != granted {
		t.Fatal(got)
	}
	if got := p.refresh(a, second.Refresh); !got.invalidGrant() {
		t.Errorf("the family was revoked, and then: %s", got)
	}
	if got := p.introspect(a, second.Access); got.outcome() != granted || got.Active {
		t.Errorf("the family was revoked, and then: %s", got)
	}
	if got := p.another(a).refresh(a, second.Refresh); !got.invalidGrant() {
		t.Errorf("another client refreshes: %s", got)
	}
	if codes := p.mustCodes(b, 20); len(codes) != 20 {
		t.Errorf("%d codes, want 20", len(codes))
	}
}
