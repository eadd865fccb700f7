package safefetch

import (
	"context"
	"errors"
	"time"
)

// work returns the function that a flight runs once it has its places.
func (f *Fetcher) work(t *target) func(context.Context) (*Response, error) {
	if f.config.Observe == nil {
		return func(ctx context.Context) (*Response, error) { return f.fetch(ctx, t) }
	}
	return func(ctx context.Context) (*Response, error) {
		began := time.Now()
		response, err := f.fetch(ctx, t)
		if !errors.Is(err, ErrBusy) { // the callers report it
			f.config.Observe(err, time.Since(began))
		}
		return response, err
	}
}

// observeBusy reports a fetch that got no place, here or at an address.
func (f *Fetcher) observeBusy(err error) {
	if f.config.Observe != nil && errors.Is(err, ErrBusy) {
		f.config.Observe(err, 0)
	}
}
