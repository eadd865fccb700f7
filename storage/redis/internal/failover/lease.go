package failover

import (
	"slices"
	"time"
)

// lease returns until when the sentinels cannot begin to promote anybody in place of the
// primary of a term, zero if that is not certain at all.
//
// A sentinel calls the primary down when a ping has not been answered for down-after, and
// the primary is replaced when a quorum of them does. So as long as all but a quorum less one
// still wait for it, nobody is promoted. A lease that lapsed comes back only when nobody can be in
// the middle of replacing the primary: see [Look.undisputed].
func (l Look) lease(term Term, continues bool) time.Time {
	var ends []time.Time
	quorum := 0
	for _, r := range l.Reports {
		quorum = max(quorum, r.Quorum)
		if r.Epoch > term.Epoch {
			return time.Time{}
		}
		if r.Primary == term.Primary && r.Epoch == term.Epoch && !r.Failing && !r.Down {
			ends = append(ends, l.Begun.Add(r.DownAfter-r.DownAfter/clockError-r.Silence))
		}
	}
	n := l.sentinels()
	needed := max(n-quorum+1, majority(n))
	if len(ends) < needed || !continues && !l.undisputed(term) {
		return time.Time{}
	}
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	return ends[needed-1]
}

// clockError is by which part of down-after the clocks of two machines may differ in that
// time.
const clockError = 50

// undisputed reports whether no sentinel is replacing the primary. Each says so itself. Of those
// that do not answer, a majority of all says either that it does not reach them, or that it has
// voted on no later term: whoever replaces a primary was elected by a majority before, and two
// majorities share a sentinel.
func (l Look) undisputed(term Term) bool {
	missing := l.sentinels() - len(l.Reports)
	isolated, notVoted := 0, 0
	for _, r := range l.Reports {
		if r.Failing && r.Epoch <= term.Epoch {
			return false
		}
		if r.Missing >= missing {
			isolated++
		}
		if r.VoteKnown && r.Voted <= term.Epoch {
			notVoted++
		}
	}
	return missing <= 0 || max(isolated, notVoted) >= majority(l.sentinels())
}
