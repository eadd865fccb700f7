package safefetch

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"

	"gatehouse.example/internal/fair"
)

// queueFactor is the number of fetches that may wait for each one that may run.
const queueFactor = 4

// gate bounds how many fetches run and how many wait: in all, for one requester's network,
// for one host and for one address. Each bound has a queue in which requesters take turns, so
// that a requester does not wait for the places that others hold, even if their hosts never
// answer.
type gate struct {
	all        *fair.Queue
	concurrent int
	perHost    int

	mu    sync.Mutex
	lines map[bound]*line
}

// bound is one of the limits besides the limit on all fetches.
type bound struct {
	name   string
	places int
}

// line is the queue of a bound, which exists while fetches use it.
type line struct {
	queue   *fair.Queue
	present int
}

func newGate(concurrent, perHost int) *gate {
	return &gate{
		all: fair.NewQueue(concurrent, concurrent*queueFactor), concurrent: concurrent, perHost: perHost, lines: map[bound]*line{},
	}
}

// enter waits until the fetch for the requester of ctx may run. It takes the places of the
// requester's networks first and the place among all fetches last, so that a fetch that waits
// for a place of its own network holds none that others need.
func (g *gate) enter(ctx context.Context, lane, host string) (leave func(), err error) {
	var places held
	for _, b := range append(g.networks(fair.Requester(ctx)), bound{"to " + host, g.perHost}) {
		out, err := g.queue(ctx, b)
		if err != nil {
			places.leave()
			return nil, err
		}
		places = append(places, out)
	}
	out, err := g.all.Enter(ctx, lane, fair.Requester(ctx))
	if err != nil {
		places.leave()
		return nil, busy(err, "all")
	}
	return append(places, out).leave, nil
}

// networks returns the bounds of a requester: a quarter of all places for the narrowest
// network, half of them for each wider one. Fetches without a requester have none.
func (g *gate) networks(from netip.Addr) (bounds []bound) {
	if !from.IsValid() {
		return nil
	}
	for i, network := range fair.Networks(from) {
		places := g.concurrent / 2
		if i == 0 {
			places = g.concurrent / 4
		}
		bounds = append(bounds, bound{"from " + network, max(places, 1)})
	}
	return bounds
}

// enterAddress waits until one more fetch may connect to an address. The bound per host is not
// enough, because a wildcard record gives one server any number of names. Half of all places
// are for one address, because many honest hosts may share it. Loopback is for development and
// has no bound.
func (g *gate) enterAddress(ctx context.Context, to netip.Addr) (leave func(), err error) {
	if to.Unmap().IsLoopback() {
		return func() {}, nil
	}
	return g.queue(ctx, bound{"at " + fair.Networks(to)[0], max(g.concurrent/2, 1)})
}

// queue waits for a place of a bound.
func (g *gate) queue(ctx context.Context, b bound) (leave func(), err error) {
	out, err := g.openLine(b).queue.Enter(ctx, "", fair.Requester(ctx))
	if err != nil {
		g.closeLine(b)
		return nil, busy(err, b.name)
	}
	return func() {
		out()
		g.closeLine(b)
	}, nil
}

func (g *gate) openLine(b bound) *line {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[b]
	if l == nil {
		l = &line{queue: fair.NewQueue(b.places, b.places*queueFactor)}
		g.lines[b] = l
	}
	l.present++
	return l
}

func (g *gate) closeLine(b bound) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[b]
	if l.present--; l.present == 0 {
		delete(g.lines, b)
	}
}

// held are the functions that give back the places of a fetch, in the order of taking.
type held []func()

func (p held) leave() {
	for _, out := range slices.Backward(p) {
		out()
	}
}

func busy(err error, name string) error {
	if errors.Is(err, fair.ErrBusy) {
		return fail(ErrBusy, "too many wait: %s", name)
	}
	return fail(ErrBusy, "waited too long: %s", name)
}
