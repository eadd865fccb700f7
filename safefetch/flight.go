package safefetch

import (
	"context"
	"sync"
	"time"
)

// flights lets concurrent callers with the same request share one fetch.
type flights struct {
	timeout time.Duration
	mu      sync.Mutex
	open    map[key]*flight
}

// flight is a shared fetch. It begins at the first turn of any of its callers, so that others
// do not wait for the turn of the first caller. When its last caller has left, it is cancelled.
type flight struct {
	ctx      context.Context
	cancel   context.CancelFunc
	begun    chan struct{} // closed when the turn of a caller came
	done     chan struct{} // closed when response and err are set
	response *Response
	err      error
	waiting  int // guarded by flights.mu
}

// turn waits until a caller may fetch.
type turn func(context.Context) (leave func(), err error)

func newFlights(timeout time.Duration) *flights {
	return &flights{timeout: timeout, open: map[key]*flight{}}
}

// do returns the response of the flight for k, and creates the flight if there is none. The
// response is shared between callers.
func (s *flights) do(ctx context.Context, k key, enter turn, fetch func(context.Context) (*Response, error)) (*Response, error) {
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	f := s.join(ctx, k)
	if err := s.begin(ctx, k, f, enter, fetch); err != nil {
		s.leave(k, f)
		return nil, err
	}
	select {
	case <-f.done:
		return f.response, f.err
	case <-ctx.Done():
		s.leave(k, f)
		return nil, contextError(ctx)
	}
}

// hasten lets the flight for k begin in the caller's turn, and reports whether there is such a
// flight.
func (s *flights) hasten(ctx context.Context, k key, enter turn, fetch func(context.Context) (*Response, error)) bool {
	s.mu.Lock()
	f := s.open[k]
	if f == nil {
		s.mu.Unlock()
		return false
	}
	f.waiting++
	s.mu.Unlock()
	_ = s.begin(ctx, k, f, enter, fetch)
	s.leave(k, f)
	return true
}

func (s *flights) join(ctx context.Context, k key) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.open[k]
	if f == nil {
		f = &flight{begun: make(chan struct{}), done: make(chan struct{})}
		f.ctx, f.cancel = context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		s.open[k] = f
	}
	f.waiting++
	return f
}

// begin returns when the flight has begun, in the turn of this caller or another one.
func (s *flights) begin(ctx context.Context, k key, f *flight, enter turn, fetch func(context.Context) (*Response, error)) error {
	if f.hasBegun() {
		return nil
	}
	waits, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-f.begun:
		case <-f.ctx.Done():
		case <-waits.Done():
		}
		stop()
	}()
	leave, err := enter(waits)
	switch {
	case err == nil && s.claim(f):
		go s.run(k, f, leave, fetch)
		return nil
	case err == nil:
		leave()
		return nil
	case f.hasBegun():
		return nil
	case ctx.Err() != nil:
		return contextError(ctx)
	}
	return err
}

func (f *flight) hasBegun() bool {
	select {
	case <-f.begun:
		return true
	default:
		return false
	}
}

// claim marks the flight as begun, and reports whether this caller is the one to run it.
func (s *flights) claim(f *flight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.hasBegun() {
		return false
	}
	close(f.begun)
	return true
}

func (s *flights) run(k key, f *flight, leave func(), fetch func(context.Context) (*Response, error)) {
	defer f.cancel()
	defer leave()
	f.response, f.err = fetch(f.ctx)
	s.mu.Lock()
	s.remove(k, f)
	s.mu.Unlock()
	close(f.done)
}

func (s *flights) leave(k key, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.waiting--
	if f.waiting == 0 {
		s.remove(k, f) // later callers must not join a cancelled flight
		f.cancel()
	}
}

func (s *flights) remove(k key, f *flight) {
	if s.open[k] == f {
		delete(s.open, k)
	}
}
