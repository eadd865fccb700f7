package safefetch

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"

	"gatehouse.example/internal/fair"
)

// queueFactor is how many fetches may wait for each one that may run.
const queueFactor = 4

// gate bounds how many fetches run and how many wait: in all, for one requester's network,
// for one host and for one address. Each bound is a queue of its own in which requesters
// take turns, so nobody waits for what others fill up, be it with hosts that never answer.
type gate struct {
	all        *fair.Queue
	concurrent int
	perHost    int

	mu    sync.Mutex
	lines map[bound]*line
}

// bound is one of the limits beside the one for all.
type bound struct {
	name   string
	places int
}

// line is the queue of a bound while somebody needs it.
type line struct {
	queue   *fair.Queue
	present int
}

func newGate(concurrent, perHost int) *gate {
	return &gate{
		all: fair.NewQueue(concurrent, concurrent*queueFactor), concurrent: concurrent, perHost: perHost, lines: map[bound]*line{},
	}
}

// enter returns when the fetch for a requester may run. The places of the requester's own
// networks come first and the one that everybody needs comes last, so that those who wait
// for something of their own hold nothing of others.
func (g *gate) enter(ctx context.Context, lane, host string) (leave func(), err error) {
	var places pile
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

// networks are the bounds of a requester: a quarter of all places for the narrowest network,
// half of them for those around it. Our own work has none.
func (g *gate) networks(from netip.Addr) (bounds []bound) {
	if !from.IsValid() {
		return nil
	}
	for i, network := range fair.Networks(from) {
		share := g.concurrent / 2
		if i == 0 {
			share = g.concurrent / 4
		}
		bounds = append(bounds, bound{"from " + network, max(share, 1)})
	}
	return bounds
}

// reach returns when one more fetch may connect to an address: names cost nothing, so a
// bound per host is none for whoever has a wildcard. Half of all places are for one address,
// because many honest hosts may share it. Loopback is for development and has no bound.
func (g *gate) reach(ctx context.Context, to netip.Addr) (leave func(), err error) {
	if to.Unmap().IsLoopback() {
		return func() {}, nil
	}
	return g.queue(ctx, bound{"at " + fair.Networks(to)[0], max(g.concurrent/2, 1)})
}

// queue waits for a place of a bound.
func (g *gate) queue(ctx context.Context, b bound) (leave func(), err error) {
	out, err := g.arrive(b).queue.Enter(ctx, "", fair.Requester(ctx))
	if err != nil {
		g.depart(b)
		return nil, busy(err, b.name)
	}
	return func() {
		out()
		g.depart(b)
	}, nil
}

func (g *gate) arrive(b bound) *line {
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

func (g *gate) depart(b bound) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[b]
	if l.present--; l.present == 0 {
		delete(g.lines, b)
	}
}

// pile is what was taken, in its order.
type pile []func()

func (p pile) leave() {
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
