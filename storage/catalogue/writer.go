package catalogue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gatehouse.example/storage"
)

// ErrLeased says that somebody else writes the catalogue.
var ErrLeased = errors.New("storage/catalogue: there is another writer")

// LeasedError is the [ErrLeased] that says who has the catalogue, and until when unless the
// lease is renewed.
type LeasedError struct {
	Owner string
	Until time.Time
}

func (e *LeasedError) Error() string {
	return fmt.Sprintf("storage/catalogue: %q is the writer, at least until %s", e.Owner, e.Until.UTC().Format(time.RFC3339))
}

// Is reports that the error is an [ErrLeased].
func (e *LeasedError) Is(target error) bool { return target == ErrLeased }

// changeAttempts bounds how often a change that keeps losing against others is repeated.
const changeAttempts = 64

const (
	// leaseTime is how long a lease lasts from the write that renews it, leaseStep how
	// often one that nothing is written under is renewed.
	leaseTime = 5 * time.Second
	leaseStep = time.Second
	// leaseMargin before its end nothing is written under a lease any more: more than a
	// write may take.
	leaseMargin = 2500 * time.Millisecond
)

// Writer is the one who may write the catalogue. It must be closed. Its methods
// may be called at any time; of two commits one waits for the other.
type Writer struct {
	c     *Catalogue
	token string
	stop  context.CancelFunc
	ended sync.WaitGroup

	writing sync.Mutex // one commit, or the end, at a time
	unsure  bool       // how the last commit ended is not known

	mu       sync.Mutex
	state    stateRecord // as it was written last
	version  storage.Version
	swept    uint64 // the page of which no stale entry is left
	relisted string // up to where rows are in all orders, if an earlier release listed them
	over     error  // why nothing more can be written
}

// errClosed is why nothing can be written after Close.
var errClosed = errors.New("storage/catalogue: the writer is closed")

// OpenWriter takes the lease of the catalogue for an owner, whose name others are told.
// It returns a [LeasedError] while another writer has it. What a writer left unfinished
// that is gone is undone first.
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
	w.ended.Go(func() { w.renew(renewing) })
	if err := w.settle(ctx); err != nil {
		_ = w.Close(ctx)
		return nil, err
	}
	return w, nil
}

// acquire writes the lease into the state, or a new state with it.
func (w *Writer) acquire(ctx context.Context, owner string) error {
	for range changeAttempts {
		st, version, err := w.c.leasable(ctx)
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

// leasable returns the state that is there, or a new one, unless it is leased.
func (c *Catalogue) leasable(ctx context.Context) (stateRecord, storage.Version, error) {
	item, err := c.state.Get(ctx, stateID)
	if errors.Is(err, storage.ErrNotFound) {
		st, err := c.newState()
		return st, storage.Version{}, err
	}
	if err != nil {
		return stateRecord{}, storage.Version{}, err
	}
	st, err := c.wholeState(item)
	if err != nil {
		return stateRecord{}, storage.Version{}, err
	}
	if l := st.Lease; l != nil && c.store.Now().Before(l.Until) {
		return stateRecord{}, storage.Version{}, &LeasedError{l.Owner, l.Until}
	}
	return st, item.Version, nil
}

// renew keeps the lease while nothing else is written. An error shows when something is.
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

// swap changes the state under the lease and renews that. It fails for good when somebody
// else has taken the lease, or when the store has forgotten what was committed.
func (w *Writer) swap(ctx context.Context, change func(*stateRecord) error, listed ...storage.Listing) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range changeAttempts {
		if w.over != nil {
			return w.over
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

// adopt takes over a state that somebody else has written who may: our own write of which
// we never heard, or whoever sealed the key anew.
func (w *Writer) adopt(there storage.Item) error {
	if there.Version == (storage.Version{}) {
		w.over = fmt.Errorf("storage/catalogue: %w: it is gone", storage.ErrConflict)
		return w.over
	}
	st, err := w.c.wholeState(there)
	switch {
	case err != nil:
		return err
	case st.Lease == nil:
		w.over = ErrLeased
	case st.Lease.Token != w.token:
		w.over = &LeasedError{st.Lease.Owner, st.Lease.Until}
	case st.First != w.state.First || st.Committed < w.state.Committed || st.Used < w.state.Used:
		w.over = fmt.Errorf("storage/catalogue: %w: the store has forgotten what was committed", storage.ErrConflict)
	default:
		w.state, w.version = st, there.Version
	}
	return w.over
}

// mayWrite says why no row may be written now: the lease is gone, or so near its end that
// the write could come after it.
func (w *Writer) mayWrite() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over != nil {
		return w.over
	}
	if left := w.state.Lease.Until.Sub(w.c.store.Now()); left < leaseMargin {
		return fmt.Errorf("storage/catalogue: %w: the lease was not renewed in time", storage.ErrUnavailable)
	}
	return nil
}

// current is the state as it was written last.
func (w *Writer) current() stateRecord {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// State returns the state as this writer wrote it last.
func (w *Writer) State() State {
	st := w.current()
	out, err := w.c.export(st)
	if err != nil { // the key is sealed under another master key
		st.SealedCursorKey = nil
		out, _ = w.c.export(st)
	}
	return out
}

// Close gives the lease back, so that another writer may have it at once. A writer that
// has lost it has nothing to give back.
func (w *Writer) Close(ctx context.Context) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.stop()
	w.ended.Wait()
	err := w.swap(ctx, func(st *stateRecord) error {
		st.Lease = nil
		return nil
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over != nil { // somebody else has it, or it was closed before
		return nil
	}
	w.over = errClosed
	return err
}
