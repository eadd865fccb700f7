package middleware

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"gatehouse.example/internal/requestid"
)

// Introspection is how tokens of one issuer are looked up there (RFC 7662). What cannot be
// looked up is not let through: the answer is 503, and never 401.
//
// An answer counts if it says who the token speaks for ("sub"), which client has it
// ("client_id"), that it is meant for this resource ("aud"), and until when it is good
// ("exp"). RFC 7662 lets issuers leave all of that out; a token about which it is not said
// is refused.
type Introspection struct {
	// Endpoint is https, or http on loopback for an issuer that is there itself. The
	// default is what the metadata of the issuer says.
	Endpoint string
	// ClientID and ClientSecret authenticate this resource server there, with HTTP Basic.
	ClientID, ClientSecret string
	// Opaque says that tokens need not be JWTs, and that the answer alone decides. At most
	// one issuer may have it, who is asked about every token that does not say to be a JWT
	// of another one. Otherwise a token is a JWT that is right in itself, and is looked up
	// only to learn whether it was revoked.
	Opaque bool
	// Fresh is how long an answer is believed: a token that is revoked ends so much later at
	// most. The default is 10 s.
	Fresh time.Duration
}

const (
	defaultFresh = 10 * time.Second
	// maxQuestions bounds what is asked at the same time, by issuer.
	maxQuestions = 64
	// maxInactive bounds how many tokens are remembered not to be good, by issuer.
	maxInactive = 4096
	// endpointAge is how long the metadata of an issuer is believed about its endpoint.
	endpointAge = 5 * time.Minute
	// warnPause keeps the log readable while an endpoint is down.
	warnPause = time.Second
)

// errIntrospection says that an issuer does not tell about a token at the moment.
var errIntrospection = errors.New("the issuer cannot be asked about the token")

// String keeps the secret out of whatever prints a configuration.
func (i Introspection) String() string {
	return fmt.Sprintf("{%s %s %t %s}", i.Endpoint, i.ClientID, i.Opaque, i.Fresh)
}

// GoString does the same for %#v.
func (i Introspection) GoString() string { return "middleware.Introspection" + i.String() }

// LogValue does the same for logs.
func (i Introspection) LogValue() slog.Value { return slog.StringValue(i.String()) }

// validIntrospection finds the mistakes in what is said about introspection.
func validIntrospection(asked map[string]Introspection, issuers []string) error {
	var errs []error
	var opaque []string
	for _, issuer := range slices.Sorted(maps.Keys(asked)) {
		i := asked[issuer]
		if i.Opaque {
			opaque = append(opaque, issuer)
		}
		if err := i.validate(issuer, issuers); err != nil {
			errs = append(errs, fmt.Errorf("introspection: %s: %w", issuer, err))
		}
	}
	if len(opaque) > 1 {
		errs = append(errs, fmt.Errorf("introspection: the tokens of one issuer at most may be opaque, not those of %s", strings.Join(opaque, " and ")))
	}
	return errors.Join(errs...)
}

func (i Introspection) validate(issuer string, issuers []string) error {
	switch {
	case !slices.Contains(issuers, issuer):
		return errors.New("it is none of the authorization servers")
	case i.ClientID == "" || i.ClientSecret == "":
		return errors.New("the endpoint wants a client id and a secret (RFC 7662 section 2.1)")
	case i.Fresh < 0:
		return errors.New("answers cannot be fresh for less than no time")
	case i.Endpoint != "":
		return validAddress(issuer, i.Endpoint)
	}
	return nil
}

// introspector asks one issuer about tokens for one resource, and remembers what it said.
// Tokens that are not good are remembered apart, so that strangers who invent some cannot
// push good ones out.
type introspector struct {
	Introspection
	issuer   *issuer
	accepted []string // what "aud" may say, as in Guard
	inactive *memory[*question]
	active   *memory[*question]

	mu     sync.Mutex
	asking map[digest]*question
	warned time.Time

	endpoint endpoint
}

// question is what is asked about one token. Once done is closed, the rest stands.
type question struct {
	done   chan struct{}
	asked  time.Time
	answer answer
	err    error // a challenge for a token that is not good
}

func newIntrospector(c Introspection, from *issuer, accepted []string, size int) *introspector {
	if c.Fresh == 0 {
		c.Fresh = defaultFresh
	}
	if size < 1 {
		size = defaultCachedTokens // answers are remembered also where verified tokens are not
	}
	return &introspector{
		Introspection: c, issuer: from, accepted: accepted, asking: make(map[digest]*question),
		active: newMemory[*question](size), inactive: newMemory[*question](maxInactive),
	}
}

// ask returns what the issuer says about a token that is good, and until when that is
// believed. The error is a [challenge] when the token is not good, and wraps
// errIntrospection when that cannot be known. One question serves all who want to know,
// and goes on when some of them give up.
func (i *introspector) ask(ctx context.Context, token string) (*answer, time.Time, error) {
	q := i.question(ctx, i.id(token), token)
	select {
	case <-q.done:
		return &q.answer, q.asked.Add(i.Fresh), q.err
	case <-ctx.Done():
		return nil, time.Time{}, i.fault(ctx.Err())
	}
}

// id names a question: by the issuer, the resource and the token, each with its length
// before it, so that no two lists of them are one.
func (i *introspector) id(token string) digest {
	h := sha256.New()
	for _, part := range [...]string{i.issuer.name, i.accepted[0], token} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return digest(h.Sum(nil))
}

// question finds an answer that is remembered, joins who asks already, or begins to ask.
func (i *introspector) question(ctx context.Context, id digest, token string) *question {
	if q := i.remembered(id); q != nil {
		return q
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if q := i.asking[id]; q != nil {
		return q
	}
	if q := i.remembered(id); q != nil {
		return q // it came while this request waited for the lock
	}
	q := &question{done: make(chan struct{}), asked: i.issuer.now()}
	if len(i.asking) >= maxQuestions {
		q.err = i.fault(fmt.Errorf("%d questions are in progress", len(i.asking)))
		i.warn(q.err)
		close(q.done)
		return q
	}
	i.asking[id] = q
	go i.resolve(about(ctx), q, id, token)
	return q
}

func (i *introspector) remembered(id digest) *question {
	now := i.issuer.now()
	if q := i.active.get(id, now); q != nil {
		return *q
	}
	if q := i.inactive.get(id, now); q != nil {
		return *q
	}
	return nil
}

// resolve asks, and remembers the answer. What went wrong is not remembered.
func (i *introspector) resolve(ctx context.Context, q *question, id digest, token string) {
	q.answer, q.err = i.request(ctx, token)
	if q.err == nil {
		q.err = q.answer.check(i.issuer.name, i.accepted, i.issuer.now())
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	now, until := i.issuer.now(), q.asked.Add(i.Fresh)
	switch {
	case q.err == nil:
		if end := q.answer.Expiry.Add(leeway); end.Before(until) {
			until = end
		}
		i.active.put(id, q, now, until)
	case isRefusal(q.err):
		i.inactive.put(id, q, now, until)
	default:
		q.err = i.fault(q.err)
		i.warn(q.err)
	}
	delete(i.asking, id)
	close(q.done)
}

// about returns a context that does not end with that of a request, and is about it.
func about(ctx context.Context) context.Context {
	return requestid.With(context.Background(), requestid.From(ctx))
}

// request sends the question. It goes on when the request that it is for ends.
func (i *introspector) request(ctx context.Context, token string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, totalTimeout)
	defer cancel()
	address, err := i.address(ctx)
	if err != nil {
		return answer{}, err
	}
	body, err := i.issuer.fetch.introspect(ctx, address, i.ClientID, i.ClientSecret, token)
	if err != nil {
		return answer{}, err
	}
	return readAnswer(body)
}

func (i *introspector) fault(cause error) error {
	return fmt.Errorf("middleware: issuer %s: %w: %w", i.issuer.name, errIntrospection, cause)
}

// warn logs trouble, and not each time. Its caller holds the lock.
func (i *introspector) warn(err error) {
	now := i.issuer.now()
	if now.Before(i.warned) {
		return
	}
	i.warned = now.Add(warnPause)
	i.issuer.log.Warn("cannot look up tokens at their issuer", slog.String("issuer", i.issuer.name), slog.Any("error", err))
}

// endpoint is where the metadata of an issuer says that tokens are looked up.
type endpoint struct {
	mu    sync.Mutex
	found string
	err   error     // why nothing was found
	again time.Time // the metadata is not read before
}

// address returns the endpoint. One that was found serves on while the metadata cannot be
// read.
func (i *introspector) address(ctx context.Context) (string, error) {
	if i.Endpoint != "" {
		return i.Endpoint, nil
	}
	e := &i.endpoint
	e.mu.Lock()
	defer e.mu.Unlock()
	if i.issuer.now().Before(e.again) {
		return e.found, e.err
	}
	found, err := i.issuer.fetch.introspectionEndpoint(ctx, i.issuer.name, i.issuer.urls)
	now := i.issuer.now()
	switch {
	case err == nil:
		e.found, e.err, e.again = found, nil, now.Add(endpointAge)
	case e.found == "":
		e.err, e.again = err, now.Add(failurePause)
	default:
		e.again = now.Add(stalePause)
	}
	return e.found, e.err
}
