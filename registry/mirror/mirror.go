// Package mirror fills a catalogue from an upstream registry and keeps it current, and adds
// servers of our own: it is an aggregator.
//
// A [Mirror] asks the upstream for everything once, then about hourly for what was updated,
// and for everything again now and then, because a registry may lose records without saying
// so. Each page is committed by itself, together with where to go on, so that readers never
// see half of one and nothing is asked for twice after a crash.
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
package mirror

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"gatehouse.example/storage/catalogue"
)

// Mirror fills the catalogue of a store and keeps it current. It is safe for concurrent
// use, but does one thing at a time.
type Mirror struct {
	c   Config
	log *slog.Logger

	busy sync.Mutex // while there is a round

	mu        sync.Mutex
	published string    // the digest of our own servers that this process has committed
	failures  int       // in a row, of this process
	notBefore time.Time // no round begins by itself
	spread    spread
}

// spread is the random part of an interval. Each process draws it once a round.
type spread struct {
	of   time.Time
	part float64
}

// SyncOptions is what a round is to do besides what it would do anyway.
type SyncOptions struct {
	// Full asks for everything.
	Full bool
	// AcceptShrink asks for everything and removes what is missing, however much it is.
	AcceptShrink bool
	// AcceptChanged asks for everything and takes records over that are not what they were.
	AcceptChanged bool

	onlyOwn bool
}

// fresh reports options that need a crawl from the beginning.
func (o SyncOptions) fresh() bool { return o.AcceptShrink || o.AcceptChanged }

func (o SyncOptions) full() bool { return o.Full || o.fresh() }

// Sync does one round now. The error is a [catalogue.ErrLeased] while another process is at
// it. Whatever the error, what was read before it is kept, and the next round goes on there.
func (m *Mirror) Sync(ctx context.Context) (Report, error) { return m.SyncWith(ctx, SyncOptions{}) }

// PublishOwn only brings the servers of our own into the catalogue, if they are not there
// already. Every round begins with that.
func (m *Mirror) PublishOwn(ctx context.Context) error {
	if !m.pending() {
		return nil
	}
	_, err := m.SyncWith(ctx, SyncOptions{onlyOwn: true})
	return err
}

// SyncWith is [Mirror.Sync] with options.
func (m *Mirror) SyncWith(ctx context.Context, o SyncOptions) (Report, error) {
	m.busy.Lock()
	defer m.busy.Unlock()
	writer, err := m.c.Catalogue.OpenWriter(ctx, m.c.Owner)
	if err != nil {
		return Report{}, err
	}
	r := &round{Mirror: m, writer: writer, options: o}
	report, err := r.run(ctx)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if closed := writer.Close(closing); closed != nil {
		m.log.WarnContext(ctx, "registry: the lease of the catalogue was not given back; it ends by itself", "error", closed)
	}
	m.noteOutcome(err != nil && !r.noted)
	return report, err
}

// noteOutcome remembers whether a round failed of which the store knows nothing.
func (m *Mirror) noteOutcome(failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !failed {
		m.failures, m.notBefore = 0, time.Time{}
		return
	}
	m.failures++
	m.notBefore = m.c.Now().Add(min(m.c.Look<<min(m.failures-1, 10), m.c.Interval))
}

// Status reads how the catalogue is kept, by whatever process.
func (m *Mirror) Status(ctx context.Context) (Status, error) {
	return ReadStatus(ctx, m.c.Catalogue)
}

// Run does rounds when they are due, until ctx ends. What goes wrong is in the log and in
// the status.
func (m *Mirror) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if m.c.Wait(ctx, m.step(ctx)) != nil {
			break
		}
	}
	return nil
}

// step does what is due, and returns when to look again.
func (m *Mirror) step(ctx context.Context) time.Duration {
	st, err := m.c.Catalogue.State(ctx)
	if err != nil {
		m.trouble(ctx, "registry: the catalogue cannot be read", err)
		return m.c.Look
	}
	p, err := readProgress(st)
	if err != nil {
		m.trouble(ctx, "registry: the catalogue cannot be kept current", err)
		return m.c.Look
	}
	wait := m.untilDue(p)
	pending := m.pending() || st.CursorKey != nil && !st.ByAge
	if st.Leased || wait > 0 && !pending || m.early() {
		return min(max(wait, time.Second), m.c.Look)
	}
	_, err = m.SyncWith(ctx, SyncOptions{onlyOwn: wait > 0})
	if errors.Is(err, catalogue.ErrLeased) {
		return m.c.Look
	}
	return time.Second
}

func (m *Mirror) trouble(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		m.log.WarnContext(ctx, what, "error", err)
	}
}

// early reports whether the last round of this process failed not long ago, and the store
// does not know.
func (m *Mirror) early() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.c.Now().Before(m.notBefore)
}

// pending reports whether the servers of our own are others than those that this process
// has put in.
func (m *Mirror) pending() bool {
	if m.c.Own == nil {
		return false
	}
	digest := digestOf(m.c.Own())
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.published != digest
}

// forever is how long it takes until something is due that never is.
const forever = 1000 * time.Hour

// untilDue returns how long it takes until a round is due. What is overdue is not positive.
func (m *Mirror) untilDue(p progress) time.Duration {
	now := m.c.Now()
	switch {
	case m.c.Client == nil:
		return forever
	case p.Upstream != m.upstream():
		return 0
	case p.Failure != nil:
		return p.Failure.RetryAt.Sub(now)
	case p.FullDue, p.Crawl != nil: // whoever began it is gone
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.spread.of.Equal(p.Ended) || m.spread.of.IsZero() {
		m.spread = spread{p.Ended, m.c.Jitter * m.c.Random()}
	}
	return p.Ended.Add(m.c.Interval + time.Duration(m.spread.part*float64(m.c.Interval))).Sub(now)
}

func (m *Mirror) upstream() string {
	if m.c.Client == nil {
		return ""
	}
	return m.c.Client.Base()
}
