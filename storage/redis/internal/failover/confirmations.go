package failover

import (
	"slices"
	"time"
)

// moment is the length of a primary's history at one time.
type moment struct {
	at     time.Time
	offset int64
}

// hasCandidate reports whether a majority of the sentinels has answered and another server is up
// that could be promoted. Without that server the primary acknowledges nothing.
func (w *Watch) hasCandidate(l Look, term Term) bool {
	if len(l.Reports) < majority(l.sentinels()) {
		return false
	}
	return slices.ContainsFunc(l.Others(term.Primary), func(addr string) bool { return !l.barred(addr) && !l.down(addr, 0) })
}

// note records the length of the primary's history.
func (w *Watch) note(l Look, server Server) {
	w.past = append(w.past, moment{l.Begun, server.Offset})
	for len(w.past) > 1 && l.Begun.Sub(w.past[1].at) >= hangTime {
		w.past = w.past[1:]
	}
}

// earlierOffset returns the length of the primary's history hangTime ago, 0 if no look is that
// old.
func (w *Watch) earlierOffset() int64 {
	last := w.past[len(w.past)-1].at
	if last.Sub(w.past[0].at) < hangTime {
		return 0
	}
	return w.past[0].offset
}

// following returns the replicas that follow a primary.
func (w *Watch) following(server Server) (addrs []string) {
	far := w.earlierOffset()
	for _, r := range server.Replicas {
		if r.follows(far) {
			addrs = append(addrs, r.Addr)
		}
	}
	return addrs
}

// confirmations returns how many replicas have to confirm a write: all that follow, so that each
// of them has it when it is promoted, and at least one that can be promoted. It is 0 when no
// server that could be promoted has been up for sureTime.
func (w *Watch) confirmations(l Look, term Term, server Server) int {
	far := w.earlierOffset()
	candidates := slices.ContainsFunc(server.Replicas, func(r Replica) bool { return r.follows(far) && !l.barred(r.Addr) })
	switch {
	case candidates && w.Off.ConfirmAll:
		return 1
	case candidates:
		return len(w.view.Following)
	case w.noCandidate(l, term):
		return 0
	}
	return len(w.view.Following) + 1
}

// noCandidate reports whether no other server could be promoted: each has been down for sureTime
// or is never promoted, or there is none.
func (w *Watch) noCandidate(l Look, term Term) bool {
	if len(l.Reports) < majority(l.sentinels()) {
		return false
	}
	for _, addr := range l.Others(term.Primary) {
		if !l.barred(addr) && !l.down(addr, least(sureTime)) {
			return false
		}
	}
	return true
}

// staysAlone reports whether the primary was alone at the look before, and no server that would
// have the mark of that has come back since.
func (w *Watch) staysAlone(l Look, term Term) bool {
	if w.alone.lineage != w.view.Lineage {
		return false
	}
	since := l.Begun.Sub(w.alone.looked)
	for _, addr := range l.Others(term.Primary) {
		if !l.barred(addr) && !l.down(addr, least(since)) {
			return false
		}
	}
	return true
}
