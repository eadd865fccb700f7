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
	// Catalogue is the catalogue to fill.
	Catalogue *catalogue.Catalogue
	// Client reads the upstream. With nil the catalogue has own servers alone.
	Client *upstream.Client
	// Own returns the current own servers. It is called every few seconds. With nil, the own
	// servers in the catalogue stay unchanged.
	Own func() []registry.Item
	// MetaKey is this registry's own key of _meta. Set it if readers get data under this key:
	// the mirror drops the upstream's data under it.
	MetaKey string
	// Owner identifies this process to others while it holds the lease. Default: the host name
	// and the process id.
	Owner string
	// Interval is the time between two rounds. Default 1 h.
	Interval time.Duration
	// Jitter is the maximum random extension of the interval, as a part of it, 0 to 1. It
	// spreads the requests of many mirrors. Default 0.1.
	Jitter float64
	// Overlap extends the period of requested updates into the past, for updates that the
	// upstream recorded late. Default 5 min.
	Overlap time.Duration
	// FullInterval is the time between two full crawls. Default 7 days. It is a seventh of
	// that after a full crawl that could not determine the missing rows or found too many of
	// them.
	FullInterval time.Duration
	// Look is the interval at which Run checks for changed own servers and for a round that
	// another process left unfinished. Default 5 s.
	Look time.Duration
	// Patience is the longest single wait for a busy or failing upstream. A round that would
	// have to wait longer ends. Default 2 min.
	Patience time.Duration
	// Now is the clock, Wait waits, and Random returns a number from 0 to 1. Set them in tests.
	// Defaults: those of the system.
	Now    func() time.Time
	Wait   func(ctx context.Context, d time.Duration) error
	Random func() float64
	// Logger receives the results of rounds and what the operator should check. The default
	// discards them.
	Logger *slog.Logger
	// Progress is called after each page, with the report of the crawl so far.
	Progress func(Report)
}

// New returns a mirror. The error joins all mistakes in the configuration.
func New(c Config) (*Mirror, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.setDefaults()
	return &Mirror{c: c, log: c.Logger}, nil
}

func (c *Config) validate() error {
	var errs []error
	mistake := func(is bool, sentence string) {
		if is {
			errs = append(errs, errors.New("registry/mirror: "+sentence))
		}
	}
	mistake(c.Catalogue == nil, "it needs a catalogue")
	mistake(c.Interval < 0 || c.Overlap < 0 || c.FullInterval < 0 || c.Look < 0 || c.Patience < 0, "a time is below zero")
	mistake(c.Jitter < 0 || c.Jitter > 1, "the jitter is a part of the interval: from 0 to 1")
	if c.MetaKey != "" {
		if err := registry.CheckMetaKey(c.MetaKey); err != nil {
			errs = append(errs, fmt.Errorf("registry/mirror: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (c *Config) setDefaults() {
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
