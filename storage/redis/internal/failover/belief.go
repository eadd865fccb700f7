package failover

import (
	"fmt"
	"time"
)

// expected reports whether a primary has, for certain, everything that was acknowledged:
// nothing was acknowledged in another reign since the one that its contents are of.
func (w *Watch) expected(l Look, reign Reign, server Server) bool {
	mark := server.Mark
	switch {
	case w.known.Newer(mark):
		return false
	case mark == (Mark{}), mark.Epoch == reign.Epoch:
		return true
	case mark.Epoch > reign.Epoch || server.Before != mark.Lineage:
		return false // the sentinels were set up anew, or it did not follow whom it is named after
	}
	return reign.Epoch == mark.Epoch+1 || w.saw(l, mark)
}

// saw reports whether this process saw, a moment ago, the reign that a mark is of. Two
// failovers take longer, so there was no other reign since.
func (w *Watch) saw(l Look, mark Mark) bool {
	return mark == w.known && l.Begun.Sub(w.named) < 2*l.downAfter()
}

// judge decides on a server that has become primary. It is refused while another one may
// have more than it, and come back. Lost says that acknowledged writes are missing there, and
// nobody is left who has them.
func (w *Watch) judge(l Look, reign Reign, server Server) (lost bool, refused error) {
	if w.Off.Belief || w.expected(l, reign, server) {
		return false, nil
	}
	for _, addr := range l.Others(reign.Primary) {
		other, answered := l.Servers[addr]
		switch {
		case answered && other.Mark.Newer(server.Mark):
			return false, fmt.Errorf("%s was promoted, and %s has later writes", reign.Primary, addr)
		case !answered && !l.down(addr, least(patience)):
			return false, fmt.Errorf("%s was promoted, and %s, which does not answer, may have later writes: "+
				"it is waited for %s after a majority of the sentinels has found it down", reign.Primary, addr, time.Duration(patience))
		}
	}
	return w.known.Newer(server.Mark), nil
}

// mayReturn reports whether a server with later writes than the primary is there, and is a
// primary by its own account still. One that follows already has thrown them away, or is about
// to.
func (w *Watch) mayReturn(l Look, reign Reign, server Server) bool {
	for _, addr := range l.Others(reign.Primary) {
		if other, answered := l.Servers[addr]; answered && other.Primary && other.Mark.Newer(server.Mark) {
			return true
		}
	}
	return false
}
