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

// Introspection configures token introspection at one issuer (RFC 7662). If a token cannot be
// looked up, the request is refused with 503, and never with 401.
//
// A response must have "active", the subject ("sub"), the client ("client_id"), this resource
// in the audience ("aud") and the expiry ("exp") of the token. RFC 7662 makes all but "active"
// optional; the guard refuses a token whose response lacks one of them.
type Introspection struct {
	// Endpoint is the URL of the introspection endpoint: https, or http on loopback if the
	// issuer is there too. The default is the endpoint in the metadata of the issuer. For the
	// profile GitHub it is the URL of the API: https://api.github.com unless it is set to that of
	// an enterprise, such as https://github.example.com/api/v3. For Google it is the URL of
	// tokeninfo.
	Endpoint string
	// ClientID and ClientSecret authenticate this resource server at the endpoint, with HTTP
	// Basic. For the profile GitHub they are those of the application there; Google needs none.
	ClientID, ClientSecret string
	// Opaque accepts tokens that are not JWTs, for which the response alone decides. At most
	// one issuer may have it; the guard looks up every token there that is not a JWT of another
	// issuer. Without it, a token must be a valid JWT, and the lookup finds out whether it was
	// revoked.
	Opaque bool
	// Fresh is how long the guard uses a response: a revoked token is refused after this time at
	// the latest. Set it shorter for faster revocation, longer for fewer requests to the
	// issuer. The default is 10 s; for the profiles Google and GitHub 5 minutes, and the maximum an
	// hour.
	Fresh time.Duration
	// PerHour is how many tokens are looked up in an hour, a fiftieth of them at once, for the
	// profiles Google and GitHub alone. A quarter is for tokens that were not valid before, so that
	// invented tokens take nothing from people who are at work; what is above gets 503 with
	// Retry-After. The default is 4000, because GitHub allows an application 5000. Set it lower
	// when several processes share an application.
	PerHour int
}

const (
	defaultFresh = 10 * time.Second
	// maxLookups is the maximum number of concurrent lookups at an issuer.
	maxLookups = 64
	// maxInactive is the maximum number of inactive tokens in the cache of an issuer.
	maxInactive = 4096
	// endpointAge is how long the endpoint from the metadata of an issuer is used.
	endpointAge = 5 * time.Minute
	// warnPause is the minimum time between log lines about an endpoint that fails.
	warnPause = time.Second
)

// errIntrospection means that a token cannot be looked up at the moment.
var errIntrospection = errors.New("the token cannot be looked up at its issuer")

// String returns the configuration without the secret.
func (i Introspection) String() string {
	return fmt.Sprintf("{%s %s %t %s}", i.Endpoint, i.ClientID, i.Opaque, i.Fresh)
}

// GoString returns the configuration without the secret, for %#v.
func (i Introspection) GoString() string { return "middleware.Introspection" + i.String() }

// LogValue returns the configuration without the secret, for logs.
func (i Introspection) LogValue() slog.Value { return slog.StringValue(i.String()) }

// validIntrospection finds mistakes in [Config.Introspection].
func validIntrospection(asked map[string]Introspection, issuers []Issuer) error {
	var errs []error
	var opaque []string
	errs = append(errs, unasked(asked, issuers))
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
		errs = append(errs, fmt.Errorf("introspection: at most one issuer may have opaque tokens, not %s", strings.Join(opaque, " and ")))
	}
	return errors.Join(errs...)
}

func (i Introspection) validate(issuer string, issuers []Issuer) error {
	of := slices.IndexFunc(issuers, func(one Issuer) bool { return one.URL == issuer })
	switch {
	case of < 0:
		return errors.New("it is not one of the authorization servers")
	case issuers[of].Profile.asksProvider():
		return i.validProvider(&issuers[of])
	case i.PerHour != 0:
		return errors.New("PerHour is for the profiles Google and GitHub alone")
	case !issuers[of].asInRFC9068():
		// The members of a response are those of RFC 7662, and its scopes narrow those of the token.
		return errors.New("only tokens with the claims of RFC 9068 can be looked up: leave out its Profile, Type, ClientClaim and ScopeClaim")
	case i.ClientID == "" || i.ClientSecret == "":
		return errors.New("the endpoint needs a client id and a secret (RFC 7662 section 2.1)")
	case i.Fresh < 0:
		return errors.New("the time for which answers are fresh is below zero")
	case i.Endpoint != "":
		return validAddress(issuer, i.Endpoint)
	}
	return nil
}

// introspector looks up tokens for one resource at one issuer, and caches the responses. It has
// separate caches for active and inactive tokens, so that invented tokens cannot evict valid
// ones.
type introspector struct {
	Introspection
	issuer   *trusted
	inactive *memory[*lookup]
	active   *memory[*lookup]

	mu      sync.Mutex
	lookups map[digest]*lookup // in progress
	warned  time.Time
	budget  *budget // of questions to a provider without an introspection endpoint; else nil

	watch   Hook
	largest int // response that is kept for [Token.Claims], in bytes
}

// lookup is the introspection of one token. Its other fields do not change once done is closed.
type lookup struct {
	done   chan struct{}
	asked  time.Time
	answer answer
	err    error // a challenge for a token that is not valid
}

func newIntrospector(c Introspection, from *trusted, size, largest int) *introspector {
	if c.Fresh == 0 {
		c.Fresh = from.rules.profile.fresh()
	}
	if size < 1 {
		size = defaultCachedTokens // responses are cached even if verified tokens are not
	}
	return &introspector{
		Introspection: c, issuer: from, lookups: make(map[digest]*lookup),
		largest: largest, active: newMemory[*lookup](size), inactive: newMemory[*lookup](maxInactive),
		budget: newBudget(c, from.rules.profile, size),
	}
}

// ask returns the response of the issuer about a valid token, and the time until which it may
// be used. The error is a [challenge] when the token is not valid, and wraps errIntrospection
// when the token cannot be looked up. Concurrent calls for one token share a lookup, which goes
// on when some of them are cancelled.
func (i *introspector) ask(ctx context.Context, token string) (*answer, time.Time, error) {
	l := i.lookup(ctx, i.id(token), token)
	select {
	case <-l.done:
		return &l.answer, l.asked.Add(i.Fresh), l.err
	case <-ctx.Done():
		return nil, time.Time{}, i.fault(ctx.Err())
	}
}

// id identifies a lookup. It covers the issuer, the resource and the token, each with its length
// before it, so that different lists of them have different ids.
func (i *introspector) id(token string) digest {
	h := sha256.New()
	for _, part := range [...]string{i.issuer.name, i.issuer.accepted[0], token} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return digest(h.Sum(nil))
}

// lookup returns a cached lookup, joins the one in progress, or starts one.
func (i *introspector) lookup(ctx context.Context, id digest, token string) *lookup {
	if l := i.cached(id); l != nil {
		return l
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if l := i.lookups[id]; l != nil {
		return l
	}
	if l := i.cached(id); l != nil {
		return l // it was added while this request waited for the lock
	}
	l := &lookup{done: make(chan struct{}), asked: i.issuer.now()}
	if len(i.lookups) >= maxLookups {
		l.err = i.fault(fmt.Errorf("%d lookups are in progress", len(i.lookups)))
		i.warn(l.err)
		close(l.done)
		return l
	}
	if err := i.budget.take(id, l.asked); err != nil {
		l.err = i.fault(err)
		i.warn(l.err)
		close(l.done)
		return l
	}
	i.lookups[id] = l
	go i.resolve(i.watch.outlived(ctx), l, id, token)
	return l
}

func (i *introspector) cached(id digest) *lookup {
	now := i.issuer.now()
	if l := i.active.get(id, now); l != nil {
		return *l
	}
	if l := i.inactive.get(id, now); l != nil {
		return *l
	}
	return nil
}

// resolve runs a lookup and caches the response. It does not cache failures.
func (i *introspector) resolve(ctx context.Context, l *lookup, id digest, token string) {
	l.answer, l.err = i.watchedRequest(ctx, token)
	if l.err == nil {
		l.err = l.answer.check(i.issuer, i.issuer.now())
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	now, until := i.issuer.now(), l.asked.Add(i.Fresh)
	switch {
	case l.err == nil:
		if end := l.answer.Expiry.Add(i.issuer.rules.leeway); end.Before(until) {
			until = end
		}
		i.active.put(id, l, now, until)
		i.budget.know(id, now)
	case isRefusal(l.err):
		i.inactive.put(id, l, now, until)
	default:
		i.budget.pause(l.err, now)
		l.err = i.fault(l.err)
		i.warn(l.err)
	}
	delete(i.lookups, id)
	close(l.done)
}

// withRequestID returns a context with the id of a request, which does not end with the
// request.
func withRequestID(ctx context.Context) context.Context {
	return requestid.With(context.Background(), requestid.From(ctx))
}

// request sends an introspection request.
func (i *introspector) request(ctx context.Context, token string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, totalTimeout)
	defer cancel()
	if i.budget != nil {
		return i.askProvider(ctx, token)
	}
	address, err := i.address(ctx)
	if err != nil {
		return answer{}, err
	}
	body, err := i.issuer.fetch.introspect(ctx, address, i.ClientID, i.ClientSecret, token)
	if err != nil {
		return answer{}, err
	}
	a, err := i.issuer.rules.readAnswer(body)
	if a.Active && !strings.Contains(unescapedJSON(body), token) { // no handler gets the token back
		a.keep(string(body), i.largest)
	}
	return a, err
}

func (i *introspector) fault(cause error) error {
	return fmt.Errorf("middleware: issuer %s: %w: %w", i.issuer.name, errIntrospection, cause)
}

// warn logs a failure, at most once per warnPause. The caller holds i.mu.
func (i *introspector) warn(err error) {
	now := i.issuer.now()
	if now.Before(i.warned) {
		return
	}
	i.warned = now.Add(warnPause)
	i.issuer.log.Warn("cannot look up tokens at their issuer", slog.String("issuer", i.issuer.name), slog.Any("error", err))
}
