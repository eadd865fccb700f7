// Package gateway protects a protocol server in any language: it verifies access tokens, answers
// with challenges, applies a policy to each message, and forwards allowed requests.
//
// A [Gateway] is an http.Handler made of [middleware.Guard] and a reverse proxy. It forwards
// requests to the path of the resource, or below it, and replaces that path by the path of the
// upstream. It forwards streams in both directions without buffering, and bodies byte for byte,
// except for filtered lists and their cursors. The gateway itself serves:
//
//	/.well-known/oauth-protected-resource...   the metadata of the resource (RFC 9728)
//	/healthz                                   200 while it runs, 503 while it stops
//	/verify                                    whether a request is allowed, for the forward authentication of other proxies
//	/jwks.json                                 the public keys for assertions, with [IdentityAssertion]
//
// The gateway refuses, or does not forward:
//
//   - paths that the upstream could read differently: dot segments, empty segments, escaped
//     slashes, in every spelling; methods that the protocol does not use;
//   - the token, and every other credential of the client; headers that name a person,
//     an address or another method, in every spelling that some server treats as equal;
//   - websockets and other upgrades of the connection, trailers, and informational responses (1xx);
//   - a redirect of the upstream to another server, and its 401, on which a client would discard
//     a good token.
//
// The upstream gets the identity of the caller in headers or in a signed assertion. It must be
// reachable through the gateway only. A [Router] is several gateways behind one address.
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
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"gatehouse.example/internal/arrival"
	"gatehouse.example/internal/requestid"
	"gatehouse.example/middleware"
)

// Config configures a [Gateway]. Guard.Resource and Guard.AuthorizationServers are required, and
// Upstream unless VerifyOnly is set.
type Config struct {
	// Guard configures the resource, its authorization servers and the policy. Its BodyTime is
	// not used.
	Guard middleware.Config
	// Upstream is the URL of the protected server. It has no credentials, no query and no
	// fragment.
	Upstream string
	// VerifyOnly makes a gateway that forwards nothing. Set it when another proxy forwards the
	// requests and asks /verify. The gateway then serves /verify, and preflights to the
	// resource. Upstream must be empty.
	VerifyOnly bool
	// Identity selects how the upstream gets the identity of the caller. The default is
	// IdentityHeaders.
	Identity Identity
	// AssertionKey signs assertions. It is on P-256, and required for IdentityAssertion unless
	// AssertionKeys is set.
	AssertionKey *ecdsa.PrivateKey
	// AssertionKeys replaces AssertionKey. Set it to publish several keys, to replace keys while
	// the gateway runs, and to share them between gateways.
	AssertionKeys *AssertionKeys
	// AssertionBinding selects what an assertion is good for. The default is BoundToCaller.
	AssertionBinding AssertionBinding
	// InsecureTrustMCPHeaders lets /verify decide by the headers MCP-Protocol-Version,
	// Mcp-Method and Mcp-Name, because it never gets the message. It is safe only when the
	// upstream refuses every message that differs from its headers, as servers that support
	// only revision 2026-07-28 must. Without it, a token must cover the scopes of all
	// operations.
	InsecureTrustMCPHeaders bool
	// OriginalRequest lets /verify check proofs (Guard.DPoP). It refuses them without it.
	OriginalRequest OriginalRequest
	// Transport connects to the upstream. Set it to use your own timeouts. The default uses no
	// proxy of the environment, follows no redirect, and verifies certificates.
	Transport http.RoundTripper
	// UpstreamTLS has the certificate authorities, the client certificate and the server name for
	// connections to an upstream with https. Set it or Transport. The default are the authorities
	// of the system, and no client certificate.
	UpstreamTLS *tls.Config
	// UpstreamHeaders are credentials of the gateway for the upstream. The default is none.
	UpstreamHeaders *UpstreamHeaders
	// WrapTransport, if set, returns the transport to the upstream to use in place of one, which it
	// calls: Transport or the default. It is for traces, and must not change what is sent but for the
	// headers of the trace.
	WrapTransport func(http.RoundTripper) http.RoundTripper
	// Forwarded, if set, is called for each request that was sent to the upstream, with the status
	// of its answer, 0 if there was none, and the time to its header. It is not called when the
	// client left before the answer. It must not block.
	Forwarded func(status int, took time.Duration)
	// PassHeaders are request headers to forward although their names look as if they carry an
	// identity, such as X-Team-User, Acme-Role or X-Api-Key, which the gateway otherwise drops.
	// Name one only when the upstream does not derive an identity from it, or when clients are
	// meant to send it.
	PassHeaders []string
	// Before is the gateway of the same resource that this one replaces while the process runs. Set it
	// to go on as [middleware.Config.Before] says.
	Before *Gateway
	// BodyTime is the time in which the body of a request must arrive; it grows by a second for
	// each 16 KiB received. The default is 30 seconds.
	BodyTime time.Duration
}

// ErrStopping is the cause with which a server that shuts down cancels the contexts of its
// requests. The gateway then answers requests without a response with 503.
var ErrStopping = errors.New("gateway: the server is stopping")

// The paths that the gateway itself serves.
const (
	// PathHealth serves the state of the gateway. It sends no request to the upstream.
	PathHealth = "/healthz"
	// PathVerify serves the decision whether a request is allowed.
	PathVerify = "/verify"
	// PathKeys serves the JWK set for assertions.
	PathKeys = "/jwks.json"
	// pathWellKnown is the prefix of the metadata of the resource.
	pathWellKnown = "/.well-known"
)

// Gateway protects one resource. It is safe for concurrent use.
type Gateway struct {
	places    places
	guard     *middleware.Guard
	askers    askers
	proofs    *middleware.Proofs            // of all its guards; nil before any was accepted
	budgets   map[string]*middleware.Budget // of its guards, by issuer
	metadata  http.Handler
	protected http.Handler
	verifier  http.Handler
	identity  Identity
	asserter  *asserter              // nil without assertions
	proxy     *httputil.ReverseProxy // nil when nothing is forwarded
	reads     bool                   // whether the guard reads messages
	binds     bool                   // whether assertions are bound to requests
	maxBody   int64                  // of a request to bind to
	headers   *UpstreamHeaders       // nil for none
	trusted   []netip.Prefix
	told      told
	drops     *judged // names of request headers
	bodyTime  time.Duration
	stopping  atomic.Bool
	log       *slog.Logger
}

// New checks the configuration and returns a gateway. The error describes a mistake in the
// configuration. New opens no connection.
func New(c Config) (*Gateway, error) {
	g := &Gateway{
		identity: cmp.Or(c.Identity, IdentityHeaders), bodyTime: cmp.Or(c.BodyTime, arrival.DefaultTime),
		reads: c.Guard.Policy.ReadsMessages(), binds: c.AssertionBinding == BoundToRequest, maxBody: int64(c.Guard.MaxBody),
		headers: c.UpstreamHeaders, trusted: c.Guard.TrustedProxies, told: c.told(),
		log: slog.New(requestid.LogHandler(cmp.Or(c.Guard.Logger, slog.New(slog.DiscardHandler)).Handler())),
	}
	c.Guard.Observe, c.Guard.BodyTime = g.observing(c.Guard.Observe), -1
	if c.Before != nil {
		c.Guard.Before = c.Before.guard
	}
	if g.maxBody <= 0 {
		g.maxBody = defaultMaxBody
	}
	var err error
	if err = shared(&c.Guard, c.Before); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.proofs, g.budgets = c.Guard.DPoP.Proofs, sharedBudgets(&c.Guard, c.Before)
	if g.guard, err = middleware.New(c.Guard); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.metadata = g.guard.Metadata()
	if g.places, err = newPlaces(c.Guard.Resource, c.Upstream); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	passes, err := newPassing(c.PassHeaders)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.drops = newJudged(passes.drops)
	if err := errors.Join(g.places.free(), g.identity.validate(), c.forwards(), c.AssertionBinding.validate(&c), c.toUpstream(), c.OriginalRequest.validate(len(c.Guard.TrustedProxies) > 0)); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if g.identity == IdentityAssertion {
		if g.asserter, err = newAsserter(&c); err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
	}
	if g.verifier, err = g.newVerifier(c); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.protected = g.guard.Protect(http.HandlerFunc(g.forward))
	if !c.VerifyOnly {
		g.proxy = g.newProxy(c.transport())
	}
	return g, nil
}

// forwards returns an error unless there is an upstream exactly when the gateway forwards
// requests.
func (c *Config) forwards() error {
	switch {
	case c.Upstream == "" && !c.VerifyOnly:
		return errors.New("there is no upstream")
	case c.Upstream != "" && c.VerifyOnly:
		return errors.New("there is an upstream, and nothing is forwarded to it")
	}
	return nil
}

// free returns an error for a resource at a path that the gateway itself serves.
func (p places) free() error {
	path := plainPath(p.public.parts)
	for _, own := range []string{PathHealth, PathVerify, PathKeys, pathWellKnown} {
		if path == own || strings.HasPrefix(path, own+"/") {
			return fmt.Errorf("resource %s: the gateway itself answers at %s", p.resource, own)
		}
	}
	return nil
}

// MetadataPaths returns the paths of the metadata of the resource.
func (g *Gateway) MetadataPaths() []string { return g.guard.MetadataPaths() }

// Stop makes /healthz answer 503, so that load balancers send no new requests.
func (g *Gateway) Stop() { g.stopping.Store(true) }

// forwarded are the methods that reach the upstream. The guard answers OPTIONS.
var forwarded = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = requestid.Begin(w, r)
	r, body := arrival.Bound(w, r, g.bodyTime)
	if why, ok := refusedMethod(r); ok {
		g.refuse(w, r, why)
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

// enter passes requests to the resource to the guard. With Config.VerifyOnly it does so for
// preflights only, which other proxies cannot answer.
func (g *Gateway) enter(w http.ResponseWriter, r *http.Request, parts []segment, body *arrival.Body) {
	rest, ok := g.places.public.rest(parts)
	switch {
	case !ok, g.proxy == nil && r.Method != http.MethodOptions:
		g.refuse(w, r, refusal{status: http.StatusNotFound, description: "There is nothing here."})
	case !slices.Contains(forwarded, r.Method):
		g.refuse(w, r, notAllowed(forwarded))
	case asksForWebsocket(r):
		g.refuse(w, r, noWebsockets)
	default:
		v := &visit{rest: rest, body: body, streams: !g.reads && !g.binds}
		g.protected.ServeHTTP(w, v.begin(r))
	}
}

// health serves the state of the gateway, but not that of the upstream, which has probes of its
// own.
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
