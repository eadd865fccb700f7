// Package middleware guards an http.Handler as an OAuth 2.1 resource server of the
// context protocol.
//
// A [Guard] calls the handler for requests with an access token that a configured
// authorization server issued for exactly this resource: a JWT of RFC 9068, or of the [Profile] of
// its issuer, signed with a key that the issuer publishes, or a token that the issuer reports as
// active (RFC 7662, [Introspection]). It answers every other request with a challenge, from which a client
// learns how to get a token (RFC 6750 section 3, RFC 9728 section 5.1). Clients find the
// authorization server through the metadata document that [Guard.Metadata] serves (RFC 9728).
//
// A guard refuses:
//
//   - a token anywhere but in one Authorization header: two headers, a token in the
//     query, a token in a form body (which is never read);
//   - tokens for another audience, from another issuer, expired, not yet valid, without
//     evidence that they are access tokens (in RFC 9068 the type at+jwt), signed with an
//     algorithm or key that is not the issuer's;
//   - requests from web pages that reach a loopback listener through a forged Host or a
//     foreign Origin;
//   - tokens that are bound to a key or a certificate, unless [Config] accepts them and the
//     sender shows that it has it (RFC 9449, RFC 8705);
//   - session ids, ids of events and cursors that were given to another caller, and the
//     transport of revision 2024-11-05, whose sessions cannot be bound to a person.
//
// The handler does not get the token: it is neither in the request nor in its context, so no
// handler can pass it on to another server (requirement R-TOK-6). When the issuer cannot be
// reached, and its keys are not known yet or introspection is needed, the answer is 503 with
// Retry-After and never 401, because a client discards its token on 401.
//
// To protect a server:
//
//	guard, err := middleware.New(middleware.Config{
//		Resource:             "https://notes.example.com/mcp",
//		AuthorizationServers: []string{"https://auth.example.com"},
//		Scopes:               []string{"notes:read", "notes:write"},
//		Policy: middleware.Policy{Tools: map[string][]string{
//			"list_notes": {"notes:read"},
//			"add_note":   {"notes:write"},
//		}},
//	})
//	if err != nil {
//		return err
//	}
//	mux := http.NewServeMux()
//	mux.Handle("/mcp", guard.Protect(notes))
//	for _, path := range guard.MetadataPaths() {
//		mux.Handle(path, guard.Metadata())
//	}
//
// The guard does not control your listener: set the timeouts of http.Server and
// MaxHeaderBytes, bound the number of connections, and put [CloseUnclear] around everything
// that the listener serves.
package middleware

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/internal/arrival"
	"gatehouse.example/metadata"
)

// Guard protects handlers. It is safe for concurrent use and has nothing to close.
type Guard struct {
	resource  string // canonical
	origin    string // of the resource
	hostname  string // of the resource, without the port
	host      string // of the resource, without a port that URLs need not name
	place     string // host and path of the resource, as in placeOf
	loopback  bool   // whether the resource is on loopback
	metaURL   string
	metaPaths []string
	document  http.Handler
	origins   []string
	proxies   proxies
	start     challenge           // for a request without credentials
	scopes    []string            // of Config.Scopes: those that clients can get
	ruled     []string            // the scopes that no client gets by asking for them, whatever its issuer
	issuers   map[string]*trusted // by "iss"
	plain     bool                // whether the claims of all issuers have the names of RFC 9068
	opaque    *trusted            // the issuer of opaque tokens; nil without one
	kinds     []*tokenKind        // of tokens that verifiers of the user verify
	verified  *memory[verified]
	policy    *policy
	optional  bool
	ends      bool     // whether streams end with the token
	handles   *Handles // for sealing cursors
	dpop      *dpop    // nil when proofs are not accepted
	proofs    *Proofs  // that were used; nil before any was accepted
	sessions  *Handles // for binding sessions and events; nil when they are not bound
	maxBody   int
	maxToken  int
	bodyTime  time.Duration
	now       func() time.Time
	watch     func(*http.Request, Event)
	parts     PartHook
	audit     func(audit.Event)

	certificates certificates
	log          *slog.Logger
}

// New checks the configuration and returns a guard. The error describes every mistake in the
// configuration. New opens no connection: the guard fetches the keys of an issuer when the
// first of its tokens arrives.
func New(c Config) (*Guard, error) {
	doc := metadata.Resource{
		Resource:               c.Resource,
		AuthorizationServers:   c.announced(),
		ScopesSupported:        without(c.Scopes, c.ruledByAll()),
		BearerMethodsSupported: []string{"header"},
		ResourceName:           c.ResourceName,
		ResourceDocumentation:  c.ResourceDocumentation,

		DPoPSigningAlgValuesSupported:         c.DPoP.announced(),
		DPoPBoundAccessTokensRequired:         c.DPoP.Use == DPoPRequired,
		TLSClientCertificateBoundAccessTokens: c.ClientCertificates.accepted(),
	}
	if err := errors.Join(c.validDocument(doc), c.validate()); err != nil {
		return nil, fmt.Errorf("middleware: config: %w", err)
	}
	issuers, err := c.trustedIssuers()
	if err != nil {
		return nil, fmt.Errorf("middleware: config: %w", err)
	}
	g := &Guard{
		origins: slices.Clone(c.AllowedOrigins), proxies: slices.Clone(c.TrustedProxies),
		policy: newPolicy(c.Policy), scopes: slices.Clone(c.Scopes), optional: c.Optional, ends: c.EndStreams,
		maxToken: cmp.Or(c.MaxToken, defaultMaxToken),
		maxBody:  c.MaxBody, bodyTime: cmp.Or(c.BodyTime, arrival.DefaultTime), now: issuers.now, watch: c.Observe, parts: c.ObservePart, audit: c.Audit, log: c.logger(),
	}
	g.ruled = c.ruledByAll()
	if g.maxBody <= 0 {
		g.maxBody = defaultMaxBody
	}
	if err := g.describe(doc, c.ChallengeScopes); err != nil {
		return nil, fmt.Errorf("middleware: config: %w", err)
	}
	g.bindHandles(&c)
	g.proofs = g.usedProofs(&c)
	g.dpop, g.certificates = g.newDPoP(c.DPoP), newCertificates(c.ClientCertificates, g.proxies)
	g.trust(&c, issuers)
	g.goOn(c.Before)
	return g, nil
}

// describe sets the fields that follow from the metadata document.
func (g *Guard) describe(doc metadata.Resource, challengeScopes []string) (err error) {
	if g.document, err = metadata.Serve(doc); err != nil {
		return err
	}
	if g.resource, err = metadata.Canonical(doc.Resource); err != nil {
		return err
	}
	if g.metaURL, err = metadata.ResourceMetadataURL(doc.Resource); err != nil {
		return err
	}
	if g.metaPaths, err = metadata.ResourceMetadataPaths(doc.Resource); err != nil {
		return err
	}
	u, err := url.Parse(g.resource)
	if err != nil {
		return err
	}
	g.origin = u.Scheme + "://" + u.Host
	g.hostname = u.Hostname()
	g.host, g.place = withoutPort(u.Host), placeOf(u.Host, u.EscapedPath())
	g.loopback = metadata.IsLoopbackHost(g.hostname)
	if challengeScopes == nil {
		challengeScopes = doc.ScopesSupported
	}
	g.start = challenge{status: http.StatusUnauthorized, scopes: g.askable(challengeScopes),
		description: "This resource needs an access token."}
	return nil
}
