package catalogue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gatehouse.example/storage"
)

// ErrLeased is returned if another writer holds the lease.
var ErrLeased = errors.New("storage/catalogue: there is another writer")

// LeasedError is an [ErrLeased] with the owner of the lease, and its end unless the owner renews
// it.
type LeasedError struct {
	Owner string
	Until time.Time
}

// Error returns the owner and the end of the lease.
func (e *LeasedError) Error() string {
	return fmt.Sprintf("storage/catalogue: %q is the writer, at least until %s", e.Owner, e.Until.UTC().Format(time.RFC3339))
}

// Is reports whether target is [ErrLeased].
func (e *LeasedError) Is(target error) bool { return target == ErrLeased }

// changeAttempts is the maximum number of attempts at a change that conflicts with others.
const changeAttempts = 64

const (
	// leaseTime is the duration of a lease from the write that renews it, leaseStep the
	// interval of renewals.
	leaseTime = 5 * time.Second
	leaseStep = time.Second
	// leaseMargin is the time before the end of a lease in which no write is begun. It is
	// longer than a write may take.
	leaseMargin = 2500 * time.Millisecond
)

// Writer holds the lease of a catalogue and writes it. It must be closed. It is safe for
// concurrent use; commits run one at a time.
type Writer struct {
	c        *Catalogue
	token    string
	stop     context.CancelFunc
	renewals sync.WaitGroup

	writing        sync.Mutex // one commit, or the end, at a time
	outcomeUnknown bool       // the outcome of the last commit is unknown

	mu       sync.Mutex
	state    stateRecord // as written last
	version  storage.Version
	swept    uint64 // the page whose stale entries are all removed
	relisted string // position up to which Relist has listed the rows
	ended    error  // not nil if the writer has ended
}

// errClosed is the error of a writer after Close.
var errClosed = errors.New("storage/catalogue: the writer is closed")

// OpenWriter takes the lease of the catalogue. Other writers see the owner in the [LeasedError]
// that OpenWriter returns while a writer holds the lease. OpenWriter first undoes the unfinished
// commit of a writer that ended without closing.
func (c *Catalogue) OpenWriter(ctx context.Context, owner string) (*Writer, error) {
	token, err := c.store.NewID()
	if err != nil {
		return nil, err
	}
	w := &Writer{c: c, token: token}
	if err := w.acquire(ctx, owner); err != nil {
		return nil, err
	}
	var renewing context.Context
	renewing, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	w.renewals.Go(func() { w.renew(renewing) })
	if err := w.cleanUp(ctx); err != nil {
		_ = w.Close(ctx)
		return nil, err
	}
	return w, nil
}

// acquire writes the lease into the state, or a new state with it.
func (w *Writer) acquire(ctx context.Context, owner string) error {
	for range changeAttempts {
		st, version, err := w.c.availableState(ctx)
		if err != nil {
			return err
		}
		if err := w.c.sealCursorKey(&st); err != nil {
			return err
		}
		st.Lease = &lease{Owner: owner, Token: w.token, Until: w.c.store.Now().Add(leaseTime)}
		item, err := w.c.writeState(ctx, st, storage.Unchanged(version))
		if err == nil {
			w.state, w.version = st, item.Version
			return nil
		}
		if !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("storage/catalogue: open: %w: others kept taking it", storage.ErrUnavailable)
}

// availableState returns the stored state, or a new one. It returns a [LeasedError] if another
// writer holds the lease.
func (c *Catalogue) availableState(ctx context.Context) (stateRecord, storage.Version, error) {
	item, err := c.state.Get(ctx, stateID)
	if errors.Is(err, storage.ErrNotFound) {
		st, err := c.newState()
		return st, storage.Version{}, err
	}
	if err != nil {
		return stateRecord{}, storage.Version{}, err
	}
	st, err := c.decodeState(item)
	if err != nil {
		return stateRecord{}, storage.Version{}, err
	}
	if l := st.Lease; l != nil && c.store.Now().Before(l.Until) {
		return stateRecord{}, storage.Version{}, &LeasedError{l.Owner, l.Until}
	}
	return st, item.Version, nil
}

// renew renews the lease while the writer writes nothing else. It ignores errors: the next write
// returns them.
func (w *Writer) renew(ctx context.Context) {
	ticker := time.NewTicker(leaseStep)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = w.swap(ctx, func(*stateRecord) error { return nil })
		}
	}
}

// swap changes the state and renews the lease. It fails permanently if another writer has taken
// the lease, or if the store has lost a commit.
func (w *Writer) swap(ctx context.Context, change func(*stateRecord) error, listed ...storage.Listing) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range changeAttempts {
		if w.ended != nil {
			return w.ended
		}
		next := w.state
		if done := next.pages.Done; done != nil && done.Number == w.swept {
			next.pages.Done = nil
		}
		renewed := *next.Lease
		renewed.Until = w.c.store.Now().Add(leaseTime)
		next.Lease = &renewed
		if err := change(&next); err != nil {
			return err
		}
		item, err := w.c.writeState(ctx, next, storage.Unchanged(w.version), listed...)
		if err == nil {
			w.state, w.version = next, item.Version
			return nil
		}
		if !errors.Is(err, storage.ErrConflict) {
			return err
		}
		if err := w.adopt(item); err != nil {
			return err
		}
	}
	return fmt.Errorf("storage/catalogue: %w: the state kept changing", storage.ErrUnavailable)
}

// adopt uses a state that was written meanwhile under this writer's lease: by an own write
// without an answer, or by a process that sealed the cursor key again.
func (w *Writer) adopt(stored storage.Item) error {
	if stored.Version == (storage.Version{}) {
		w.ended = fmt.Errorf("storage/catalogue: %w: the state is gone", storage.ErrConflict)
		return w.ended
	}
	st, err := w.c.decodeState(stored)
	switch {
	case err != nil:
		return err
	case st.Lease == nil:
		w.ended = ErrLeased
	case st.Lease.Token != w.token:
		w.ended = &LeasedError{st.Lease.Owner, st.Lease.Until}
	case st.First != w.state.First || st.Committed < w.state.Committed || st.Used < w.state.Used:
		w.ended = fmt.Errorf("storage/catalogue: %w: the store has lost a commit", storage.ErrConflict)
	default:
		w.state, w.version = st, stored.Version
	}
	return w.ended
}

// checkLease returns an error if no row may be written now: the lease is lost, or so near its
// end that the write could arrive after it.
func (w *Writer) checkLease() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended != nil {
		return w.ended
	}
	if left := w.state.Lease.Until.Sub(w.c.store.Now()); left < leaseMargin {
		return fmt.Errorf("storage/catalogue: %w: the lease was not renewed in time", storage.ErrUnavailable)
	}
	return nil
}

// current returns the state as written last.
func (w *Writer) current() stateRecord {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// State returns the state as this writer wrote it last. It has no CursorKey if that is sealed
// under a master key that this process does not have.
func (w *Writer) State() State {
	st := w.current()
	out, err := w.c.export(st)
	if err != nil { // the cursor key is sealed under another master key
		st.SealedCursorKey = nil
		out, _ = w.c.export(st)
	}
	return out
}

// Close releases the lease, so that another writer can take it at once. It returns nil if the
// writer has lost the lease.
func (w *Writer) Close(ctx context.Context) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.stop()
	w.renewals.Wait()
	err := w.swap(ctx, func(st *stateRecord) error {
		st.Lease = nil
		return nil
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended != nil { // another writer has the lease, or this one is closed already
		return nil
	}
	w.ended = errClosed
	return err
}
