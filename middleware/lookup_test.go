package middleware

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"gatehouse.example/internal/fair"
)

// TestARefusedTurnLeavesTheLookupToOthers: a turn that is refused, because its network has used up its share of the questions
// or because too many wait, does not end a lookup for which another network waits, and is not the last one of its network.
func TestARefusedTurnLeavesTheLookupToOthers(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	noisy, quiet, id := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.7"), digest{1}
	for name, busy := range map[string]error{"used up": nil, "too many wait": context.DeadlineExceeded} {
		i := newIntrospector(Introspection{PerHour: 800}, &trusted{issuer: &issuer{rules: &tokenRules{profile: GitHub}, now: func() time.Time { return now }, log: slog.New(slog.DiscardHandler)}}, 1, 0)
		i.budget = newBudget(i.Introspection, GitHub)
		for i.budget.take(digest{2}, noisy, now) == nil {
		}
		l := &lookup{done: make(chan struct{}), from: map[string]bool{fair.Networks(noisy)[0]: true}, turns: 3}
		l.waits, l.ends = context.WithCancel(t.Context())
		i.lookups[id] = l
		if i.begin(l, noisy, id, busy) || l.begun || len(l.from) != 0 || i.lookups[id] != l {
			t.Errorf("%s: the refused turn begins or ends the lookup", name)
		}
		if !i.begin(l, quiet, id, nil) || l.err != nil || l.waits.Err() == nil {
			t.Errorf("%s: the other network does not begin it: %v", name, l.err)
		}
		if i.begin(l, quiet, id, nil) {
			t.Errorf("%s: it begins twice", name)
		}
		last := &lookup{done: make(chan struct{}), from: map[string]bool{}, turns: 1, ends: func() {}}
		if i.begin(last, noisy, id, busy) || last.err == nil {
			t.Errorf("%s: the last turn does not end it", name)
		}
	}
}
