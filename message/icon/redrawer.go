package icon

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"

	"gatehouse.example/internal/fair"
)

// redrawer draws pictures, one at a time, and caches the results by their bytes, so that the same
// bytes at a thousand addresses are drawn once. Its queue bounds the waiting pictures, and so
// their bytes; when it is full, it refuses those of the network with most of them.
type redrawer struct {
	turns *fair.Queue

	mu         sync.Mutex
	young, old map[[sha256.Size]byte]result
	bytes      int // of the young half
}

// result is a redrawn picture, or the error of a refused one.
type result struct {
	png []byte
	err error
}

const (
	// drawnAtOnce and drawnLater bound the pictures that are being drawn, and that wait.
	drawnAtOnce = 1
	drawnLater  = 32
	// keptResults and keptBytes bound half of the cache.
	keptResults = 1024
	keptBytes   = 4 << 20
)

// process is the only redrawer of the process, because all pictures share its processors.
var process = newRedrawer()

func newRedrawer() *redrawer { return &redrawer{turns: fair.NewQueue(drawnAtOnce, drawnLater)} }

// draw is [Redraw] in the turn of the requester of ctx. Its error wraps [ErrRefused], or that of
// the queue if the turn did not come.
func (p *redrawer) draw(ctx context.Context, data []byte, declared ...string) ([]byte, error) {
	f, err := recognise(data, declared)
	if err != nil {
		return nil, err
	}
	name := sha256.Sum256(data)
	if r, ok := p.known(name); ok {
		return r.png, r.err
	}
	leave, err := p.turns.Enter(ctx, "", fair.Requester(ctx))
	if err != nil {
		return nil, fmt.Errorf("icon: not drawn: %w", err)
	}
	defer leave()
	r, ok := p.known(name)
	if !ok {
		r.png, r.err = f.redraw(data)
		p.keep(name, r)
	}
	return r.png, r.err
}

func (p *redrawer) known(name [sha256.Size]byte) (result, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.young[name]; ok {
		return r, true
	}
	r, ok := p.old[name]
	if ok {
		p.add(name, r)
	}
	return r, ok
}

func (p *redrawer) keep(name [sha256.Size]byte, r result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(name, r)
}

// add is called with the lock held. When the young half is full, the old one is dropped.
func (p *redrawer) add(name [sha256.Size]byte, r result) {
	if p.young == nil || len(p.young) >= keptResults || p.bytes+len(r.png) > keptBytes {
		p.old, p.young, p.bytes = p.young, map[[sha256.Size]byte]result{}, 0
	}
	p.bytes += len(r.png)
	p.young[name] = r
}
