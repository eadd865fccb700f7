package failover

import (
	"slices"
	"time"
)

// moment is how far the history of a primary went at a time.
type moment struct {
	at     time.Time
	offset int64
}

// attended reports whether a majority of the sentinels says, and that somebody else is there
// without whom the primary acknowledges nothing.
func (w *Watch) hasCandidate(l Look, term Term) bool {
	if len(l.Reports) < majority(l.sentinels()) {
		return false
	}
	return slices.ContainsFunc(l.Others(term.Primary), func(addr string) bool { return !l.barred(addr) && !l.down(addr, 0) })
}

// note remembers how far the primary has come.
func (w *Watch) note(l Look, server Server) {
	w.past = append(w.past, moment{l.Begun, server.Offset})
	for len(w.past) > 1 && l.Begun.Sub(w.past[1].at) >= hangTime {
		w.past = w.past[1:]
	}
}

// earlierOffset is how far the primary had come a while ago, 0 if nobody had looked yet.
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

// confirmations returns how many replicas have to confirm a write: all that follow, so that
// whoever of them is promoted has it, and one that can be promoted at the least. Nobody has
// to when nobody who could be promoted has been there for a while.
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

// deserted reports whether nobody else could be promoted: all have been down for a while, or
// are never promoted, or there are none.
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

// staysAlone reports whether the primary was alone already and nobody was back meanwhile, who
// would have the mark of that.
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
