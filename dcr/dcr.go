// Package dcr registers the clients of an authorization server, finds and authenticates
// them, and removes them.
//
// A client registers itself with [Clients.Register] (RFC 7591) and reads, changes and
// deletes its registration with [Clients.Configuration] (RFC 7592), or an operator
// configures it, or its client_id is the address of its metadata document
// (draft-ietf-oauth-client-id-metadata-document, if [Documents] allow it).
// [Clients.Resolve] finds each by its client_id, and [Clients.Authenticate] checks the
// assertions of clients that have keys (RFC 7523).
//
// Client metadata is an untrusted self-assertion (RFC 7591 section 5). A value that cannot
// be used is refused with an error that names the member, so that a developer can correct
// it. A value that is not supported is left out, and the response lists what was
// registered. Nothing is stored for a refused request, and secrets are stored as SHA-256
// only.
//
// These are refused: more than 64 KiB, ambiguous JSON, more than ten redirect URIs, a
// redirect URI that [metadata.ParseRedirect] or the [Policy] does not accept, the implicit
// and password grants, response types other than code, private or symmetric keys,
// dpop_bound_access_tokens, and software statements of issuers that are not trusted.
//
// Known members without an effect are left out of the response: jwks and jwks_uri are
// always checked, but registered for private_key_jwt only.
//
// The number of registrations is bounded: [Clients.Tend] bounds the clients that have never
// been used, and [Clients.Reap] removes clients that are no longer used.
//
//	clients, err := dcr.New(dcr.Config{
//		Store:    store,
//		Endpoint: "https://auth.example.com/register",
//		Scopes:   []string{"notes:read", "offline_access"},
//	})
//	...
//	mux.Handle("/register", clients.Register())
//	mux.Handle("/register/{id}", clients.Configuration())
//	client, err := clients.Resolve(ctx, "the client_id of a request")
package dcr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/internal/fair"
	"gatehouse.example/message/icon"
	"gatehouse.example/metadata"
	"gatehouse.example/safefetch"
	"gatehouse.example/storage"
)

// Config configures [Clients]. Store and Endpoint are required.
type Config struct {
	// Store keeps registered clients.
	Store *storage.Store
	// Endpoint is the absolute URL of the client registration endpoint (RFC 7591
	// section 3). The client configuration endpoint of a client (RFC 7592 section 2) is
	// the same URL followed by "/" and its client_id.
	Endpoint string
	// Policy restricts what clients may register. Set it when not every redirect URI, scope
	// or grant type is acceptable.
	Policy Policy
	// Scopes are the scopes of this server, including offline_access if it is accepted.
	// Other scopes are left out of registrations.
	Scopes []string
	// KnownScopes, if set, is asked for the scopes at each registration in place of Scopes. Set
	// it where scopes come and go while the server runs. The result is not changed.
	KnownScopes func(context.Context) map[string]bool
	// Static are the clients that an operator configured. Their Source is filled in.
	Static []storage.Client
	// RequireInitialToken makes registration require an initial access token (RFC 7591
	// section 3) from [MintInitialToken]. Set it when only invited clients may register;
	// without it, anyone may.
	RequireInitialToken bool
	// StatementIssuers are the issuers whose software statements (RFC 7591 section 2.3) are
	// accepted. Without any, every statement is refused.
	StatementIssuers []StatementIssuer
	// Admit, if set, decides whether a client may be registered, or replaced by its owner,
	// after every other check and before anything is stored or spent. weight is the size of
	// the client in bytes; [safefetch.Requester] returns the address of the requester.
	// A [TooMany] error is answered with 429, every other error with 503. undo is called
	// when the registration fails afterwards, so that failures do not count. Set it to limit
	// registrations.
	Admit func(ctx context.Context, c storage.Client, weight int64) (undo func(), err error)
	// WrongToken, if set, is called for each request whose initial or registration access
	// token is refused; id is the last segment of its path. A positive wait turns the
	// refusal into 429. It is not called for valid tokens. Set it to slow down guessing.
	WrongToken func(r *http.Request, id string) (wait time.Duration)
	// UnusedFor is the time until a registered client expires if it is never used. Default 7
	// days.
	UnusedFor time.Duration
	// IdleFor is the time from its last use until a registered client without a live grant is
	// removed. Default 90 days.
	IdleFor time.Duration
	// MaxUnused bounds the number of clients that have never been used, and
	// MaxUnusedPerSoftware the number of those with the same software. The oldest are
	// removed first. Defaults: 100 000 and 1000.
	MaxUnused, MaxUnusedPerSoftware int
	// Documents selects the client ID metadata documents that are accepted. The zero value
	// accepts none.
	Documents Documents
	// Fetcher reads metadata documents, key sets by reference and logos. It is required for
	// Documents; without it a client with a jwks_uri cannot authenticate, and no logo is
	// shown.
	Fetcher *safefetch.Fetcher
	// OnRegister, if set, is called after a client was stored. It must not keep the
	// client's slices. Set it to count registrations.
	OnRegister func(context.Context, storage.Client)
	// OnChange and OnRemove, if set, are called after a client changed its registration, and after
	// it was removed, by itself or because it was idle; then ctx is that of no request. They must
	// not keep the client's slices.
	OnChange, OnRemove func(context.Context, storage.Client)
	// Before are the clients of the configuration that this one replaces, over the same store and
	// with the same fetcher. Set it to go on with their limits, caches and noted work; documents
	// that were read under another policy are read again.
	Before *Clients
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Refused, if set, is called with the error code of each refused or failed request to the
	// registration endpoints, for metrics.
	Refused func(r *http.Request, code string)
	// Fetching, if set, is called when a request begins to wait for the document or the keys of a
	// client, and the function that it returns when they are there or not, for traces. What is in a
	// cache is not waited for.
	Fetching func(ctx context.Context) (context.Context, func(error))
	// Logger receives one line per registration and per refusal. Default: slog.Default.
	Logger *slog.Logger
}

// Clients registers, finds and authenticates the clients of an authorization server. It is
// safe for concurrent use.
type Clients struct {
	store      *storage.Store
	endpoint   string
	policy     Policy
	scopes     func(context.Context) map[string]bool
	static     map[string]storage.Client
	cache      cache
	documents  Documents
	pinned     map[string]storage.Client // by client_id
	published  *remote[storage.Client]
	keySets    *remote[[]jose.JSONWebKey]
	fetches    *fair.Limiter // bounds fetches of documents and keys
	logos      *icon.Album   // nil if no logos are shown
	onRegister func(context.Context, storage.Client)
	onChange   func(context.Context, storage.Client)
	onRemove   func(context.Context, storage.Client)
	now        func() time.Time
	log        *slog.Logger

	tokenRequired bool
	statements    statements
	admit         func(ctx context.Context, c storage.Client, weight int64) (func(), error)
	wrongToken    func(r *http.Request, id string) time.Duration
	refused       func(r *http.Request, code string)
	life          lifetimes
	unused        *unusedLists
}

// orNothing returns f, or a function that does nothing if f is nil.
func orNothing(f func(context.Context, storage.Client)) func(context.Context, storage.Client) {
	if f == nil {
		return func(context.Context, storage.Client) {}
	}
	return f
}

// New returns the clients that c configures. Its error joins every mistake in c.
func New(c Config) (*Clients, error) {
	clients := &Clients{
		store: c.Store, endpoint: c.Endpoint, policy: c.Policy, scopes: c.KnownScopes, cache: newCache(),
		now: c.Now, log: cmp.Or(c.Logger, slog.Default()), unused: &unusedLists{},
	}
	clients.tokenRequired, clients.admit, clients.wrongToken, clients.life = c.RequireInitialToken, c.Admit, c.WrongToken, lifetimesOf(c)
	clients.refused = c.Refused
	if clients.now == nil {
		clients.now = time.Now
	}
	clients.fetches = fair.NewLimiter(clients.now)
	if c.Fetcher != nil {
		clients.logos = icon.NewAlbum(c.Fetcher, clients.now)
	}
	if clients.admit == nil {
		clients.admit = func(context.Context, storage.Client, int64) (func(), error) { return func() {}, nil }
	}
	clients.onRegister, clients.onChange, clients.onRemove = orNothing(c.OnRegister), orNothing(c.OnChange), orNothing(c.OnRemove)
	if clients.scopes == nil {
		scopes := map[string]bool{}
		for _, scope := range c.Scopes {
			scopes[scope] = true
		}
		clients.scopes = func(context.Context) map[string]bool { return scopes }
	}
	errs := []error{validEndpoint(c.Endpoint), clients.setUpFetching(c)}
	if c.Store == nil {
		errs = append(errs, errors.New("dcr: no store"))
	}
	errs = append(errs, c.Policy.validate(), clients.life.validate())
	var err, invalid error
	clients.static, err = staticClients(c.Static)
	clients.statements, invalid = newStatements(c.StatementIssuers)
	if err := errors.Join(append(errs, err, invalid)...); err != nil {
		return nil, err
	}
	clients.goOn(c.Before)
	return clients, nil
}

// validEndpoint returns an error unless raw is an absolute URL to which "/" and an id can be
// appended.
func validEndpoint(raw string) error {
	fail := func(why string) error { return fmt.Errorf("dcr: endpoint %q: %s", raw, why) }
	if _, err := metadata.Canonical(raw); err != nil {
		return fail("it is not an absolute URL")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return fail("it is not a URL")
	case u.RawQuery != "" || u.ForceQuery || strings.HasSuffix(raw, "/"):
		return fail("it must not have a query or end in a slash")
	case u.Scheme != "https" && !metadata.IsLoopbackHost(u.Hostname()):
		// RFC 7591 section 3: the endpoint MUST be protected by TLS.
		return fail("it must be https unless the host is loopback")
	}
	return nil
}
