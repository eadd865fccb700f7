package fair

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gatehouse.example/internal/limited"
)

// ErrBusy reports that too many requests are waiting for a place.
var ErrBusy = errors.New("fair: too many are waiting")

// Queue hands out a fixed number of places. A free place goes to the lane that holds the fewest
// places, in it to the network that holds the fewest, and so on from wide networks to narrow
// ones; among equals, to the one whose last turn is longest ago, or that joined first. Requests
// from one address are served in their order. A Queue is safe for concurrent use.
//
// A slash divides a lane into two parts, as "unknown/noisy": a lane within another one. Those within
// one lane have turns of their own, but share the room to wait: who is turned away is decided by
// network there, and not by how many wait in each.
type Queue struct {
	places, waiting int
	timers          limited.Timers

	mu   sync.Mutex
	root group
}

// group is a lane, or a network inside of a wider one.
type group struct {
	within   *group
	key      string
	lanes    bool // its members are lanes within a lane
	members  map[string]*group
	line     []*waiter // of the narrowest network
	waiting  int
	holding  int
	served   int64 // turns of this group, counted on the clock of the group around it
	lastTurn int64 // the clock of this group for its members: when the last turn began
	removed  int64 // the most turns of a member that was removed
	joined   int64 // how many members joined so far
	joinedAt int64 // the value of joined in the group around it when this one joined
}

// waiter is a waiting request. Exactly one value is sent to turn: nil when it gets a place.
type waiter struct {
	at   *group
	turn chan error
	left atomic.Bool // the place was given back
}

// NewQueue returns a Queue with the given number of places, at least one, for which at most
// waiting requests wait.
func NewQueue(places, waiting int) *Queue {
	return &Queue{places: max(places, 1), waiting: max(waiting, 0)}
}

// Enter returns when the request of addr has a place, and the function that gives it
// back. Lanes are separate: each gets its turn however many wait in another. The error
// is [ErrBusy] or the context's. When more than the bound would wait, a request of the
// lane and network that has most of those who wait is turned away: the newest one, which
// is the one that just came if no network has more than its own.
func (q *Queue) Enter(ctx context.Context, lane string, addr netip.Addr) (leave func(), err error) {
	w := q.enqueue(lane, addr)
	select {
	case err = <-w.turn: // for most requests a place is free
		return q.entered(w, err)
	default:
	}
	err, why := limited.Wait(ctx, &q.timers, w.turn)
	if why != nil {
		if q.cancel(w) {
			return nil, why
		}
		err = <-w.turn
	}
	return q.entered(w, err)
}

// entered returns the function that gives the place of w back, once.
func (q *Queue) entered(w *waiter, err error) (leave func(), _ error) {
	if err != nil {
		return nil, err
	}
	return func() {
		if !w.left.Swap(true) {
			q.leave(w.at)
		}
	}, nil
}

// Waiting returns the number of requests that wait for a place.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.root.waiting
}

func (q *Queue) enqueue(lane string, addr netip.Addr) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	outer, inner, parts := strings.Cut(lane, "/")
	at := q.root.member(outer)
	if parts {
		at.lanes = true
		at = at.member(inner)
	}
	for _, network := range slices.Backward(Networks(addr)) {
		at = at.member(network)
	}
	w := &waiter{at: at, turn: make(chan error, 1)}
	at.line = append(at.line, w)
	at.count(1, 0)
	q.serve()
	if q.root.waiting > q.waiting {
		q.refuseOne(at)
	}
	return w
}

// serve gives free places to the requests whose turn it is.
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

// refuseOne removes the newest waiting request of the group with most of them. Among groups with
// equal numbers it prefers that of the newcomer.
func (q *Queue) refuseOne(newcomer *group) {
	preferred := map[*group]bool{}
	for g := newcomer; g != nil; g = g.within {
		preferred[g] = true
	}
	at := &q.root
	for len(at.members) > 0 {
		at = at.fullest(preferred)
	}
	q.remove(at.line[len(at.line)-1])
	at.removeIdle()
}

// remove removes a request from its line, with [ErrBusy].
func (q *Queue) remove(w *waiter) {
	i := slices.Index(w.at.line, w)
	w.at.line = slices.Delete(w.at.line, i, i+1)
	w.at.count(-1, 0)
	w.turn <- ErrBusy
}

// cancel removes a request whose context ended. It returns false if the request has left its
// line already.
func (q *Queue) cancel(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Contains(w.at.line, w) {
		return false
	}
	q.remove(w)
	w.at.removeIdle()
	return true
}

func (q *Queue) leave(at *group) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at.count(0, -1)
	at.removeIdle()
	q.serve()
}

// member returns a group inside of g, and adds it if there is none. A new member starts at the
// current turn: it has neither gained nor missed any. A network that had its turn, left and comes
// back at once is also new, so a new member has at least as many turns as any that left.
func (g *group) member(key string) *group {
	if m := g.members[key]; m != nil {
		return m
	}
	if g.members == nil {
		g.members = map[string]*group{}
	}
	m := &group{within: g, key: key, served: max(g.lastTurn, g.removed), joinedAt: g.joined}
	g.joined++
	g.members[key] = m
	return m
}

// count adds to the numbers of a group and of all groups around it.
func (g *group) count(waiting, holding int) {
	for ; g != nil; g = g.within {
		g.waiting += waiting
		g.holding += holding
	}
}

// turn records that a group, and each around it, was served. A group without requests for a long
// time gets one turn before the others, not all that it missed.
func (g *group) turn() {
	for ; g.within != nil; g = g.within {
		g.within.lastTurn = max(g.served, g.within.lastTurn)
		g.served = g.within.lastTurn + 1
	}
}

// removeIdle removes a group without waiting requests and places, and those around it.
func (g *group) removeIdle() {
	for ; g.within != nil && g.waiting == 0 && g.holding == 0; g = g.within {
		g.within.removed = max(g.within.removed, g.served)
		delete(g.within.members, g.key)
	}
}

// next returns the member whose turn it is.
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
	return g.joinedAt < other.joinedAt
}

// fullest returns the member with most waiting requests; among equals, a preferred one. Of lanes
// within a lane, it is the one with the network that has most; among equals, the longest.
func (g *group) fullest(preferred map[*group]bool) *group {
	var best *group
	var most int64
	for _, m := range g.members {
		n := int64(m.waiting)
		if g.lanes {
			n += int64(m.longest()) * maxCount
		}
		if best == nil || n > most || n == most && preferred[m] {
			best, most = m, n
		}
	}
	return best
}

// maxCount is more than the requests that any queue has.
const maxCount = 1 << 31

// longest returns how many requests of one network wait in a lane.
func (g *group) longest() (n int) {
	for _, m := range g.members {
		n = max(n, m.waiting)
	}
	return n
}
