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

// flight is an answer that is built, or that waits for a place to be built. Several requests may wait
// for it: one of each network in the queue, so that it is built in the first turn of any of them, and
// the others for its end.
type flight struct {
	done   chan struct{}
	answer *answer
	err    error

	// The rest is guarded by the lock of the builder.
	networks map[string]bool // those in whose turn it may be built
	turns    map[*turn]bool  // of the requests in the queue
	begun    bool            // whether it is built
}

// turn is the wait of one request for a place, in which it may build an answer.
type turn struct {
	ctx context.Context
	end func()
}

// maxTurns limits the networks in whose turn one answer may be built, because each takes a place among
// the waiting requests.
const maxTurns = 16

type keptAnswer struct {
	tag    string
	answer *answer
}

// buildPlaces returns how many answers are built at a time.
func buildPlaces() int { return max(4, 2*runtime.GOMAXPROCS(0)) }

func newBuilder() *builder {
	return &builder{
		places:  fair.NewQueue(buildPlaces(), maxMakeWait),
		flights: map[string]*flight{}, kept: map[string]*list.Element{},
	}
}

// get returns the answer of a tag: the cached one, the one that another request is building, or
// a new one.
func (b *builder) get(c *call, tag string, read func(context.Context) (*answer, error)) (*answer, error) {
	for {
		f, turn := b.join(c, tag)
		if turn != nil {
			if own, err := b.build(c, tag, f, turn, read); own {
				return f.answer, err
			}
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

// join returns the flight of a tag. If it returns a turn too, the caller must call build: the flight is
// new, or waits in turns of other networks alone, which may have many requests waiting.
func (b *builder) join(c *call, tag string) (*flight, *turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.kept[tag]; e != nil {
		b.order.MoveToFront(e)
		f := &flight{done: make(chan struct{}), answer: e.Value.(*keptAnswer).answer}
		close(f.done)
		return f, nil
	}
	f := b.flights[tag]
	if f == nil {
		f = &flight{done: make(chan struct{}), networks: map[string]bool{}, turns: map[*turn]bool{}}
		b.flights[tag] = f
	}
	networks := fair.Networks(requester(c.r))
	network := networks[len(networks)-1]
	if f.begun || f.networks[network] || len(f.networks) >= maxTurns {
		return f, nil
	}
	t := new(turn)
	t.ctx, t.end = context.WithCancel(c.ctx)
	f.networks[network], f.turns[t] = true, true
	return f, t
}

var errAbandoned = errors.New("registry: the construction of an answer was abandoned")

// build waits for a place in the queue, builds an answer and finishes its flight. own is false if
// another request does that.
func (b *builder) build(c *call, tag string, f *flight, t *turn, read func(context.Context) (*answer, error)) (own bool, err error) {
	defer t.end()
	leave, err := b.enter(t.ctx, c)
	if err != nil {
		return b.giveUp(t, tag, f, err), err
	}
	defer leave()
	if !b.begin(t, f) {
		return false, nil
	}
	f.err = errAbandoned // remains if read panics
	defer b.finish(tag, f)
	f.answer, f.err = read(c.ctx)
	return true, f.err
}

// begin makes a request the one that builds a flight, and ends the wait of the others. It returns false
// if another one is.
func (b *builder) begin(t *turn, f *flight) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(f.turns, t)
	if f.begun {
		return false
	}
	f.begun = true
	for other := range f.turns {
		other.end()
	}
	return true
}

// giveUp takes a request out of a flight that got no place. It returns false if another request builds
// the flight or still waits for a place; otherwise the flight ends.
func (b *builder) giveUp(t *turn, tag string, f *flight, why error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(f.turns, t)
	if f.begun || len(f.turns) > 0 {
		return false
	}
	f.begun, f.err = true, why
	delete(b.flights, tag)
	close(f.done)
	return true
}

// enter waits for a place in the queue. The caller must call leave when the answer is built.
func (b *builder) enter(ctx context.Context, c *call) (leave func(), err error) {
	return b.places.Enter(ctx, "", requester(c.r))
}

// place waits for a place in the queue in which the answer to a call is built. The caller must call
// leave at the end; send has called it then, unless there is nothing to send.
func (h *Handler) place(c *call) (leave func(), err error) {
	c.leave, err = h.builder.enter(c.ctx, c)
	return c.leave, err
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
