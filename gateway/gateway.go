// Package gateway guards a protocol server in any language: it verifies access tokens,
// answers with challenges, decides by what a message calls, and forwards what is allowed.
//
// A [Gateway] is an http.Handler made of [middleware.Guard] and a reverse proxy. Requests to
// the path of the resource, or below it, go to the upstream, whose path takes the place of
// the resource's; streams pass in both directions as they come, and bodies byte for byte, but for lists
// that are filtered and their cursors.
// The gateway itself answers at:
//
//	/.well-known/oauth-protected-resource...   the metadata of the resource (RFC 9728)
//	/healthz                                   200 while it runs, 503 while it stops
//	/verify                                    whether a request may pass, for the forward authentication of other proxies
//	/jwks.json                                 the key that verifies assertions, with [IdentityAssertion]
//
// What it refuses, or keeps from the upstream:
//
//   - paths that the upstream could read differently: dot segments, empty segments, escaped
//     slashes, whatever their spelling; methods that the protocol has no use for;
//   - the token, and every other credential of the client; headers that name a person,
//     an address or another method, in every spelling that some server takes for the same;
//   - upgrades of the connection, trailers, and answers before the answer (1xx);
//   - a redirect of the upstream to somewhere else, and its 401: a client would throw a good
//     token away.
//
// The upstream learns who calls from headers or from a signed assertion, and must be
// reachable through the gateway alone.
//
//	gate, err := gateway.New(gateway.Config{
//		Guard: middleware.Config{
//			Resource:             "https://notes.example.com/mcp",
//			AuthorizationServers: []string{"https://auth.example.com"},
//			Scopes:               []string{"notes:read", "notes:write"},
//			Policy:               middleware.Policy{Tools: map[string][]string{"list_notes": {"notes:read"}, "add_note": {"notes:write"}}},
//		},
//		Upstream: "http://127.0.0.1:9000/mcp",
//	})
package gateway

import (
	"cmp"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"gatehouse.example/internal/arrival"
	"gatehouse.example/internal/requestid"
	"gatehouse.example/middleware"
)

// Config says what is guarded and where requests go. Guard.Resource,
// Guard.AuthorizationServers and Upstream are required.
type Config struct {
	// Guard is the resource, whose tokens are accepted, and what each operation needs.
	Guard middleware.Config
	// Upstream is the URL of the server that is guarded. It has no credentials, no query and
	// no fragment.
	Upstream string
	// VerifyOnly is for a gateway that forwards nothing. It answers at /verify, and preflights
	// to the resource. Upstream must be empty then.
	VerifyOnly bool
	// Identity is how the upstream learns who calls. The default is IdentityHeaders.
	Identity Identity
	// AssertionKey signs assertions, and is required for IdentityAssertion. It is on P-256.
	AssertionKey *ecdsa.PrivateKey
	// InsecureTrustMCPHeaders lets /verify decide by the headers MCP-Protocol-Version,
	// Mcp-Method and Mcp-Name, because it never sees the message. It is safe only when the
	// server behind refuses every message that does not say the same as its headers, as
	// servers that speak nothing but revision 2026-07-28 must. Otherwise a token must cover
	// all that any operation needs.
	InsecureTrustMCPHeaders bool
	// Transport connects to the upstream. The default uses no proxy of the environment,
	// follows no redirect, and verifies certificates.
	Transport http.RoundTripper
	// PassHeaders are headers of clients that reach the upstream although their names have the
	// shape of those by which servers tell who calls, such as X-Team-User, Acme-Role or
	// X-Api-Key: without it they are dropped. Name one only when the upstream does not believe
	// it, or when clients are meant to send it.
	PassHeaders []string
	// BodyTime is how long the body of a request may take to arrive; a large one has a second
	// more for each 16 KiB that have arrived. The default is 30 seconds. That of Guard counts
	// for nothing.
	BodyTime time.Duration
}

// ErrStopping is the cause with which a server that is about to end cancels the contexts of
// its requests, so that those without an answer get one that says so.
var ErrStopping = errors.New("gateway: the server is stopping")

// The paths of the gateway itself.
const (
	// PathHealth answers whether the gateway runs. It does not ask the upstream.
	PathHealth = "/healthz"
	// PathVerify answers whether a request may pass.
	PathVerify = "/verify"
	// PathKeys is the JWK set that verifies assertions.
	PathKeys = "/jwks.json"
	// pathWellKnown is above the metadata of the resource.
	pathWellKnown = "/.well-known"
)

// Gateway guards one resource. It is safe for concurrent use.
type Gateway struct {
	places    places
	guard     *middleware.Guard
	metadata  http.Handler
	protected http.Handler
	verifier  http.Handler
	identity  Identity
	asserter  *asserter              // nil without assertions
	proxy     *httputil.ReverseProxy // nil when nothing is forwarded
	reads     bool                   // whether the guard reads messages
	passes    passing
	bodyTime  time.Duration
	stopping  atomic.Bool
	log       *slog.Logger
}

// New checks the configuration and returns a gateway. It opens no connection.
func New(c Config) (*Gateway, error) {
	g := &Gateway{
		identity: cmp.Or(c.Identity, IdentityHeaders), bodyTime: cmp.Or(c.BodyTime, arrival.DefaultTime),
		reads: c.Guard.Policy.ReadsMessages(), log: slog.New(requestid.LogHandler(cmp.Or(c.Guard.Logger, slog.New(slog.DiscardHandler)).Handler())),
	}
	c.Guard.Observe, c.Guard.BodyTime = g.observing(c.Guard.Observe), -1
	var err error
	if g.guard, err = middleware.New(c.Guard); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.metadata = g.guard.Metadata()
	if g.places, err = newPlaces(c.Guard.Resource, c.Upstream); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if g.passes, err = newPassing(c.PassHeaders); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if err := errors.Join(g.places.free(), g.identity.validate(), c.forwards()); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if g.identity == IdentityAssertion {
		audience, now := cmp.Or(c.Upstream, c.Guard.Resource), c.Guard.Now
		if now == nil {
			now = time.Now
		}
		if g.asserter, err = newAsserter(c.AssertionKey, c.Guard.Resource, audience, now); err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
	}
	if g.verifier, err = g.newVerifier(c); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.protected = g.guard.Protect(http.HandlerFunc(g.forward))
	if !c.VerifyOnly {
		g.proxy = g.newProxy(c.Transport)
	}
	return g, nil
}

// forwards wants an upstream exactly when something is forwarded.
func (c *Config) forwards() error {
	switch {
	case c.Upstream == "" && !c.VerifyOnly:
		return errors.New("there is no upstream")
	case c.Upstream != "" && c.VerifyOnly:
		return errors.New("there is an upstream, and nothing is forwarded to it")
	}
	return nil
}

// free wants a resource that does not lie where the gateway answers itself.
func (p places) free() error {
	path := plainPath(p.public.parts)
	for _, own := range []string{PathHealth, PathVerify, PathKeys, pathWellKnown} {
		if path == own || strings.HasPrefix(path, own+"/") {
			return fmt.Errorf("resource %s: the gateway itself answers at %s", p.resource, own)
		}
	}
	return nil
}

// MetadataPaths are the paths at which the metadata of the resource is found.
func (g *Gateway) MetadataPaths() []string { return g.guard.MetadataPaths() }

// Stop makes /healthz answer 503, so that nobody sends new requests here.
func (g *Gateway) Stop() { g.stopping.Store(true) }

// forwarded are the methods that reach the upstream. The guard answers OPTIONS.
var forwarded = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = requestid.Begin(w, r)
	r, body := arrival.Bound(w, r, g.bodyTime)
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		g.refuse(w, r, notAllowed(forwarded))
		return
	}
	parts, err := segments(r.URL.EscapedPath())
	if err != nil {
		g.refuse(w, r, refusal{status: http.StatusBadRequest, description: "The path could be read in more than one way."})
		return
	}
	switch path := plainPath(parts); {
	case path == PathVerify:
		g.verifier.ServeHTTP(w, r)
	case path == PathHealth:
		g.health(w, r)
	case path == PathKeys && g.asserter != nil:
		g.asserter.keys.ServeHTTP(w, r)
	case path == pathWellKnown || strings.HasPrefix(path, pathWellKnown+"/"):
		g.metadata.ServeHTTP(w, r)
	default:
		g.enter(w, r, parts, body)
	}
}

// enter lets requests to the resource through the guard. Where nothing is forwarded, that is
// for preflights alone: other proxies do not know what the guard allows.
func (g *Gateway) enter(w http.ResponseWriter, r *http.Request, parts []segment, body *arrival.Body) {
	rest, ok := g.places.public.rest(parts)
	switch {
	case !ok, g.proxy == nil && r.Method != http.MethodOptions:
		g.refuse(w, r, refusal{status: http.StatusNotFound, description: "There is nothing here."})
	case !slices.Contains(forwarded, r.Method):
		g.refuse(w, r, notAllowed(forwarded))
	default:
		v := &visit{rest: rest, body: body, streams: !g.reads}
		g.protected.ServeHTTP(w, v.begin(r))
	}
}

// health says whether the gateway runs. What runs behind it has probes of its own.
func (g *Gateway) health(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		g.refuse(w, r, notAllowed([]string{http.MethodGet, http.MethodHead}))
	case g.stopping.Load():
		g.refuse(w, r, refusal{status: http.StatusServiceUnavailable, description: "The gateway is stopping."})
	default:
		write(w, http.StatusOK, map[string]string{"status": "ok"})
	}
}
