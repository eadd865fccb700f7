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

// Building an answer costs memory and time, and any client may request one. Therefore the
// number of answers built at once is limited, with a queue that is fair between networks;
// concurrent requests for the same answer share one build; and recent answers are cached.

const (
	maxKept     = 32 << 20 // limit of the cached answers in bytes
	maxKeptOne  = 4 << 20  // limit of one cached answer in bytes
	maxMakeWait = 1024     // limit of waiting requests
)

// answer is the body of an answer.
type answer struct {
	body       []byte
	consistent bool // body belongs to the state of the catalogue that the tag names

	once   sync.Once
	packed []byte
}

// gzip returns the compressed body, nil if compression does not make it smaller.
func (a *answer) gzip() []byte {
	a.once.Do(func() { a.packed = compressed(a.body) })
	return a.packed
}

// builder builds and caches answers. Keys of its maps are tags.
type builder struct {
	places *fair.Queue

	mu      sync.Mutex
	flights map[string]*flight
	kept    map[string]*list.Element // of keptAnswer
	order   list.List                // the most recently used first
	bytes   int                      // of all kept answers
}

// flight is an answer under construction, which several requests may wait for.
type flight struct {
	done   chan struct{}
	answer *answer
	err    error
}

type keptAnswer struct {
	tag    string
	answer *answer
}

func newBuilder() *builder {
	return &builder{
		places:  fair.NewQueue(max(4, 2*runtime.GOMAXPROCS(0)), maxMakeWait),
		flights: map[string]*flight{}, kept: map[string]*list.Element{},
	}
}

// get returns the answer of a tag: the cached one, the one that another request is building, or
// a new one.
func (b *builder) get(c *call, tag string, read func(context.Context) (*answer, error)) (*answer, error) {
	for {
		f, first := b.join(tag)
		if first {
			return b.build(c, tag, f, read)
		}
		select {
		case <-f.done:
		case <-c.ctx.Done():
			return nil, c.ctx.Err()
		}
		if f.err == nil || !onlyOfRequest(f.err) || c.ctx.Err() != nil {
			return f.answer, f.err
		}
	}
}

// onlyOfRequest reports whether an error concerns the request that built the answer and not the
// answer: the requests that share the build try again.
func onlyOfRequest(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fair.ErrBusy) || errors.Is(err, storage.ErrUnavailable)
}

// join returns the flight of a tag. If it is new, first is true and the caller must build the
// answer.
func (b *builder) join(tag string) (f *flight, first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.kept[tag]; e != nil {
		b.order.MoveToFront(e)
		f = &flight{done: make(chan struct{}), answer: e.Value.(*keptAnswer).answer}
		close(f.done)
		return f, false
	}
	if f = b.flights[tag]; f != nil {
		return f, false
	}
	f = &flight{done: make(chan struct{})}
	b.flights[tag] = f
	return f, true
}

var errAbandoned = errors.New("registry: the construction of an answer was abandoned")

// build builds an answer and finishes its flight.
func (b *builder) build(c *call, tag string, f *flight, read func(context.Context) (*answer, error)) (*answer, error) {
	f.err = errAbandoned // remains if read panics
	defer b.finish(tag, f)
	f.answer, f.err = b.read(c, read)
	return f.answer, f.err
}

// read waits for a place in the queue and calls read.
func (b *builder) read(c *call, read func(context.Context) (*answer, error)) (*answer, error) {
	leave, err := b.enter(c)
	if err != nil {
		return nil, err
	}
	defer leave()
	return read(c.ctx)
}

// enter waits for a place in the queue. The caller must call leave when the answer is built.
func (b *builder) enter(c *call) (leave func(), err error) {
	return b.places.Enter(c.ctx, "", requester(c.r))
}

// requester returns the address of the client, or the zero Addr if it is unknown.
func requester(r *http.Request) netip.Addr {
	if addr := fair.Requester(r.Context()); addr.IsValid() {
		return addr
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	addr, _ := netip.ParseAddr(host) // all invalid addresses share one network in the queue
	return addr
}

// finish ends a flight and caches its answer if the answer matches its tag.
func (b *builder) finish(tag string, f *flight) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.flights, tag)
	close(f.done)
	if f.err != nil || !f.answer.consistent || f.answer.weight() > maxKeptOne {
		return
	}
	b.kept[tag] = b.order.PushFront(&keptAnswer{tag, f.answer})
	for b.bytes += f.answer.weight(); b.bytes > maxKept; {
		last := b.order.Remove(b.order.Back()).(*keptAnswer)
		b.bytes -= last.answer.weight()
		delete(b.kept, last.tag)
	}
}

// weight returns the memory of an answer in bytes, with its compressed form.
func (a *answer) weight() int { return len(a.body)*2 + 512 }
