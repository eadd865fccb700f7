package trail

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"gatehouse.example/audit"
)

// perMinute bounds the lines of the kinds that anybody can cause, for each kind and code. The
// others need a session, a token or the hand of an operator.
var perMinute = map[audit.Kind]int{
	audit.Refused:          20,
	audit.SignInRefused:    60,
	audit.ClientRegistered: 600,
	audit.ClientChanged:    600,
	audit.ClientRemoved:    600,
	audit.OperationRefused: 60,
}

// window is the time for which events are counted together.
const window = time.Minute

// heldKind is what is counted together. Code is a constant of the program.
type heldKind struct {
	kind audit.Kind
	code audit.Code
}

type heldCount struct {
	since         time.Time
	written, held int
}

// maxHeld bounds the kinds that are distinguished.
const maxHeld = 256

// holder counts events of the kinds that anybody can cause, and holds back those that are too
// many. The zero value is ready to use.
type holder struct{ counts map[heldKind]*heldCount }

// admit reports whether an event is to be written.
func (h *holder) admit(e audit.Event, now time.Time) bool {
	limit, bounded := perMinute[e.Kind]
	if !bounded || e.Kind == audit.OperationRefused && e.Token != "" {
		return true
	}
	k := heldKind{e.Kind, e.Code}
	if h.counts == nil {
		h.counts = map[heldKind]*heldCount{}
	}
	n := h.counts[k]
	if n == nil && len(h.counts) >= maxHeld {
		k.code = ""
		n = h.counts[k]
	}
	if n == nil || n.held == 0 && over(n, now) {
		n = &heldCount{since: now}
		h.counts[k] = n
	}
	if n.written < limit {
		n.written++
		return true
	}
	n.held++
	return false
}

func over(n *heldCount, now time.Time) bool {
	age := now.Sub(n.since)
	return age >= window || age < 0
}

// due returns the counts whose minute is over.
func (h *holder) due(now time.Time) []audit.Event { return h.take(now, over) }

// all returns all counts.
func (h *holder) all(now time.Time) []audit.Event {
	return h.take(now, func(*heldCount, time.Time) bool { return true })
}

func (h *holder) take(now time.Time, which func(*heldCount, time.Time) bool) (out []audit.Event) {
	order := func(a, b heldKind) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.code, b.code)) }
	for _, k := range slices.SortedFunc(maps.Keys(h.counts), order) {
		n := h.counts[k]
		if !which(n, now) {
			continue
		}
		delete(h.counts, k)
		if n.held > 0 {
			out = append(out, audit.Event{Time: now, Kind: audit.HeldBack, By: audit.ByServer, Of: k.kind, Code: k.code, Count: n.held})
		}
	}
	return out
}
