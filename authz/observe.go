package authz

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// Observation is one thing that a server did, for metrics ([Config.Observe]). Every value in it is
// of a closed set: nothing in it was chosen by a client, a person or a provider. Fields that an
// observation does not name are zero.
type Observation struct {
	What What
	// Endpoint, Status and Took are those of an [Answered] request. Status is 0 if the connection
	// was cut off before an answer, and Took is the time to its end.
	Endpoint Endpoint
	Status   int
	Took     time.Duration
	// Grant is that of [TokensIssued], and of a [Refused] request to the token endpoint that named
	// one.
	Grant GrantType
	// Code is the error code of a [Refused] request, one of [Codes].
	Code string
	// Method is that of [SignedIn] and [SignInRefused].
	Method SignInMethod
	// Limit is that of [LimitReached].
	Limit Limit
	// Provider is the id of the provider of [ProviderAsked], which has Status and Took as well: those of
	// its answer, to the end of the header.
	Provider string
}

// What is the kind of an [Observation].
type What int

const (
	// Answered is a request of any kind that was answered or cut off.
	Answered What = iota
	// TokensIssued is an answer with tokens. Another observation precedes it when the refresh
	// token was not the current one.
	TokensIssued
	// Refused is a request that got an error code, also on a page or by redirect.
	Refused
	// RefreshRepeated is a refresh token that was used again inside the window, and got the same
	// successor: a client that lost an answer or refreshed twice.
	RefreshRepeated
	// RefreshRecovered is a refresh token whose rotation the store had lost, and restored.
	RefreshRecovered
	// RefreshReused is a refresh token that nobody should hold any more. Its grant was revoked.
	RefreshReused
	// CodeReused is an authorization code that was redeemed before. Its grant was revoked.
	CodeReused
	// SignedIn is a session that began.
	SignedIn
	// SignInRefused is a sign-in with a wrong password, passkey or code, or of a person at a
	// provider who may not come in. Those that had to wait are [Answered] with 429.
	SignInRefused
	// LimitReached is a request that a limit refused. It is [Answered] with 429 too.
	LimitReached
	// ProviderAsked is a request to a provider, for its documents and keys or about a person.
	ProviderAsked
)

// Endpoint is a path of the server below its issuer, with the name of a part in braces for what
// clients choose.
type Endpoint string

const (
	// EndpointMetadata is all paths of the server metadata (RFC 8414, RFC 8615).
	EndpointMetadata Endpoint = "metadata"
	// EndpointOther is every path without a handler.
	EndpointOther Endpoint = "other"
)

// Endpoints returns every value of [Endpoint], also of endpoints that a server does not have with
// its configuration.
func Endpoints() []Endpoint { return slices.Clone(allEndpoints) }

var allEndpoints = []Endpoint{
	EndpointMetadata, EndpointOther, "/", "/healthz", "/jwks.json",
	"/authorize", "/token", "/revoke", "/introspect", "/register", "/register/{id}",
	"/login", "/login/code", "/login/passkey", "/login/{provider}/callback", "/login/{provider}/logout", "/logout",
	"/consent", "/language", "/logo", "/pages/logo", "/passkey.js", "/account/providers",
	accountPath, applicationsPath, endAllPath, rememberedPath, sessionsPath, activityPath,
	passkeysPath, secondFactorPath, passwordPath, invitePath,
}

// GrantType is a grant type of the token endpoint (RFC 6749 section 1.3).
type GrantType string

// The grant types that the server has.
const (
	GrantCode    GrantType = metadata.GrantAuthorizationCode
	GrantRefresh GrantType = metadata.GrantRefreshToken
)

// SignInMethod is how a person signs in.
type SignInMethod string

// The ways to sign in. [SignInCode] is the second factor after a password.
const (
	SignInPassword SignInMethod = methodPassword
	SignInCode     SignInMethod = "code"
	SignInPasskey  SignInMethod = methodPasskey
	SignInProvider SignInMethod = methodProvider
)

// Codes returns every error code that the server sends, those of registration included.
func Codes() []string {
	return []string{
		codeInvalidRequest, codeInvalidClient, codeInvalidGrant, codeInvalidScope, codeInvalidTarget, codeUnauthorizedClient,
		codeUnsupportedGrantType, codeUnsupportedResponse, codeAccessDenied, codeServerError, codeNotFound, codeUnavailable,
		codeLoginRequired, codeConsentRequired, codeInteractionRequired, codeRequestNotSupported, codeURINotSupported, codeRegNotSupported,
		"invalid_redirect_uri", "invalid_client_metadata", "invalid_software_statement", "unapproved_software_statement", "invalid_token",
	}
}

// askedProvider returns a function that reports the requests to a provider, nil if nobody wants to
// know.
func (c Config) askedProvider(id string) func(status int, took time.Duration) {
	if c.Observe == nil {
		return nil
	}
	return func(status int, took time.Duration) {
		c.Observe(Observation{What: ProviderAsked, Provider: id, Status: status, Took: took})
	}
}

// see reports an observation.
func (s *Server) see(o Observation) {
	if s.cfg.Observe != nil {
		s.cfg.Observe(o)
	}
}

// sighting is a request that is observed, and the writer of its answer.
type sighting struct {
	http.ResponseWriter
	endpoint Endpoint
	grant    GrantType
	client   string // that authenticated at the token endpoint, or that asks for authorization
	person   string // whose session it is, or whose grant
	id       string // of the grant that a token or code proved, or that was made
	code     string
	status   int
}

type sightingKey struct{}

// sightingOf returns the sighting of a request, nil if requests are not observed.
func sightingOf(ctx context.Context) *sighting {
	seen, _ := ctx.Value(sightingKey{}).(*sighting)
	return seen
}

// watched reports whether anybody is told what the server does.
func (s *Server) watched() bool {
	return s.cfg.Observe != nil || s.cfg.Audit != nil || s.cfg.Trace.Request != nil || s.cfg.Trace.Part != nil
}

// observed returns a handler that does what [Server.OnBehalf] does, and reports each answer.
func (s *Server) observed(next http.Handler) http.Handler {
	if !s.watched() {
		return s.OnBehalf(next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen, began := &sighting{ResponseWriter: w, endpoint: EndpointOther}, s.cfg.Now()
		ctx, end := s.cfg.Trace.begin(w, r)
		defer func() {
			o := Observation{What: Answered, Endpoint: seen.endpoint, Status: seen.status, Took: s.cfg.Now().Sub(began)}
			s.see(o)
			o.Grant, o.Code = seen.grant, seen.code
			end(o)
		}()
		next.ServeHTTP(seen, r.WithContext(s.onBehalf(context.WithValue(ctx, sightingKey{}, seen), seen, r)))
		seen.status = cmp.Or(seen.status, http.StatusOK)
	})
}

// WriteHeader implements [http.ResponseWriter].
func (s *sighting) WriteHeader(status int) {
	s.ResponseWriter.WriteHeader(status)
	if s.status == 0 && status >= http.StatusOK {
		s.status = status
	}
}

// Write implements [http.ResponseWriter].
func (s *sighting) Write(p []byte) (int, error) {
	s.status = cmp.Or(s.status, http.StatusOK)
	return s.ResponseWriter.Write(p)
}

// Unwrap is for [http.ResponseController].
func (s *sighting) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// named returns a handler that notes the endpoint of a request, by the path of its route. If nobody
// is told, that is next.
func (s *Server) named(path string, next http.Handler) http.Handler {
	if !s.watched() {
		return next
	}
	endpoint := s.endpointOf(path)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seen := sightingOf(r.Context()); seen != nil {
			seen.endpoint = endpoint
		}
		next.ServeHTTP(w, r)
	})
}

// endpointOf returns the endpoint of a route by the template of its path.
func (s *Server) endpointOf(template string) Endpoint {
	below := Endpoint(strings.TrimPrefix(template, strings.TrimSuffix(s.urls.base.Path, "/")))
	switch {
	case strings.Contains(template, "/.well-known/"):
		return EndpointMetadata
	case below == "" || below == "/":
		return "/"
	case slices.Contains(allEndpoints, below):
		return below
	}
	return EndpointOther
}

// sawRefusal reports a refused request.
func (s *Server) sawRefusal(r *http.Request, code string) {
	f := fact{kind: audit.Refused, code: code}
	if seen := sightingOf(r.Context()); seen != nil {
		f.how, f.client, f.person, f.grant, seen.code = string(seen.endpoint), seen.client, seen.person, seen.id, code
	}
	s.happened(r.Context(), f)
}

// sawGrant notes the grant type that a request to the token endpoint names.
func sawGrant(r *http.Request, grant string) {
	if seen := sightingOf(r.Context()); seen != nil {
		seen.grant = GrantType(grant)
	}
}

// sawClient notes the client of a request: one that authenticated, or that exists and asks for
// authorization.
func sawClient(ctx context.Context, id string) {
	if seen := sightingOf(ctx); seen != nil {
		seen.client = id
	}
}

// sawPerson notes the person whose session a request has.
func sawPerson(ctx context.Context, subject string) {
	if seen := sightingOf(ctx); seen != nil {
		seen.person = subject
	}
}

// sawGrantOf notes the grant of a request. Call it when its code or token proved it, not before:
// anybody can name a grant.
func sawGrantOf(ctx context.Context, g storage.Grant) {
	if seen := sightingOf(ctx); seen != nil {
		seen.id, seen.person = g.ID, g.Subject
	}
}

// PasswordsWaiting returns how many sign-ins wait for a place to have a password checked.
func (s *Server) PasswordsWaiting() int { return s.passwords.queue.Waiting() }
