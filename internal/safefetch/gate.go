package safefetch

import (
	"context"
	"sync"
)

// queueFactor is how many fetches may wait for each one that may run.
const queueFactor = 4

// gate bounds how many fetches run, in all and per host, and how many wait.
type gate struct {
	running chan struct{} // holds one element per fetch that runs
	perHost int
	mu      sync.Mutex
	present int // running or waiting
	lines   map[string]*line
}

// line is what one host has at the gate.
type line struct {
	running chan struct{}
	present int
}

func newGate(concurrent, perHost int) *gate {
	return &gate{running: make(chan struct{}, concurrent), perHost: perHost, lines: map[string]*line{}}
}

// enter returns when the fetch may run. Its host's place is taken first, so that those
// who wait for a slow host take no place from others.
func (g *gate) enter(ctx context.Context, host string) (leave func(), err error) {
	l := g.arrive(host)
	if l == nil {
		return nil, fail(ErrBusy, "too many wait, for %s or in all", host)
	}
	if !take(ctx, l.running) {
		g.depart(host)
		return nil, fail(ErrBusy, "waited too long for others at %s", host)
	}
	if !take(ctx, g.running) {
		<-l.running
		g.depart(host)
		return nil, fail(ErrBusy, "waited too long for others")
	}
	return func() {
		<-g.running
		<-l.running
		g.depart(host)
	}, nil
}

// arrive finds a place to wait, or returns nil.
func (g *gate) arrive(host string) *line {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[host]
	if l == nil {
		l = &line{running: make(chan struct{}, g.perHost)}
	}
	if g.present >= cap(g.running)*(1+queueFactor) || l.present >= g.perHost*(1+queueFactor) {
		return nil
	}
	g.present++
	l.present++
	g.lines[host] = l
	return l
}

func (g *gate) depart(host string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.present--
	l := g.lines[host]
	if l.present--; l.present == 0 {
		delete(g.lines, host)
	}
}

func take(ctx context.Context, places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
