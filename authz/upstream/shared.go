package upstream

import (
	"context"
	"sync"
	"time"
)

const (
	pause = 5 * time.Second // for what is shared
	fresh = time.Hour       // how long a value is used without a look whether it changed
	keep  = 24 * time.Hour  // how long a value is used while the provider cannot be reached
)

// shared is a document of the provider that all sign-ins use: it is fetched when the first one
// needs it, once for all that wait, and with a pause after each fetch, whatever became of it.
type shared[T any] struct {
	fetch func(context.Context) (T, error)
	now   func() time.Time
	pause time.Duration // between the end of a fetch and the next one

	mu      sync.Mutex
	value   *T
	number  int       // of fetches that brought a value
	fetched time.Time // when value came
	tried   time.Time // when the last fetch ended
	ended   time.Time // the same by the clock of the machine, for waiting
	err     error     // of the last fetch
	flight  chan struct{}
}

// get returns the value and its number. An old value is used only if there is no newer one to be
// had, and not for ever.
func (s *shared[T]) get(ctx context.Context) (T, int, error) {
	s.mu.Lock()
	age := s.now().Sub(s.fetched)
	usable := s.value != nil && age < keep
	failed := s.flight == nil && s.err != nil && !s.rested()
	switch {
	case usable && (age < fresh || failed):
		defer s.mu.Unlock()
		return *s.value, s.number, nil
	case failed:
		defer s.mu.Unlock()
		var none T
		return none, 0, s.err
	}
	value, number, err := s.join(ctx)
	if err != nil && usable && ctx.Err() == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return *s.value, s.number, nil
	}
	return value, number, err
}

// rested reports that the pause since the last fetch is over, by either clock.
func (s *shared[T]) rested() bool {
	return s.now().Sub(s.tried) >= s.pause || time.Since(s.ended) >= s.pause
}

// later returns a value of a later fetch than the given number. It waits until the pause is over
// if wait is set; else it returns what there is, which may have that number. An error says that the provider
// could not be asked.
func (s *shared[T]) later(ctx context.Context, number int, wait bool) (T, int, error) {
	s.mu.Lock()
	if s.value != nil && s.number > number {
		defer s.mu.Unlock()
		return *s.value, s.number, nil
	}
	for s.flight == nil && !s.rested() {
		if !wait {
			defer s.mu.Unlock()
			return *s.value, s.number, s.err
		}
		left := s.pause - time.Since(s.ended)
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			var none T
			return none, 0, ctx.Err()
		case <-time.After(left):
		}
		s.mu.Lock()
		if s.number > number {
			defer s.mu.Unlock()
			return *s.value, s.number, nil
		}
	}
	return s.join(ctx)
}

// join waits for the fetch that runs, or a new one. It is called with the lock and gives it back.
func (s *shared[T]) join(ctx context.Context) (value T, number int, err error) {
	if s.flight == nil {
		s.start()
	}
	flight := s.flight
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return value, 0, ctx.Err()
	case <-flight:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return value, 0, s.err
	}
	return *s.value, s.number, nil
}

// start begins a fetch that does not end with the request that needed it first. The fetch limits
// its own time.
func (s *shared[T]) start() {
	flight := make(chan struct{})
	s.flight = flight
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		defer cancel()
		value, err := s.fetch(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil {
			s.value, s.number, s.fetched = &value, s.number+1, s.now()
		}
		s.err, s.tried, s.ended, s.flight = err, s.now(), time.Now(), nil
		close(flight)
	}()
}
