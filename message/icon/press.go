package icon

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"

	"gatehouse.example/internal/fair"
)

// press draws pictures, one at a time, and keeps what became of them by what they are, so
// that the same bytes at a thousand addresses cost one picture. Who waits for it is turned
// away by the network that wants most, and so are the bytes of who waits bounded.
type press struct {
	turns *fair.Queue

	mu         sync.Mutex
	young, old map[[sha256.Size]byte]result
	bytes      int // of the young half
}

// result is what became of a picture. One that is refused stays refused.
type result struct {
	png []byte
	err error
}

const (
	// drawnAtOnce and drawnLater bound the pictures that are drawn and that wait to be.
	drawnAtOnce = 1
	drawnLater  = 32
	// keptResults and keptBytes bound half of what is kept.
	keptResults = 1024
	keptBytes   = 4 << 20
)

// process is the press of the process: its processors are what is to be shared.
var process = newPress()

func newPress() *press { return &press{turns: fair.NewQueue(drawnAtOnce, drawnLater)} }

// draw is Redraw when it is the requester's turn. Errors are [ErrRefused], or say that the
// turn did not come.
func (p *press) draw(ctx context.Context, data []byte, declared ...string) ([]byte, error) {
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

func (p *press) known(name [sha256.Size]byte) (result, bool) {
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

func (p *press) keep(name [sha256.Size]byte, r result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(name, r)
}

// add is called with the lock held. When the young half is full, the old one is dropped.
func (p *press) add(name [sha256.Size]byte, r result) {
	if p.young == nil || len(p.young) >= keptResults || p.bytes+len(r.png) > keptBytes {
		p.old, p.young, p.bytes = p.young, map[[sha256.Size]byte]result{}, 0
	}
	p.bytes += len(r.png)
	p.young[name] = r
}
