package fair

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
)

// ErrBusy says that too many wait for a place already.
var ErrBusy = errors.New("fair: too many are waiting")

// Queue hands out a fixed number of places. A place that becomes free goes to the lane
// that holds the fewest, in it to the network that holds the fewest, and so on from wide
// networks to narrow ones; of those that hold as many, to the one whose last turn is
// longest ago, or who came first. Requests from one address are served in their order. It
// is safe for concurrent use.
type Queue struct {
	places, waiting int

	mu   sync.Mutex
	root group
}

// group is a lane, or a network inside of the one around it.
type group struct {
	within    *group
	key       string
	members   map[string]*group
	line      []*waiter // of the narrowest network
	waiting   int
	holding   int
	served    int64 // turns so far, on the clock of the group around it
	lastTurn  int64 // that clock: when its last turn began
	forgotten int64 // the most turns of a member that was forgotten
	came      int64 // how many members came so far
	since     int64 // that number of the group around it, when this one came
}

// waiter is a request that waits. Exactly one value is ever sent to turn: nil when it has a place.
type waiter struct {
	at   *group
	turn chan error
}

// NewQueue returns a Queue of so many places, at least one, in which at most waiting
// requests wait.
func NewQueue(places, waiting int) *Queue {
	return &Queue{places: max(places, 1), waiting: max(waiting, 0)}
}

// Enter returns when the request of addr has a place, and the function that gives it
// back. Lanes are separate: each gets its turn however many wait in another. The error
// is [ErrBusy] or the context's. When more than the bound would wait, a request of the
// lane and network that has most of those who wait is turned away: the newest one, which
// is the one that just came if no network has more than its own.
func (q *Queue) Enter(ctx context.Context, lane string, addr netip.Addr) (leave func(), err error) {
	w := q.arrive(lane, addr)
	select {
	case err = <-w.turn:
	case <-ctx.Done():
		if q.giveUp(w) {
			return nil, ctx.Err()
		}
		err = <-w.turn
	}
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { q.leave(w.at) }), nil
}

// Waiting returns how many requests wait for a place.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.root.waiting
}

func (q *Queue) arrive(lane string, addr netip.Addr) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.root.member(lane)
	for _, network := range slices.Backward(Networks(addr)) {
		at = at.member(network)
	}
	w := &waiter{at: at, turn: make(chan error, 1)}
	at.line = append(at.line, w)
	at.count(1, 0)
	q.serve()
	if q.root.waiting > q.waiting {
		q.turnAway(at)
	}
	return w
}

// serve gives free places to those whose turn it is.
func (q *Queue) serve() {
	for q.root.holding < q.places && q.root.waiting > 0 {
		at := &q.root
		for len(at.members) > 0 {
			at = at.next()
		}
		w := at.line[0]
		at.line = at.line[1:]
		at.count(-1, 1)
		at.turn()
		w.turn <- nil
	}
}

// turnAway makes room: the newest request of those that have most waiting. Of groups
// with as many it prefers the one that the newcomer is in.
func (q *Queue) turnAway(newcomer *group) {
	mine := map[*group]bool{}
	for g := newcomer; g != nil; g = g.within {
		mine[g] = true
	}
	at := &q.root
	for len(at.members) > 0 {
		at = at.fullest(mine)
	}
	q.remove(at.line[len(at.line)-1])
	at.tidy()
}

// remove takes a request out of its line.
func (q *Queue) remove(w *waiter) {
	i := slices.Index(w.at.line, w)
	w.at.line = slices.Delete(w.at.line, i, i+1)
	w.at.count(-1, 0)
	w.turn <- ErrBusy
}

// giveUp takes out a request that does not wait any longer. It reports false if the
// request has its answer already.
func (q *Queue) giveUp(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Contains(w.at.line, w) {
		return false
	}
	q.remove(w)
	w.at.tidy()
	return true
}

func (q *Queue) leave(at *group) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at.count(0, -1)
	at.tidy()
	q.serve()
}

// member returns a group inside of g. A new one stands where the turns are now: it has
// neither earned nor missed any. One that had its turn and comes back at once is a new one
// too, so it stands behind those that had as many turns as the last one that left.
func (g *group) member(key string) *group {
	if m := g.members[key]; m != nil {
		return m
	}
	if g.members == nil {
		g.members = map[string]*group{}
	}
	m := &group{within: g, key: key, served: max(g.lastTurn, g.forgotten), since: g.came}
	g.came++
	g.members[key] = m
	return m
}

// count adds to the numbers of a group and of all around it.
func (g *group) count(waiting, holding int) {
	for ; g != nil; g = g.within {
		g.waiting += waiting
		g.holding += holding
	}
}

// turn records that a group, and each around it, was served. Who did not ask for long has
// one turn before the others, and not all that were missed.
func (g *group) turn() {
	for ; g.within != nil; g = g.within {
		g.within.lastTurn = max(g.served, g.within.lastTurn)
		g.served = g.within.lastTurn + 1
	}
}

// tidy forgets groups that neither hold nor wait for anything.
func (g *group) tidy() {
	for ; g.within != nil && g.waiting == 0 && g.holding == 0; g = g.within {
		g.within.forgotten = max(g.within.forgotten, g.served)
		delete(g.within.members, g.key)
	}
}

// next is the member whose turn it is.
func (g *group) next() *group {
	var best *group
	for _, m := range g.members {
		if m.waiting > 0 && (best == nil || m.before(best)) {
			best = m
		}
	}
	return best
}

func (g *group) before(other *group) bool {
	if g.holding != other.holding {
		return g.holding < other.holding
	}
	if g.served != other.served {
		return g.served < other.served
	}
	return g.since < other.since
}

// fullest is the member with most requests waiting.
func (g *group) fullest(preferred map[*group]bool) *group {
	var best *group
	for _, m := range g.members {
		if best == nil || m.waiting > best.waiting || m.waiting == best.waiting && preferred[m] {
			best = m
		}
	}
	return best
}
