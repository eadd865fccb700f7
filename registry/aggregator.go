package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"gatehouse.example/storage/catalogue"
)

// An aggregator asks for everything once, then about hourly for what was updated, and for
// everything again now and then, because a registry may lose records without a word. Each
// page is committed by itself, together with where to go on, so that readers never see half
// of one and nothing is asked for twice after a crash.
//
// What it believes of an upstream:
//
//   - a record stays as it was seen first. Another one under the same name and version is
//     flagged, and its status is believed all the same;
//   - deleted is deleted, in the same round;
//   - what a full crawl did not see is deleted too, unless that is more than a tenth and more
//     than ten records, or all of them: then nothing is removed until somebody says so;
//   - it has no say about servers of our own, nor under our own key of _meta.
//
// Of many processes over one store, whoever has the lease of the catalogue does the work,
// one round at a time. The others serve, and go on when it is gone.

// AggregatorConfig configures an [Aggregator]. Catalogue is required.
type AggregatorConfig struct {
	// Catalogue is what the aggregator fills.
	Catalogue *catalogue.Catalogue
	// Client reads the upstream. Without one there are only servers of our own.
	Client *Client
	// Own returns the servers of our own as they are now. It is called often. With nil, those
	// that are on record stay as they are.
	Own func() []Item
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

// Aggregator fills the catalogue of a store and keeps it current. It is safe for concurrent
// use, but does one thing at a time.
type Aggregator struct {
	c   AggregatorConfig
	log *slog.Logger

	busy sync.Mutex // while there is a round

	mu        sync.Mutex
	published string    // the digest of our own servers that this process has put in
	failures  int       // in a row, of this process
	notBefore time.Time // no round begins by itself
	spread    spread
}

// spread is the random part of an interval. Each process draws it once a round.
type spread struct {
	of   time.Time
	part float64
}

// NewAggregator returns an aggregator, or every mistake in the configuration.
func NewAggregator(c AggregatorConfig) (*Aggregator, error) {
	var errs []error
	mistake := func(is bool, sentence string) {
		if is {
			errs = append(errs, errors.New("registry: aggregator: "+sentence))
		}
	}
	mistake(c.Catalogue == nil, "it needs a catalogue")
	mistake(c.Interval < 0 || c.Overlap < 0 || c.FullInterval < 0 || c.Look < 0 || c.Patience < 0, "a time below zero")
	mistake(c.Jitter < 0 || c.Jitter > 1, "the jitter is a part of the interval: from 0 to 1")
	if c.MetaKey != "" {
		if err := checkMetaKey(c.MetaKey); err != nil {
			errs = append(errs, fmt.Errorf("registry: aggregator: %w", err))
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
	return &Aggregator{c: c, log: c.Logger}, nil
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

// Order is what a round is to do besides what it would do anyway.
type Order struct {
	// Full asks for everything.
	Full bool
	// AcceptShrink asks for everything and removes what is missing, however much it is.
	AcceptShrink bool
	// AcceptChanged asks for everything and takes records over that are not what they were.
	AcceptChanged bool

	onlyOwn bool
}

// fresh reports an order that needs a crawl from the beginning.
func (o Order) fresh() bool { return o.AcceptShrink || o.AcceptChanged }

func (o Order) full() bool { return o.Full || o.fresh() }

// Sync does one round now. The error is a [catalogue.ErrLeased] while another process is at
// it. Whatever the error, what was read before it is kept, and the next round goes on there.
func (a *Aggregator) Sync(ctx context.Context) (Report, error) { return a.SyncWith(ctx, Order{}) }

// PublishOwn only brings the servers of our own into the catalogue, if they are not there
// already. Every round begins with that.
func (a *Aggregator) PublishOwn(ctx context.Context) error {
	if !a.pending() {
		return nil
	}
	_, err := a.SyncWith(ctx, Order{onlyOwn: true})
	return err
}

// SyncWith is [Aggregator.Sync] with an order.
func (a *Aggregator) SyncWith(ctx context.Context, o Order) (Report, error) {
	a.busy.Lock()
	defer a.busy.Unlock()
	writer, err := a.c.Catalogue.OpenWriter(ctx, a.c.Owner)
	if err != nil {
		return Report{}, err
	}
	r := &round{Aggregator: a, writer: writer, order: o}
	report, err := r.run(ctx)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if closed := writer.Close(closing); closed != nil {
		a.log.WarnContext(ctx, "registry: the lease of the catalogue was not given back; it ends by itself", "error", closed)
	}
	a.note(err != nil && !r.noted)
	return report, err
}

// note remembers that a round failed of which the store knows nothing.
func (a *Aggregator) note(failed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !failed {
		a.failures, a.notBefore = 0, time.Time{}
		return
	}
	a.failures++
	a.notBefore = a.c.Now().Add(min(a.c.Look<<min(a.failures-1, 10), a.c.Interval))
}

// Status reads how the catalogue is kept, by whatever process.
func (a *Aggregator) Status(ctx context.Context) (SyncStatus, error) {
	return ReadStatus(ctx, a.c.Catalogue)
}

// Run does rounds when they are due, until ctx ends. What goes wrong is in the log and in
// the status.
func (a *Aggregator) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if a.c.Wait(ctx, a.step(ctx)) != nil {
			break
		}
	}
	return nil
}

// step does what is due, and returns when to look again.
func (a *Aggregator) step(ctx context.Context) time.Duration {
	st, err := a.c.Catalogue.State(ctx)
	if err != nil {
		a.trouble(ctx, "registry: the catalogue cannot be read", err)
		return a.c.Look
	}
	l, err := readLedger(st)
	if err != nil {
		a.trouble(ctx, "registry: the catalogue cannot be kept current", err)
		return a.c.Look
	}
	wait := a.untilDue(l)
	pending := a.pending() || st.CursorKey != nil && !st.ByAge
	if st.Leased || wait > 0 && !pending || a.early() {
		return min(max(wait, time.Second), a.c.Look)
	}
	_, err = a.SyncWith(ctx, Order{onlyOwn: wait > 0})
	if errors.Is(err, catalogue.ErrLeased) {
		return a.c.Look
	}
	return time.Second
}

func (a *Aggregator) trouble(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		a.log.WarnContext(ctx, what, "error", err)
	}
}

// early reports whether the last round of this process failed not long ago, and the store
// does not know.
func (a *Aggregator) early() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.c.Now().Before(a.notBefore)
}

// pending reports whether the servers of our own are others than those that this process
// has put in.
func (a *Aggregator) pending() bool {
	if a.c.Own == nil {
		return false
	}
	digest := digestOf(a.c.Own())
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.published != digest
}

// forever is how long it takes until something is due that never is.
const forever = 1000 * time.Hour

// untilDue returns how long it takes until a round is due. What is overdue is not positive.
func (a *Aggregator) untilDue(l ledger) time.Duration {
	now := a.c.Now()
	switch {
	case a.c.Client == nil:
		return forever
	case l.Upstream != a.upstream():
		return 0
	case l.Failure != nil:
		return l.Failure.RetryAt.Sub(now)
	case l.FullDue, l.Crawl != nil: // whoever began it is gone
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.spread.of.Equal(l.Ended) || a.spread.of.IsZero() {
		a.spread = spread{l.Ended, a.c.Jitter * a.c.Random()}
	}
	return l.Ended.Add(a.c.Interval + time.Duration(a.spread.part*float64(a.c.Interval))).Sub(now)
}

func (a *Aggregator) upstream() string {
	if a.c.Client == nil {
		return ""
	}
	return a.c.Client.base
}
