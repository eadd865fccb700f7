package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/upstream"
	"gatehouse.example/storage/catalogue"
)

// Config configures a [Mirror]. Catalogue is required.
type Config struct {
	// Catalogue is what is filled.
	Catalogue *catalogue.Catalogue
	// Client reads the upstream. Without one there are only servers of our own.
	Client *upstream.Client
	// Own returns the servers of our own as they are now. It is called often. With nil, those
	// that are on record stay as they are.
	Own func() []registry.Item
	// MetaKey is our own key of _meta, under which no upstream speaks.
	MetaKey string
	// Owner is how others call this process while it has the lease. Default: the host and
	// the process id.
	Owner string
	// Interval is how often the upstream is asked for updates. Default 1 h.
	Interval time.Duration
	// Jitter is which part of an interval is added at random. Default 0.1.
	Jitter float64
	// Overlap is how far before the last update that is known updates are asked for.
	// Default 5 min.
	Overlap time.Duration
	// FullInterval is how often the upstream is asked for everything. Default 7 days; a
	// seventh of it after a crawl that could not tell what is missing.
	FullInterval time.Duration
	// Look is how often it is looked whether another process has left something unfinished, or
	// a server of our own has changed. Default 5 s.
	Look time.Duration
	// Patience is how long a round waits at once for an upstream that is busy or broken. One
	// that wants more time ends the round. Default 2 min.
	Patience time.Duration
	// Now is the clock, Wait waits, and Random returns numbers from 0 to 1. Defaults: those
	// of the system.
	Now    func() time.Time
	Wait   func(ctx context.Context, d time.Duration) error
	Random func() float64
	// Logger learns of rounds, and of what an operator should look at. The default discards.
	Logger *slog.Logger
	// Progress is called after each page.
	Progress func(Report)
}

// New returns a mirror, or every mistake in the configuration.
func New(c Config) (*Mirror, error) {
	var errs []error
	mistake := func(is bool, sentence string) {
		if is {
			errs = append(errs, errors.New("registry/mirror: "+sentence))
		}
	}
	mistake(c.Catalogue == nil, "it needs a catalogue")
	mistake(c.Interval < 0 || c.Overlap < 0 || c.FullInterval < 0 || c.Look < 0 || c.Patience < 0, "a time below zero")
	mistake(c.Jitter < 0 || c.Jitter > 1, "the jitter is a part of the interval: from 0 to 1")
	if c.MetaKey != "" {
		if err := registry.CheckMetaKey(c.MetaKey); err != nil {
			errs = append(errs, fmt.Errorf("registry/mirror: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	c.Owner = cmp.Or(c.Owner, thisProcess())
	c.Interval = cmp.Or(c.Interval, time.Hour)
	c.Jitter = cmp.Or(c.Jitter, 0.1)
	c.Overlap = cmp.Or(c.Overlap, 5*time.Minute)
	c.FullInterval = cmp.Or(c.FullInterval, 7*24*time.Hour)
	c.Look = cmp.Or(c.Look, 5*time.Second)
	c.Patience = cmp.Or(c.Patience, 2*time.Minute)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Wait == nil {
		c.Wait = pause
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Mirror{c: c, log: c.Logger}, nil
}

func thisProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
