// Package dcr is how clients become known to an authorization server.
//
// A client registers itself with [Clients.Register] (RFC 7591) and reads, changes and
// deletes what was registered at [Clients.Configuration] (RFC 7592), or an operator
// configures it, or its client_id is the address of a document in which it describes itself
// (draft-ietf-oauth-client-id-metadata-document, if [Documents] allow it).
// [Clients.Resolve] finds each by its client_id, and [Clients.Authenticate] checks the
// assertions of those that have keys (RFC 7523).
//
// Everything that a client says about itself is an untrusted self-assertion (RFC 7591
// section 5). What cannot be used is refused with an error that names the member, so
// that a person can mend it; what is merely not supported is left out, and the response
// says what was registered. Nothing is stored for a refused request, and secrets are
// stored as SHA-256 only.
//
// What is refused: more than 64 KiB, JSON that two readers could understand
// differently, more than ten redirect URIs, a redirect URI that [metadata.ParseRedirect]
// or the [Policy] does not accept, the implicit and password grants, response types
// other than code, private or symmetric keys, a promise to always prove possession of a
// key, and software statements of strangers.
//
// Known members that have no effect here are left out of the response: jwks and
// jwks_uri are checked, and registered for private_key_jwt only.
//
// Registrations do not pile up: [Clients.Tend] bounds those that nobody uses, and
// [Clients.Reap] removes those that nobody uses any more.
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

// Config configures a [Registry]. Store and Endpoint are required.
type Config struct {
	// Store keeps the clients that register.
	Store *storage.Store
	// Endpoint is the absolute URL of the client registration endpoint (RFC 7591
	// section 3). The client configuration endpoint of a client (RFC 7592 section 2) is
	// the same URL followed by "/" and its client_id.
	Endpoint string
	// Policy narrows what may be registered.
	Policy Policy
	// Scopes are the scopes that exist here, offline_access among them if it is
	// accepted. Others are left out of what is registered.
	Scopes []string
	// Static are the clients that an operator configured. They need no Source.
	Static []storage.Client
	// RequireInitialToken makes registering take an initial access token (RFC 7591
	// section 3) of [MintInitialToken]. Without it anybody may register.
	RequireInitialToken bool
	// StatementIssuers are those whose software statements (RFC 7591 section 2.3) are
	// believed. Without any, every statement is refused.
	StatementIssuers []StatementIssuer
	// Admit, if set, is asked about every client that is about to be registered, or to be
	// replaced by its owner, after everything else was found right and before anything is
	// stored or spent. It hears what the client weighs in bytes; who asks is
	// [safefetch.Requester]. A [TooMany] is answered with 429, every other error with 503. The function that it returns is
	// called when the client was not registered after all, so that a fault counts nothing.
	Admit func(ctx context.Context, c storage.Client, weight int64) (undo func(), err error)
	// WrongToken, if set, is called for each request with an initial or registration access
	// token that is refused, with what its path ends in. A wait turns the refusal into 429.
	// Set it to slow down guessing; a token that is right never comes to it.
	WrongToken func(r *http.Request, id string) (wait time.Duration)
	// UnusedFor is how long a registered client is kept that nobody uses. Default 7 days.
	UnusedFor time.Duration
	// IdleFor is how long a registered client is kept that was used once, and has no live
	// grant any more. Default 90 days.
	IdleFor time.Duration
	// MaxUnused bounds the clients that nobody has used, MaxUnusedPerSoftware those of
	// one software. The oldest make room. Defaults: 100 000 and 1000.
	MaxUnused, MaxUnusedPerSoftware int
	// Documents says which client ID metadata documents are read; the zero value is none.
	Documents Documents
	// Fetcher reads metadata documents, key sets by reference and logos. Documents need
	// it; without it a client with a jwks_uri cannot authenticate, and no logo is shown.
	Fetcher *safefetch.Fetcher
	// OnRegister, if set, is called after a client was stored. It must not keep the
	// client's slices.
	OnRegister func(context.Context, storage.Client)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger gets one line per registration and per refusal. Default: slog.Default.
	Logger *slog.Logger
}

// Clients knows the clients of an authorization server. It is safe for concurrent use.
type Clients struct {
	store      *storage.Store
	endpoint   string
	policy     Policy
	scopes     map[string]bool
	static     map[string]storage.Client
	cache      cache
	documents  Documents
	pinned     map[string]storage.Client // by client_id
	published  *remote[storage.Client]
	keySets    *remote[[]jose.JSONWebKey]
	fetches    *fair.Limiter // of documents and keys that strangers may have fetched
	logos      *icon.Album   // nil: none are shown
	onRegister func(context.Context, storage.Client)
	now        func() time.Time
	log        *slog.Logger

	tokenRequired bool
	statements    statements
	admit         func(ctx context.Context, c storage.Client, weight int64) (func(), error)
	wrongToken    func(r *http.Request, id string) time.Duration
	life          lifetimes
	crowd         crowd
}

// New returns a Registry, or every mistake in the configuration.
func New(c Config) (*Clients, error) {
	r := &Clients{
		store: c.Store, endpoint: c.Endpoint, policy: c.Policy, scopes: map[string]bool{}, cache: newCache(),
		onRegister: c.OnRegister, now: c.Now, log: cmp.Or(c.Logger, slog.Default()),
	}
	r.tokenRequired, r.admit, r.wrongToken, r.life = c.RequireInitialToken, c.Admit, c.WrongToken, lifetimesOf(c)
	if r.now == nil {
		r.now = time.Now
	}
	r.fetches = fair.NewLimiter(r.now)
	if c.Fetcher != nil {
		r.logos = icon.NewAlbum(c.Fetcher, r.now)
	}
	if r.admit == nil {
		r.admit = func(context.Context, storage.Client, int64) (func(), error) { return func() {}, nil }
	}
	if r.onRegister == nil {
		r.onRegister = func(context.Context, storage.Client) {}
	}
	for _, scope := range c.Scopes {
		r.scopes[scope] = true
	}
	errs := []error{validEndpoint(c.Endpoint), r.reads(c)}
	if c.Store == nil {
		errs = append(errs, errors.New("dcr: no store"))
	}
	errs = append(errs, c.Policy.validate(), r.life.validate())
	var err, invalid error
	r.static, err = staticClients(c.Static)
	r.statements, invalid = newStatements(c.StatementIssuers)
	if err := errors.Join(append(errs, err, invalid)...); err != nil {
		return nil, err
	}
	return r, nil
}

// validEndpoint wants an absolute URL that another URL can be made from by appending
// "/" and an id.
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
