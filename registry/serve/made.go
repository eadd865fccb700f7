package serve

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"

	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
)

// Making an answer costs memory and time, and anybody may ask for one. So a few are made at
// once, in turns between networks; those who ask for the same one at the same time share it;
// and the last ones are kept for those who ask next.

const (
	maxKept     = 32 << 20 // bytes of answers that are kept
	maxKeptOne  = 4 << 20  // of one of them
	maxMakeWait = 1024     // requests that wait for their turn
)

// made is an answer that was made.
type made struct {
	body   []byte
	steady bool // it is of the state of the catalogue that its tag names

	once   sync.Once
	packed []byte
}

// gzip returns the body compressed, or nil.
func (m *made) gzip() []byte {
	m.once.Do(func() { m.packed = compressed(m.body) })
	return m.packed
}

// makers makes answers.
type makers struct {
	places *fair.Queue

	mu      sync.Mutex
	flights map[string]*flight
	kept    map[string]*list.Element // of keptAnswer
	order   list.List                // the one that was asked for last is in front
	bytes   int
}

// flight is an answer that is being made.
type flight struct {
	done chan struct{}
	made *made
	err  error
}

type keptAnswer struct {
	tag  string
	made *made
}

func newMakers() *makers {
	return &makers{
		places:  fair.NewQueue(max(4, 2*runtime.GOMAXPROCS(0)), maxMakeWait),
		flights: map[string]*flight{}, kept: map[string]*list.Element{},
	}
}

// answer returns the answer of a tag: one that is kept, or that somebody makes right now, or
// a new one.
func (m *makers) answer(c *call, tag string, read func(context.Context) (*made, error)) (*made, error) {
	for {
		f, mine := m.join(tag)
		if mine {
			return m.fly(c, tag, f, read)
		}
		select {
		case <-f.done:
		case <-c.ctx.Done():
			return nil, c.ctx.Err()
		}
		if f.err == nil || !gone(f.err) || c.ctx.Err() != nil {
			return f.made, f.err
		}
	}
}

// gone reports the error of a request whose reader did not wait: it says nothing about what
// others ask for.
func gone(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fair.ErrBusy) || errors.Is(err, storage.ErrUnavailable)
}

// join returns the flight of a tag, which is mine if I am the one to make the answer.
func (m *makers) join(tag string) (f *flight, mine bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.kept[tag]; e != nil {
		m.order.MoveToFront(e)
		f = &flight{done: make(chan struct{}), made: e.Value.(*keptAnswer).made}
		close(f.done)
		return f, false
	}
	if f = m.flights[tag]; f != nil {
		return f, false
	}
	f = &flight{done: make(chan struct{})}
	m.flights[tag] = f
	return f, true
}

var errMaking = errors.New("registry: making an answer was given up")

// fly makes an answer and tells those who wait for it.
func (m *makers) fly(c *call, tag string, f *flight, read func(context.Context) (*made, error)) (*made, error) {
	f.err = errMaking // unless it comes to an end
	defer m.land(tag, f)
	f.made, f.err = m.make(c, read)
	return f.made, f.err
}

// make makes an answer when it is its turn.
func (m *makers) make(c *call, read func(context.Context) (*made, error)) (*made, error) {
	leave, err := m.turn(c)
	if err != nil {
		return nil, err
	}
	defer leave()
	return read(c.ctx)
}

// turn waits until a request may make its answer, and returns what says that it is over.
func (m *makers) turn(c *call) (leave func(), err error) {
	return m.places.Enter(c.ctx, "", requester(c.r))
}

// requester is the address of whoever asks, as far as it is known.
func requester(r *http.Request) netip.Addr {
	if addr := fair.Requester(r.Context()); addr.IsValid() {
		return addr
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	addr, _ := netip.ParseAddr(host) // one that is none is a network of its own
	return addr
}

// land tells those who wait, and keeps the answer if it is as its tag says.
func (m *makers) land(tag string, f *flight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.flights, tag)
	close(f.done)
	if f.err != nil || !f.made.steady || f.made.weight() > maxKeptOne {
		return
	}
	m.kept[tag] = m.order.PushFront(&keptAnswer{tag, f.made})
	for m.bytes += f.made.weight(); m.bytes > maxKept; {
		last := m.order.Remove(m.order.Back()).(*keptAnswer)
		m.bytes -= last.made.weight()
		delete(m.kept, last.tag)
	}
}

// weight is what an answer takes in memory, compressed as well.
func (m *made) weight() int { return len(m.body)*2 + 512 }
