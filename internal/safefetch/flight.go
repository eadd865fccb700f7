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

// flight is a fetch under way. It belongs to those who wait for it: when the last of them
// has left, it is cancelled.
type flight struct {
	done     chan struct{} // closed when response and err are there
	response *Response
	err      error
	cancel   context.CancelFunc
	waiting  int // guarded by flights.mu
}

func newFlights(timeout time.Duration) *flights {
	return &flights{timeout: timeout, open: map[key]*flight{}}
}

// do returns the answer of the flight for k, which is started if there is none. The
// answer is shared.
func (s *flights) do(ctx context.Context, k key, fetch func(context.Context) (*Response, error)) (*Response, error) {
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	f := s.board(ctx, k, fetch)
	select {
	case <-f.done:
		return f.response, f.err
	case <-ctx.Done():
		s.leave(k, f)
		return nil, ended(ctx)
	}
}

func (s *flights) board(ctx context.Context, k key, fetch func(context.Context) (*Response, error)) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.open[k]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		ctx, f.cancel = context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		s.open[k] = f
		go s.run(ctx, k, f, fetch)
	}
	f.waiting++
	return f
}

func (s *flights) run(ctx context.Context, k key, f *flight, fetch func(context.Context) (*Response, error)) {
	defer f.cancel()
	f.response, f.err = fetch(ctx)
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
