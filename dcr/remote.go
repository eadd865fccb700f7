package dcr

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"gatehouse.example/internal/fair"
	"gatehouse.example/safefetch"
)

// ErrUnreachable reports that a document or key set of a client cannot be read now. It does
// not give the reason, which could disclose what is behind an address. The client may be
// valid: ask the requester to retry later.
var ErrUnreachable = errors.New("dcr: the document or the keys of the client cannot be read now")

// unusable reports what is wrong with a document or key set. It discloses nothing that is not
// public at the address.
type unusable struct{ why string }

func (e *unusable) Error() string { return e.why }

// remote fetches documents of one kind from addresses that clients choose, and caches valid
// ones. After a failure an address is not fetched for failureTime; errors and invalid
// documents are not kept longer (draft section 5.2). A document is not used after it expires,
// even if its host is unreachable.
type remote[T any] struct {
	fetcher *safefetch.Fetcher
	limiter *fair.Limiter
	now     func() time.Time
	log     *slog.Logger
	what    string // for the log
	accept  []string
	most    int64         // bytes of a document
	longest time.Duration // a document is cached
	parse   func(address string, body []byte) (T, error)
	waits   func(ctx context.Context) (context.Context, func(error)) // Config.Fetching; may be nil

	kept     *generations[published[T]]
	failures *generations[failure]
	mu       sync.Mutex
	pending  map[string]*pendingFetch[T]
}

// failure is why a fetch failed, and until when the address is not fetched again.
type failure struct {
	err   error
	until time.Time
}

const (
	// failureTime is the time for which an address is not fetched after a failure. A corrected
	// document takes effect after it.
	failureTime = 5 * time.Second
	// maxFailures and maxFailureBytes bound one generation of failures.
	maxFailures     = 4096
	maxFailureBytes = 1 << 20
	// keptDocuments and keptBytes bound one generation of documents of one kind.
	keptDocuments = 1024
	keptBytes     = 2 << 20
)

// setUpFetching prepares cs to read documents and key sets, and reads pinned documents.
func (cs *Clients) setUpFetching(c Config) error {
	cs.documents = c.Documents
	if c.Fetcher == nil {
		if cs.SupportsDocuments() {
			return errors.Join(c.Documents.validate(), errors.New("dcr: documents: there is no fetcher"))
		}
		return c.Documents.validate()
	}
	cs.published = newRemote(cs, c.Fetcher, "metadata document", cs.readDocument)
	cs.published.most, cs.published.longest = maxDocument, longestDocument
	cs.keySets = newRemote(cs, c.Fetcher, "key set", readKeys)
	cs.keySets.most, cs.keySets.longest = maxKeySet, longestKeys
	cs.published.waits, cs.keySets.waits = c.Fetching, c.Fetching
	return errors.Join(c.Documents.validate(), cs.pin(c.Documents.Pinned))
}

func newRemote[T any](cs *Clients, fetcher *safefetch.Fetcher, what string, parse func(string, []byte) (T, error)) *remote[T] {
	return &remote[T]{
		fetcher: fetcher, limiter: cs.fetches, now: cs.now, log: cs.log, what: what, parse: parse,
		accept: []string{"application/json", "application/*+json"},
		kept:   newGenerations[published[T]](keptDocuments, keptBytes), failures: newGenerations[failure](maxFailures, maxFailureBytes),
		pending: map[string]*pendingFetch[T]{},
	}
}

// published is a valid document with the headers that determine how long it is cached.
type published[T any] struct {
	value  T
	weight int
	header http.Header
	read   time.Time
	life   time.Duration
}

// pendingFetch is a fetch that has not ended.
type pendingFetch[T any] struct {
	done     chan struct{} // closed when value and err are set
	value    T
	err      error
	kept     published[T] // the cached document, if known is true
	known    bool
	request  safefetch.Request
	networks map[string]bool // networks of the waiting requesters; guarded by remote.mu
}

const (
	// maxHaste bounds the networks whose turns one fetch can take.
	maxHaste  = 16
	hasteStep = 10 * time.Millisecond
)

// get returns the document at an address, fetched at most atMost ago. Concurrent callers
// share one fetch. If ctx ends before the fetch does, the error is [ErrUnreachable], and the
// fetch goes on for later callers.
func (r *remote[T]) get(ctx context.Context, address string, atMost time.Duration) (_ T, err error) {
	var none T
	if value, ok := r.recent(address, atMost); ok {
		return value, nil
	}
	if err := r.recentFailure(address); err != nil {
		return none, err
	}
	if r.waits != nil {
		var end func(error)
		ctx, end = r.waits(ctx)
		defer func() { end(err) }()
	}
	pending := r.join(ctx, address, atMost)
	select {
	case <-pending.done:
		return pending.value, pending.err
	case <-ctx.Done():
		return none, fmt.Errorf("%w: %w", ErrUnreachable, ctx.Err())
	}
}

// recentFailure returns the error of a fetch that failed less than failureTime ago, or nil.
func (r *remote[T]) recentFailure(address string) error {
	t, ok := r.failures.get(address)
	if now := r.now(); !ok || !now.Before(t.until) || t.until.Sub(now) > failureTime {
		return nil
	}
	return t.err
}

func (r *remote[T]) recent(address string, atMost time.Duration) (T, bool) {
	p, ok := r.kept.get(address)
	age := r.now().Sub(p.read)
	// If the clock was set back, the age is negative and the entry is not used.
	return p.value, ok && age >= 0 && age < min(p.life, atMost)
}

// join returns the pending fetch of an address, or starts one. If a fetch ended after the
// caller looked, its document is in the cache by now and is returned.
func (r *remote[T]) join(ctx context.Context, address string, atMost time.Duration) *pendingFetch[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pending := r.pending[address]; pending != nil {
		r.hasten(ctx, pending)
		return pending
	}
	pending := &pendingFetch[T]{done: make(chan struct{}), networks: map[string]bool{networkOf(ctx): true}}
	if value, ok := r.recent(address, atMost); ok {
		pending.value = value
		close(pending.done)
		return pending
	}
	pending.kept, pending.known = r.kept.get(address)
	pending.request = r.request(address, pending.kept.header, pending.known)
	r.pending[address] = pending
	go r.run(context.WithoutCancel(ctx), address, pending) // the fetcher bounds its time
	return pending
}

// hasten lets a pending fetch begin in the turn of another network, because the network that
// started it may have many fetches waiting. It is called with the lock held.
func (r *remote[T]) hasten(ctx context.Context, pending *pendingFetch[T]) {
	network := networkOf(ctx)
	if pending.networks[network] || len(pending.networks) >= maxHaste {
		return
	}
	pending.networks[network] = true
	ctx = context.WithoutCancel(ctx)
	go func() {
		for !r.fetcher.Hasten(ctx, pending.request) { // it is about to begin, or has just ended
			select {
			case <-pending.done:
				return
			case <-time.After(hasteStep):
			}
		}
	}()
}

// networkOf returns the narrowest network of a requester.
func networkOf(ctx context.Context) string { return fair.Networks(fair.Requester(ctx))[0] }

func (r *remote[T]) run(ctx context.Context, address string, pending *pendingFetch[T]) {
	defer func() {
		// No HTTP handler recovers a panic of this goroutine, and an untrusted document must
		// not end the process.
		if p := recover(); p != nil {
			r.log.WarnContext(ctx, r.what+" not read", "url", address, "panic", p)
			pending.err = ErrUnreachable
		}
		r.mu.Lock()
		delete(r.pending, address)
		r.mu.Unlock()
		close(pending.done)
	}()
	pending.value, pending.err = r.read(ctx, address, pending)
}
