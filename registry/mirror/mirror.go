// Package mirror copies an upstream registry into a catalogue and keeps the copy current. It
// also adds the own servers of this registry.
//
// A [Mirror] works in rounds. The first round reads the whole upstream; then it reads the
// updates about once an hour. From time to time it reads everything again, because a registry
// may lose records without marking them as deleted. Each page is committed together with the
// cursor behind it, so readers never see a part of a page, and after a crash the crawl
// continues at that cursor.
//
// The mirror does not follow the upstream in everything:
//
//   - the first record under a name and version stays. A row whose record differs later gets
//     the flag [FlagChanged]; its status still follows the upstream;
//   - a row that the upstream deletes is deleted in the same round;
//   - rows that a full crawl did not list are deleted, unless they are more than ten and more
//     than a tenth of all, or all of several: then no row is removed until the operator
//     accepts it (SyncOptions.AcceptShrink);
//   - the upstream can change neither own servers nor the registry's own key of _meta.
//
// If several processes share a store, the one that holds the lease of the catalogue does the
// rounds. The others serve, and one of them continues when the lease ends.
package mirror

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"gatehouse.example/storage/catalogue"
)

// Mirror copies an upstream into a catalogue. It is safe for concurrent use; rounds run one at
// a time.
type Mirror struct {
	c   Config
	log *slog.Logger

	busy sync.Mutex // held during a round

	mu        sync.Mutex
	published string    // digest of the own servers that this process has committed
	failures  int       // consecutive failed rounds of this process that are not in the store
	notBefore time.Time // Run begins no round before this time
	spread    spread
}

// spread is the random part of the interval after the round that ended at the time of. Each
// process draws it once per round.
type spread struct {
	of   time.Time
	part float64 // of the interval
}

// SyncOptions changes what a round does.
type SyncOptions struct {
	// Full makes the round read the whole upstream. Set it to find deletions and losses now.
	Full bool
	// AcceptShrink makes the round read the whole upstream and delete the rows that it does not
	// list, however many they are. Set it after a check that the upstream did not lose them.
	AcceptShrink bool
	// AcceptChanged makes the round read the whole upstream and replace records that differ
	// from the first ones, those of own servers included.
	AcceptChanged bool

	onlyOwn bool // do not read the upstream
}

// fresh reports whether the options need a new crawl instead of continuing an interrupted one.
func (o SyncOptions) fresh() bool { return o.AcceptShrink || o.AcceptChanged }

func (o SyncOptions) full() bool { return o.Full || o.fresh() }

// Sync does one round now. The error is [catalogue.ErrLeased] while another process holds the
// lease. After any error, the pages that were committed stay and the next round continues
// behind them.
func (m *Mirror) Sync(ctx context.Context) (Report, error) { return m.SyncWith(ctx, SyncOptions{}) }

// PublishOwn writes the own servers to the catalogue unless it has them already. Every round
// begins with this step; PublishOwn does it without reading the upstream. Errors are those of
// [Mirror.Sync].
func (m *Mirror) PublishOwn(ctx context.Context) error {
	if !m.ownChanged() {
		return nil
	}
	_, err := m.SyncWith(ctx, SyncOptions{onlyOwn: true})
	return err
}

// SyncWith does one round with options. Errors are those of [Mirror.Sync].
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
	m.noteOutcome(err != nil && !r.failureStored)
	return report, err
}

// noteOutcome counts failed rounds whose failure is not in the store. After such a round the
// process waits before the next one, longer each time, up to an interval.
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

// Status returns the status of the mirror that fills the catalogue, in this or another process.
func (m *Mirror) Status(ctx context.Context) (Status, error) {
	return ReadStatus(ctx, m.c.Catalogue)
}

// Run does rounds when they are due, until ctx ends. It returns nil: errors are in the log and
// in the [Status].
func (m *Mirror) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if m.c.Wait(ctx, m.step(ctx)) != nil {
			break
		}
	}
	return nil
}

// step does a round if one is due, and returns how long to wait before the next step.
func (m *Mirror) step(ctx context.Context) time.Duration {
	st, err := m.c.Catalogue.State(ctx)
	if err != nil {
		m.logWarning(ctx, "registry: the catalogue cannot be read", err)
		return m.c.Look
	}
	p, err := readProgress(st)
	if err != nil {
		m.logWarning(ctx, "registry: the catalogue cannot be updated", err)
		return m.c.Look
	}
	wait := m.untilDue(p)
	lost := m.c.Own != nil && p.OwnDigest == ""
	writeDue := m.ownChanged() || lost || st.CursorKey != nil && !st.ByAge // the last: a catalogue of an earlier release
	if st.Leased || wait > 0 && !writeDue || m.backingOff() {
		return min(max(wait, time.Second), m.c.Look)
	}
	_, err = m.SyncWith(ctx, SyncOptions{onlyOwn: wait > 0})
	if errors.Is(err, catalogue.ErrLeased) {
		return m.c.Look
	}
	return time.Second
}

func (m *Mirror) logWarning(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		m.log.WarnContext(ctx, what, "error", err)
	}
}

// backingOff reports whether this process still waits after a failed round, see noteOutcome.
func (m *Mirror) backingOff() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.c.Now().Before(m.notBefore)
}

// ownChanged reports whether the own servers differ from those that this process committed
// last.
func (m *Mirror) ownChanged() bool {
	if m.c.Own == nil {
		return false
	}
	digest := digestOf(m.c.Own())
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.published != digest
}

// forever is the wait for a round that is never due.
const forever = 1000 * time.Hour

// untilDue returns the time until the next round is due. It is not positive if one is due now.
func (m *Mirror) untilDue(p progress) time.Duration {
	now := m.c.Now()
	switch {
	case m.c.Client == nil:
		return forever
	case p.Upstream != m.upstream():
		return 0
	case p.Failure != nil:
		return p.Failure.RetryAt.Sub(now)
	case p.FullDue, p.Crawl != nil: // the process that began the crawl has ended
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
