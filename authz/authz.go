// Package authz implements an OAuth 2.1 authorization server for servers of the context
// protocol, with sign-in, consent and client registration.
//
// It implements the code grant with PKCE (OAuth 2.1, RFC 7636), refresh token rotation,
// resource indicators (RFC 8707), JWT access tokens (RFC 9068), revocation (RFC 7009),
// introspection (RFC 7662), server metadata (RFC 8414), the iss parameter (RFC 9207) and
// dynamic registration (RFC 7591, in package dcr).
//
// Every request passes the same stages. A form filter parses it once and refuses malformed
// parameters. The rules of this package decide about the client, its redirect URI, PKCE,
// resources and scopes. The engine (authz/internal/engine) runs the grant. This package
// writes the answer. Browser routes have sessions, CSRF protection and a
// Content-Security-Policy, and no CORS. API routes have CORS and no cookies.
//
// The server refuses any grant type except the code grant and its refresh, PKCE methods other
// than S256, a redirect before the redirect URI is proven, a token for a resource that is not
// configured, and every request that needs the store while the store does not answer.
//
//	server, err := authz.New(ctx, authz.Config{
//		Issuer:    "https://auth.example.com",
//		Store:     store,
//		Resources: []authz.Resource{{URI: "https://notes.example.com/mcp", Name: "Notes"}},
//	})
//	...
//	go server.Run(ctx)
//	front := &http.Server{
//		Handler:           middleware.CloseUnclear(server),
//		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second,
//		IdleTimeout:       2 * time.Minute, MaxHeaderBytes: 32 << 10,
//	}
//	front.Serve(listener)
//
// To read client metadata documents, client keys by reference and logos, set
// [Config.Fetcher], a fetcher of package safefetch.
//
// The embedding program owns the listener and bounds what a connection may cost: the timeouts
// and sizes above, and the number of connections. middleware.CloseUnclear must wrap
// everything that the listener serves: it closes a connection after a request whose end two
// HTTP parsers could find at different places (RFC 9112 section 6.1).
package authz

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"gatehouse.example/authz/internal/engine"
	"gatehouse.example/authz/internal/people"
	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
)

// Server is the authorization server as an http.Handler. It is safe for concurrent use.
//
// Inside, a Server is one configuration of the server. [Server.Reload] makes another one over the
// same state ([lasting]). Exported methods act for the latest one; a request stays with the one with
// which it began.
type Server struct {
	*lasting
	cfg           Config
	resources     *resourceWatch
	unfilledRules map[string]bool // groups and people of whom the log has said that nobody is that; guarded by the watch
	rulesUnread   bool            // the log has said that they cannot be read; guarded by the watch
	urls          endpoints
	engine        *engine.Engine
	people        *people.Directory
	clients       *dcr.Clients
	pages         *templates.Set
	pagePolicy    []string // their Content-Security-Policy, the value of the header
	egress        *egress  // nil: the public web is assumed to be reachable
	cookies       cookies
	providers     providers
	router        http.Handler
	registering   *registrationLimiter // nil: no limit
}

// New returns a Server. The error lists every mistake in the configuration. The first server
// of an issuer creates the signing keys in the store.
func New(ctx context.Context, cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := prepare(cfg, nil)
	if err != nil {
		return nil, err
	}
	if s.lasting, err = newLasting(ctx, cfg, s.keyChanged); err != nil {
		return nil, err
	}
	if err := s.configure(ctx, nil); err != nil {
		return nil, err
	}
	s.latest.Store(s)
	return s, nil
}

// prepare returns a Server without what needs the store. before is the configuration that it
// replaces, nil for the first one.
func prepare(cfg Config, before *Server) (*Server, error) {
	s := &Server{cfg: cfg, urls: endpointsOf(cfg.Issuer)}
	s.cookies = cookiesOf(s.urls.base)
	s.cfg.Pages.LogoPath = s.path("/pages/logo") + "?v=" + s.cfg.Pages.LogoTag()
	var err error
	if s.pages, err = s.cfg.Pages.Pages(); err != nil {
		return nil, fmt.Errorf("authz: %w", err)
	}
	s.pagePolicy = []string{s.pages.ContentSecurityPolicy()}
	s.providers, err = newProviders(cfg, before)
	return s, err
}

// configure completes what prepare returned, and reads the store.
func (s *Server) configure(ctx context.Context, before *Server) (err error) {
	cfg := s.cfg
	if s.resources, err = watchResources(ctx, cfg); err != nil {
		return fmt.Errorf("authz: resources: %w", err)
	}
	s.people = newDirectory(cfg, s.providers)
	if err := errors.Join(s.reportRules(ctx, s.resources.current.Load()), s.reportGroupsTwice(ctx)); err != nil {
		return err
	}
	s.resources.changed = s.rulesOfChanged
	s.registering = newRegistrationLimiter(cfg, s.registrations, s.sawLimit)
	s.engine = engine.New(engine.Config{Store: cfg.Store, Keys: s.keys, Now: cfg.Now, Signing: s.signing})
	s.clients, err = dcr.New(dcr.Config{
		Before: clientsBefore(before),
		Store:  cfg.Store, Endpoint: s.urls.register, KnownScopes: s.knownScopes, Now: cfg.Now, Logger: cfg.Logger,
		Policy: cfg.RegistrationPolicy, StatementIssuers: cfg.StatementIssuers, Static: cfg.Clients,
		RequireInitialToken: cfg.Registration == RegistrationToken, Admit: s.registering.admit, WrongToken: s.wrongToken, Refused: s.sawRefusal,
		OnRegister: s.clientRegistered, OnChange: s.clientChanged, OnRemove: s.clientRemoved,
		UnusedFor: cfg.ClientUnused, IdleFor: cfg.ClientIdle, Documents: cfg.Documents, Fetcher: cfg.Fetcher, Fetching: s.fetching(),
	})
	if err != nil {
		return fmt.Errorf("authz: %w", err)
	}
	s.egress = s.newEgress().succeeding(before)
	router, err := s.routes()
	if err != nil {
		return err
	}
	s.router = s.observed(s.withRecovery(router))
	return nil
}

// clientsBefore returns the clients whose caches and limits go on, nil for none.
func clientsBefore(before *Server) *dcr.Clients {
	if before == nil {
		return nil
	}
	return before.clients
}

// ServeHTTP answers every endpoint below the issuer's path, the well-known documents and
// /healthz.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.latest.Load().router.ServeHTTP(w, r)
}

// Ready returns nil if the server can serve requests, and otherwise the reason why not. An
// error that wraps [storage.ErrForged] means that, in the last five minutes, the server read
// a record that no server of this issuer wrote. An error that wraps [storage.ErrFull] means
// that the store has no room left. While the store is only short of room
// ([storage.Store.Room]), the server is ready, because only the registration of new clients
// is refused.
func (s *Server) Ready(ctx context.Context) error {
	if err := s.alarm.recent(); err != nil {
		return err
	}
	if err := s.cfg.Store.Ping(ctx); err != nil {
		return err
	}
	if s.cfg.Store.Room() == storage.RoomNone {
		return fmt.Errorf("authz: %w: %w", storage.ErrUnavailable, storage.ErrFull)
	}
	return nil
}

// endpoints holds the absolute URLs of the server: the issuer followed by a path.
type endpoints struct {
	base                                      *url.URL
	authorize, login, consent, logout, script string
	token, register, revoke, introspect, jwks string
}

func endpointsOf(issuer string) endpoints {
	base, _ := url.Parse(issuer) // validated by Config
	return endpoints{
		base:      base,
		authorize: issuer + "/authorize", login: issuer + "/login", consent: issuer + "/consent", logout: issuer + "/logout",
		script: issuer + "/passkey.js",
		token:  issuer + "/token", register: issuer + "/register", revoke: issuer + "/revoke",
		introspect: issuer + "/introspect", jwks: issuer + "/jwks.json",
	}
}

// knownScopes returns the scopes of all resources, for registrations.
func (s *Server) knownScopes(ctx context.Context) map[string]bool { return s.resources.take(ctx).known }

// document returns the server metadata (RFC 8414 section 2). It lists exactly the endpoints
// and features that are enabled, and of resources and scopes the first [maxListed]; documents
// says whether it offers client metadata documents.
func (s *Server) document(resources *resourceSet, documents bool) metadata.AuthorizationServer {
	methods := []string{metadata.AuthMethodNone, metadata.AuthMethodBasic, metadata.AuthMethodPost, metadata.AuthMethodPrivateKeyJWT}
	doc := metadata.AuthorizationServer{
		Issuer:                            s.cfg.Issuer,
		AuthorizationEndpoint:             s.urls.authorize,
		TokenEndpoint:                     s.urls.token,
		JWKSURI:                           s.urls.jwks,
		ScopesSupported:                   resources.scopeNames(),
		ResponseTypesSupported:            []string{"code"},
		ResponseModesSupported:            []string{"query"},
		GrantTypesSupported:               []string{metadata.GrantAuthorizationCode, metadata.GrantRefreshToken},
		TokenEndpointAuthMethodsSupported: methods,
		TokenEndpointAuthSigningAlgs:      dcr.AssertionAlgorithms(),
		RevocationEndpoint:                s.urls.revoke,
		RevocationEndpointAuthMethods:     methods,
		RevocationEndpointAuthSigningAlgs: dcr.AssertionAlgorithms(),
		CodeChallengeMethodsSupported:     []string{"S256"},
		AuthorizationResponseIssParameter: true, // RFC 9207 section 3
		ProtectedResources:                resources.uris(),
		ClientIDMetadataDocumentSupported: documents,
	}
	if s.cfg.Registration != RegistrationClosed {
		doc.RegistrationEndpoint = s.urls.register
	}
	if resources.introspect {
		doc.IntrospectionEndpoint = s.urls.introspect
		doc.IntrospectionEndpointAuthMethods = []string{metadata.AuthMethodBasic}
	}
	return doc
}
