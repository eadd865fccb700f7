package failover

import (
	"cmp"
	"fmt"
	"slices"
)

// expected reports whether a primary has, for certain, everything that was acknowledged. Either
// it carries the mark of its own term, which a process writes only after making sure, or it is
// the primary of the next term after one that this process has watched, and had to confirm every
// write of that.
func (w *Watch) expected(l Look, term Term, server Server) bool {
	mark := server.Mark
	if mark.Lacks(w.trusted.Mark) || mark == (Mark{}) {
		return false
	}
	return mark.Epoch == term.Epoch || term.Epoch == mark.Epoch+1 && w.succeeds(l, term, server)
}

// succeeds reports whether a server followed the primary that this process has watched, to its
// end or nearly so, and had to confirm every write.
func (w *Watch) succeeds(l Look, term Term, server Server) bool {
	unwatched := l.Begun.Sub(w.trusted.asOf)
	return server.Mark == w.trusted.Mark && server.Before == server.Mark.Lineage && slices.Contains(w.trusted.followed, term.Primary) &&
		unwatched < sureTime+l.downAfter() // going alone and being replaced takes a primary longer
}

// judge decides on a server that has become primary. Unless it is as expected, it is refused
// while another server may have more, and may come back. Lost reports that acknowledged writes
// are missing on it, and that no server is left that has them.
func (w *Watch) judge(l Look, term Term, server Server) (lost bool, refused error) {
	if w.Off.Trust || w.expected(l, term, server) {
		return false, nil
	}
	successor, patience := w.succeeds(l, term, server), cmp.Or(w.Patience, defaultPatience)
	for _, addr := range l.Others(term.Primary) {
		_, answered := l.Servers[addr]
		switch {
		case answered && l.exceeds(addr, term.Primary):
			return false, fmt.Errorf("%s was promoted, and %s has later writes", term.Primary, addr)
		case answered, l.down(addr, least(patience)):
		case successor && addr == w.trusted.primary: // the primary of the term before, with none in between
		default:
			return false, fmt.Errorf("%s was promoted, and %s, which does not answer, may have later writes: "+
				"it is waited for %s after a majority of the sentinels has found it down", term.Primary, addr, patience)
		}
	}
	return server.Mark.Lacks(w.trusted.Mark), nil
}

// exceeds reports whether a server may have acknowledged writes that another one lacks. Both have
// answered.
func (l Look) exceeds(addr, other string) bool {
	a, b := l.Servers[addr], l.Servers[other]
	if b.Mark.Lacks(a.Mark) || a.Mark.Lacks(b.Mark) {
		return b.Mark.Lacks(a.Mark)
	}
	switch a.Lineage { // a restart gives the same term another history, which other servers may have followed
	case b.Lineage:
		return a.Offset > b.Offset
	case b.Before:
		return a.Offset > b.Branched
	}
	return a.reach(addr) > b.reach(other)
}

// donor returns the address of a server that has everything a primary has, and more; "" if there
// is none. A server that should follow another one keeps its own contents until it is filled,
// which is when its link comes up.
func (w *Watch) donor(l Look, term Term, server Server) (addr string) {
	for _, source := range l.Others(term.Primary) {
		other, answered := l.Servers[source]
		keeps := other.Primary || !other.Linked && !w.Off.Release
		if answered && keeps && l.exceeds(source, term.Primary) && !other.Mark.Lacks(server.Mark) &&
			(addr == "" || l.exceeds(source, addr)) {
			addr = source
		}
	}
	return addr
}

// refilled reports whether a primary has everything that the server has from which this process
// had it filled.
func (w *Watch) refilled(l Look, term Term, server Server) bool {
	from, answered := l.Servers[w.refill.from]
	return answered && w.refill.Term == term && server.Follows == w.refill.from && server.Linked &&
		server.Mark == from.Mark && server.Offset >= from.Offset
}

// Returned returns the address and the mark of a server that should follow the primary: it was a
// primary once, still is one by its own report, and has nothing that the primary lacks. The
// address is "" if there is none, or if a sentinel may be about to promote it. The look is the
// last one that Update was given, with the answers of the servers in [Step.Apart]. The sentinels
// have such a server follow too, within twenty seconds.
func (w *Watch) Returned(l Look) (addr string, mark Mark) {
	term := w.view.Term
	if !w.view.Holds(w.view.Lineage, l.Begun) || !l.undisputed(term) {
		return "", Mark{}
	}
	for _, addr := range l.apart(term, l.Servers[term.Primary]) {
		if other, answered := l.Servers[addr]; answered && other.Primary && !l.exceeds(addr, term.Primary) {
			return addr, other.Mark
		}
	}
	return "", Mark{}
}
