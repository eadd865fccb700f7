package safefetch

import (
	"context"
	"sync"
	"time"
)

// flights lets callers who want the same thing at the same time share one fetch.
type flights struct {
	timeout time.Duration
	mu      sync.Mutex
	open    map[key]*flight
}

// flight is a fetch that is wanted. It begins when it is the turn of any of those who want
// it: whoever asked first must not decide how long the others wait. It belongs to them all:
// when the last of them has left, it is cancelled.
type flight struct {
	ctx      context.Context
	cancel   context.CancelFunc
	begun    chan struct{} // closed when somebody's turn came
	done     chan struct{} // closed when response and err are there
	response *Response
	err      error
	waiting  int // guarded by flights.mu
}

// turn waits until a caller may fetch.
type turn func(context.Context) (leave func(), err error)

func newFlights(timeout time.Duration) *flights {
	return &flights{timeout: timeout, open: map[key]*flight{}}
}

// do returns the answer of the flight for k, which is made if there is none. The answer is
// shared.
func (s *flights) do(ctx context.Context, k key, enter turn, fetch func(context.Context) (*Response, error)) (*Response, error) {
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	f := s.board(ctx, k)
	if err := s.begin(ctx, k, f, enter, fetch); err != nil {
		s.leave(k, f)
		return nil, err
	}
	select {
	case <-f.done:
		return f.response, f.err
	case <-ctx.Done():
		s.leave(k, f)
		return nil, ended(ctx)
	}
}

// hasten lends the flight for k the caller's turn, if there is one, and reports whether
// there was.
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

func (s *flights) board(ctx context.Context, k key) *flight {
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

// begin returns when the flight has begun, by the caller's turn or somebody else's.
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
		return ended(ctx)
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

// claim reports whether the caller is the one who fetches.
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
	s.forget(k, f)
	s.mu.Unlock()
	close(f.done)
}

func (s *flights) leave(k key, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.waiting--
	if f.waiting == 0 {
		s.forget(k, f) // whoever comes now must not board a cancelled flight
		f.cancel()
	}
}

func (s *flights) forget(k key, f *flight) {
	if s.open[k] == f {
		delete(s.open, k)
	}
}
