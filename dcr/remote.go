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

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/internal/safefetch"
	"gatehouse.example/storage"
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
// that are good. Errors and documents that are not good are not kept (draft section 5.2).
// Nothing is used beyond its time, whatever became of its host.
type remote[T any] struct {
	fetcher *safefetch.Fetcher
	budget  *budget
	now     func() time.Time
	log     *slog.Logger
	what    string // for the log
	accept  []string
	most    int64         // bytes of a document
	longest time.Duration // that a document counts
	parse   func(address string, body []byte) (T, error)

	kept *generations[published[T]]
	mu   sync.Mutex
	open map[string]*reading[T]
}

const (
	// keptDocuments and keptBytes bound one generation of documents of a kind.
	keptDocuments = 1024
	keptBytes     = 2 << 20
)

// reads prepares the registry to read what clients publish.
func (r *Registry) reads(c Config) error {
	r.documents = c.Documents
	if c.Fetcher == nil {
		if r.SupportsDocuments() {
			return errors.Join(c.Documents.validate(), errors.New("dcr: documents: there is no fetcher"))
		}
		return c.Documents.validate()
	}
	spent := newBudget(r.now)
	r.published = &remote[storage.Client]{
		fetcher: c.Fetcher, budget: spent, now: r.now, log: r.log, what: "metadata document", parse: r.readDocument,
		accept: []string{"application/json", "application/*+json"}, most: maxDocument, longest: longestDocument,
		kept: newGenerations[published[storage.Client]](keptDocuments, keptBytes), open: map[string]*reading[storage.Client]{},
	}
	r.keySets = &remote[[]jose.JSONWebKey]{
		fetcher: c.Fetcher, budget: spent, now: r.now, log: r.log, what: "key set", parse: readKeys,
		accept: []string{"application/json", "application/*+json"}, most: maxKeySet, longest: longestKeys,
		kept: newGenerations[published[[]jose.JSONWebKey]](keptDocuments, keptBytes), open: map[string]*reading[[]jose.JSONWebKey]{},
	}
	return c.Documents.validate()
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
	done  chan struct{} // closed when value and err are there
	value T
	err   error
}

// get returns the document at an address. One that was read longer ago than atMost is
// read again. Of many callers one reads, also if they come one after the other.
func (r *remote[T]) get(ctx context.Context, address string, atMost time.Duration) (T, error) {
	if value, ok := r.recent(address, atMost); ok {
		return value, nil
	}
	under := r.board(ctx, address, atMost)
	select {
	case <-under.done:
		return under.value, under.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("dcr: %w", ctx.Err())
	}
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
		return under
	}
	under := &reading[T]{done: make(chan struct{})}
	if value, ok := r.recent(address, atMost); ok {
		under.value = value
		close(under.done)
		return under
	}
	r.open[address] = under
	go r.run(context.WithoutCancel(ctx), address, under) // the fetcher bounds its time
	return under
}

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
	under.value, under.err = r.read(ctx, address)
}

// read fetches a document, or makes sure that the one that is kept is still right.
func (r *remote[T]) read(ctx context.Context, address string) (T, error) {
	kept, known := r.kept.get(address)
	purse := hostOf(address)
	if known {
		purse = address // others' attempts in vain do not keep a good document from being read again
	}
	if !r.budget.take(purse) {
		return r.failed(ctx, address, ErrUnreachable, "too many attempts in vain at "+purse)
	}
	response, err := r.fetcher.Get(ctx, r.request(address, kept.header))
	if err != nil {
		return r.failed(ctx, address, verdict(err), safefetch.Reason(err))
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
			return r.failed(ctx, address, err, err.Error())
		}
	}
	r.budget.giveBack(purse)
	kept.read, kept.life = r.now(), lifetime(kept.header, r.longest)
	r.kept.put(address, kept, kept.weight)
	return kept.value, nil
}

// request asks for a document, conditionally if there is one already.
func (r *remote[T]) request(address string, kept http.Header) safefetch.Request {
	request := safefetch.Request{URL: address, Accept: r.accept, MaxBytes: r.most}
	if tag := kept.Get("Etag"); fieldValue(tag) {
		request.IfNoneMatch = tag
	}
	if since := kept.Get("Last-Modified"); fieldValue(since) {
		request.IfModifiedSince = since
	}
	return request
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
