package failover

import (
	"slices"
	"time"
)

// lease returns the time until which the sentinels cannot begin to replace the primary of a term,
// zero if that is not certain. The argument continues means that the present lease has not ended.
//
// A sentinel considers the primary down when a ping has not been answered for down-after, and a
// quorum of such sentinels begins to replace it. So while all but a quorum less one still wait
// for an answer, no server is promoted. A lapsed lease comes back only when no sentinel can be in
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

// clockError is the fraction of down-after, as its divisor, by which the clocks of two machines
// may differ in that time.
const clockError = 50

// undisputed reports whether it is certain that no sentinel is replacing the primary. A sentinel
// that answers reports it. For those that do not answer, a majority of all has to report either
// that it does not reach them, or that it has voted in no later term: a sentinel that replaces a
// primary was elected by a majority, and two majorities have a sentinel in common.
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
