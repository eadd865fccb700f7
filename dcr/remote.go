package dcr

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"

	"gatehouse.example/internal/fair"
	"gatehouse.example/safefetch"
)

// ErrUnreachable says that what a client publishes could not be read just now, and on
// purpose not why. Nothing is known about the client then: the answer is to come back
// later, never that the client is not valid.
var ErrUnreachable = errors.New("dcr: what the client publishes about itself cannot be read just now")

// unusable says what is wrong with what a client publishes. It tells nothing but what
// anybody can read at the address.
type unusable struct{ why string }

func (e *unusable) Error() string { return e.why }

// remote reads documents of one kind at addresses that strangers name, and keeps those
// that are good. An address that was read in vain rests for a moment: it is neither asked
// nor waited for. Longer, errors and documents that are not good are not kept (draft section
// 5.2). Nothing is used beyond its time, whatever became of its host.
type remote[T any] struct {
	fetcher *safefetch.Fetcher
	limiter *fair.Limiter
	now     func() time.Time
	log     *slog.Logger
	what    string // for the log
	accept  []string
	most    int64         // bytes of a document
	longest time.Duration // that a document counts
	parse   func(address string, body []byte) (T, error)

	kept  *generations[published[T]]
	tired *generations[rest]
	mu    sync.Mutex
	open  map[string]*reading[T]
}

// rest is why an address was read in vain, and until when it is not read again.
type rest struct {
	err   error
	until time.Time
}

const (
	// restTime is how long an address rests. Whoever mends a document waits no longer.
	restTime = 5 * time.Second
	// restingAddresses and restingBytes bound one generation of those that rest.
	restingAddresses = 4096
	restingBytes     = 1 << 20
	// keptDocuments and keptBytes bound one generation of documents of a kind.
	keptDocuments = 1024
	keptBytes     = 2 << 20
)

// reads prepares the registry to read what clients publish.
func (cs *Clients) reads(c Config) error {
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
	return errors.Join(c.Documents.validate(), cs.pin(c.Documents.Pinned))
}

func newRemote[T any](r *Clients, fetcher *safefetch.Fetcher, what string, parse func(string, []byte) (T, error)) *remote[T] {
	return &remote[T]{
		fetcher: fetcher, limiter: r.fetches, now: r.now, log: r.log, what: what, parse: parse,
		accept: []string{"application/json", "application/*+json"},
		kept:   newGenerations[published[T]](keptDocuments, keptBytes), tired: newGenerations[rest](restingAddresses, restingBytes),
		open: map[string]*reading[T]{},
	}
}

// published is a good document and what its host said about how long it counts.
type published[T any] struct {
	value  T
	weight int
	header http.Header
	read   time.Time
	life   time.Duration
}

// reading is a fetch under way.
type reading[T any] struct {
	done     chan struct{} // closed when value and err are there
	value    T
	err      error
	kept     published[T] // what was read before, if known
	known    bool
	request  safefetch.Request
	networks map[string]bool // of those who wait; guarded by remote.mu
}

const (
	// maxHaste bounds the networks whose turns a reading takes.
	maxHaste  = 16
	hasteStep = 10 * time.Millisecond
)

// get returns the document at an address. One that was read longer ago than atMost is
// read again. Of many callers one reads, also if they come one after the other. A caller
// whose time ends before there is an answer hears [ErrUnreachable], and the reading goes on
// for the next one.
func (r *remote[T]) get(ctx context.Context, address string, atMost time.Duration) (T, error) {
	var none T
	if value, ok := r.recent(address, atMost); ok {
		return value, nil
	}
	if err := r.resting(address); err != nil {
		return none, err
	}
	under := r.board(ctx, address, atMost)
	select {
	case <-under.done:
		return under.value, under.err
	case <-ctx.Done():
		return none, fmt.Errorf("%w: %w", ErrUnreachable, ctx.Err())
	}
}

// resting returns why an address was read in vain a moment ago.
func (r *remote[T]) resting(address string) error {
	t, ok := r.tired.get(address)
	if now := r.now(); !ok || !now.Before(t.until) || t.until.Sub(now) > restTime {
		return nil
	}
	return t.err
}

func (r *remote[T]) recent(address string, atMost time.Duration) (T, bool) {
	p, ok := r.kept.get(address)
	age := r.now().Sub(p.read)
	// An age below zero means that the clock was set back: the entry says nothing.
	return p.value, ok && age >= 0 && age < min(p.life, atMost)
}

// board returns the reading under way, or starts one. Another may have ended since the
// caller looked; it leaves its document before it goes.
func (r *remote[T]) board(ctx context.Context, address string, atMost time.Duration) *reading[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if under := r.open[address]; under != nil {
		r.hasten(ctx, under)
		return under
	}
	under := &reading[T]{done: make(chan struct{}), networks: map[string]bool{networkOf(ctx): true}}
	if value, ok := r.recent(address, atMost); ok {
		under.value = value
		close(under.done)
		return under
	}
	under.kept, under.known = r.kept.get(address)
	under.request = r.request(address, under.kept.header, under.known)
	r.open[address] = under
	go r.run(context.WithoutCancel(ctx), address, under) // the fetcher bounds its time
	return under
}

// hasten lets a reading begin in the turn of another network: whoever asked for a document
// first may have to wait for his own flood. It is called with the lock held.
func (r *remote[T]) hasten(ctx context.Context, under *reading[T]) {
	network := networkOf(ctx)
	if under.networks[network] || len(under.networks) >= maxHaste {
		return
	}
	under.networks[network] = true
	ctx = context.WithoutCancel(ctx)
	go func() {
		for !r.fetcher.Hasten(ctx, under.request) { // it is about to begin, or has just ended
			select {
			case <-under.done:
				return
			case <-time.After(hasteStep):
			}
		}
	}()
}

// networkOf is the narrowest network of a requester.
func networkOf(ctx context.Context) string { return fair.Networks(fair.Requester(ctx))[0] }

func (r *remote[T]) run(ctx context.Context, address string, under *reading[T]) {
	defer func() {
		// No handler is above this goroutine, and what a stranger wrote must not end the
		// process.
		if p := recover(); p != nil {
			r.log.WarnContext(ctx, r.what+" not read", "url", address, "panic", p)
			under.err = ErrUnreachable
		}
		r.mu.Lock()
		delete(r.open, address)
		r.mu.Unlock()
		close(under.done)
	}()
	under.value, under.err = r.read(ctx, address, under)
}

// read fetches a document, or makes sure that the one that is kept is still right.
func (r *remote[T]) read(ctx context.Context, address string, under *reading[T]) (T, error) {
	kept, fetchCost := under.kept, fetchCostOf(ctx, address, under.known)
	if r.limiter.Take(1, fetchCost.all()...) > 0 {
		return r.failed(ctx, address, ErrUnreachable, "too many attempts: at this host in vain, or by this network")
	}
	response, err := r.fetcher.Get(ctx, under.request)
	if errors.Is(err, safefetch.ErrBusy) {
		r.limiter.Return(1, fetchCost.all()...) // nobody was asked
		return r.failed(ctx, address, ErrUnreachable, safefetch.Reason(err))
	}
	if err != nil {
		return r.inVain(ctx, address, verdict(err), safefetch.Reason(err))
	}
	if response.Status == http.StatusNotModified {
		// RFC 9111 section 4.3.4: the header of the answer updates the one that is kept.
		header := kept.header.Clone()
		header.Del("Age")
		maps.Copy(header, response.Header)
		kept.header = header
	} else {
		kept = published[T]{weight: len(response.Body), header: response.Header}
		if kept.value, err = r.parse(address, response.Body); err != nil {
			return r.inVain(ctx, address, err, err.Error())
		}
	}
	r.limiter.Return(1, fetchCost.inVain...)
	kept.read, kept.life = r.now(), lifetime(kept.header, r.longest)
	r.kept.put(address, kept, kept.weight)
	return kept.value, nil
}

// request asks for a document, conditionally and in a lane of its own if there is one
// already: what strangers want to have read for the first time does not hold up the clients
// that are here.
func (r *remote[T]) request(address string, kept http.Header, known bool) safefetch.Request {
	request := safefetch.Request{URL: address, Accept: r.accept, MaxBytes: r.most, Lane: "new"}
	if known {
		request.Lane = "known"
	}
	if tag := kept.Get("Etag"); fieldValue(tag) {
		request.IfNoneMatch = tag
	}
	if since := kept.Get("Last-Modified"); fieldValue(since) {
		request.IfModifiedSince = since
	}
	return request
}

// inVain lets an address rest.
func (r *remote[T]) inVain(ctx context.Context, address string, err error, reason string) (T, error) {
	r.tired.put(address, rest{err, r.now().Add(restTime)}, len(address)+len(err.Error()))
	return r.failed(ctx, address, err, reason)
}

// failed writes down why there is no document.
func (r *remote[T]) failed(ctx context.Context, address string, err error, reason string) (T, error) {
	r.log.WarnContext(ctx, r.what+" not used", "url", address, "reason", reason)
	var none T
	return none, err
}

// verdict tells what will pass from what is wrong with the document. What depends on the
// way to it passes, so that nobody learns from the answer what is behind an address.
func verdict(err error) error {
	var e *safefetch.Error
	if !errors.As(err, &e) {
		return ErrUnreachable
	}
	switch {
	case errors.Is(e, safefetch.ErrStatus) && e.Status < 500 && e.Status != http.StatusTooManyRequests && e.Status != http.StatusRequestTimeout:
		return &unusable{fmt.Sprintf("its host answers with the status %d instead of 200", e.Status)}
	case errors.Is(e, safefetch.ErrMediaType):
		return &unusable{"its host does not say that it is JSON"}
	case errors.Is(e, safefetch.ErrTooLarge):
		return &unusable{"it is too large"}
	case errors.Is(e, safefetch.ErrRequest):
		return &unusable{"its address is not one that is read"}
	}
	return ErrUnreachable
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Hostname()
}

// fieldValue reports what can be sent back as it came.
func fieldValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
