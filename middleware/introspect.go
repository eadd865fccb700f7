package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"gatehouse.example/internal/fair"
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
	// invented tokens take nothing from people who are at work, and no network may have more of it
	// than it leaves to others; what is above gets 503 with Retry-After. The default is 4000, because GitHub allows an application 5000. Set it lower
	// when several processes share an application.
	PerHour int
	// Budget counts the questions. Set it to share one between guards that ask for one application.
	// The default is that of Config.Before, or one of this guard. It has no effect where questions
	// are not counted.
	Budget *Budget
}

const (
	defaultFresh = 10 * time.Second
	// maxLookups is the maximum number of concurrent lookups at an issuer, and maxTurns that of requests
	// that wait for one of their own.
	maxLookups = 64
	maxTurns   = 256
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
	places   *fair.Queue // for lookups

	mu      sync.Mutex
	lookups map[digest]*lookup // in progress, or waiting for a turn
	warned  time.Time
	budget  *budget // of questions to a provider without an introspection endpoint; else nil

	watch   Hook
	largest int // response that is kept for [Token.Claims], in bytes
}

func newIntrospector(c Introspection, from *trusted, size, largest int) *introspector {
	if c.Fresh == 0 {
		c.Fresh = from.rules.profile.fresh()
	}
	if size < 1 {
		size = defaultCachedTokens // responses are cached even if verified tokens are not
	}
	return &introspector{
		Introspection: c, issuer: from, lookups: make(map[digest]*lookup), places: fair.NewQueue(maxLookups, maxTurns),
		largest: largest, active: newMemory[*lookup](size), inactive: newMemory[*lookup](maxInactive),
		budget: newBudget(c, from.rules.profile),
	}
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
