package authz

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/internal/passwords"
	"gatehouse.example/internal/requestid"
	"gatehouse.example/metadata"
	"gatehouse.example/safefetch"
	"gatehouse.example/storage"
)

// Config configures a [Server]. The zero value is refused: there is no issuer, no
// store and no resource to fall back on.
type Config struct {
	// Issuer is the issuer identifier (RFC 8414 section 2), byte for byte as it
	// appears in metadata, in tokens and in the iss parameter. It has no trailing slash
	// and is https unless its host is loopback.
	Issuer string
	// Store keeps all state. It is opened with the same Issuer and with master keys.
	Store *storage.Store
	// Resources are the servers that tokens are issued for; at least one.
	Resources []Resource
	// Registration says who may register clients; the zero value is closed.
	Registration Registration
	// RegistrationPolicy narrows what may be registered, StatementIssuers are those whose
	// software statements are believed.
	RegistrationPolicy dcr.Policy
	StatementIssuers   []dcr.StatementIssuer
	// RegistrationQuota is how many clients of one software may register in an hour from
	// one address, and ten times as many of all software; the networks around an address
	// have twice and four times that. They are weighed as well: 2 KiB for each, and eight
	// times that in all. Changes count like registrations. Default 600; negative means any
	// number. Each process counts for itself.
	RegistrationQuota int
	// ClientUnused is how long a registered client is kept that nobody uses, ClientIdle how
	// long one that was used and has no live grant. Defaults 7 and 90 days, those of dcr.
	ClientUnused, ClientIdle time.Duration
	// Clients are those that are configured here and not in the store.
	Clients []storage.Client
	// AssertionAudience says what client assertions may name as this server; the zero
	// value is [AudienceIssuer].
	AssertionAudience AssertionAudience

	// SigningAlgorithm is that of new signing keys: ES256 (the default), EdDSA or RS256.
	SigningAlgorithm string
	// KeyRotation is how long a key signs before another takes its place. Default 30 days;
	// negative means for ever. It takes a running [Server.Run].
	KeyRotation time.Duration
	// KeyCache is how long others may keep the published keys; a new key is published for
	// twice as long before it signs. Default 5 minutes, at least 1 second. Processes with
	// one store have the same.
	KeyCache time.Duration

	// AccessTokenTTL is how long an access token lives. Default 10 minutes, at most 1 hour. Set it when
	// revoked tokens have to end sooner at resources that do not introspect; clients that refresh
	// five minutes early do so at each call with 6 minutes or less.
	AccessTokenTTL time.Duration
	// CodeTTL is how long an authorization code lives. Default 60 seconds, at most 10 minutes.
	CodeTTL time.Duration
	// RefreshWindow is how long the previous refresh token still gets the same
	// successor. Default 30 seconds; negative means strict rotation, without a window.
	RefreshWindow time.Duration
	// RefreshIdle ends a grant that was not refreshed for so long. Default 30 days.
	RefreshIdle time.Duration
	// RefreshMax ends every grant that long after its code was redeemed. Default 90 days.
	RefreshMax time.Duration

	// Fetcher fetches what clients name: metadata documents, keys, logos. Without one none
	// of them is. Set it where the server may read from the public web, to the one fetcher of
	// the process, so that its bounds count for all that is fetched.
	Fetcher *safefetch.Fetcher
	// Documents says which client ID metadata documents are read; the zero value is none.
	// They take a Fetcher.
	Documents dcr.Documents
	// Egress is how the server notices that it could read none of them; the zero value does
	// not. It takes a running [Server.Run] to be noticed later than at the beginning.
	Egress EgressCheck

	// Catalogue is the URL of pages that list servers, such as those of a registry on the same
	// listener. The page for people at the issuer leads there. Empty for none.
	Catalogue string

	// CheckPassword reports whether a password belongs to a hash of [gatehouse.example/authz/admin.AddUser]; in as many
	// goroutines as there are processors, less one. Default: it is done here, which slows down
	// other requests by some milliseconds. Set it to have it done in another process.
	CheckPassword func(hash, password string) bool

	// TrustedProxies are the addresses of proxies in front of the server: whoever comes
	// through them is told apart by the X-Forwarded-For that they write. Others may write
	// what they like.
	TrustedProxies []netip.Prefix

	// Logger gets one line per event. Default: slog.Default.
	Logger *slog.Logger
	// Now is the clock, Rand the randomness. Defaults: time.Now, crypto/rand.Reader.
	Now  func() time.Time
	Rand io.Reader
}

// Registration is who may register clients at /register (RFC 7591).
type Registration string

const (
	// RegistrationClosed has no registration endpoint.
	RegistrationClosed Registration = "closed"
	// RegistrationToken lets those register who have an initial access token.
	RegistrationToken Registration = "token"
	// RegistrationOpen lets anybody register.
	RegistrationOpen Registration = "open"
)

// AssertionAudience says which audience a client assertion may have (RFC 7523 section 3).
// Whatever it is, an assertion has one audience alone.
type AssertionAudience string

const (
	// AudienceIssuer takes the issuer identifier alone (draft-ietf-oauth-rfc7523bis).
	AudienceIssuer AssertionAudience = "issuer"
	// AudienceIssuerOrEndpoint takes the URL of the token endpoint, and of the endpoint
	// that was called, too. Another server that a client uses can announce our token
	// endpoint as its own, and gets assertions that count here (CVE-2025-27370,
	// CVE-2025-27371). Set it only for clients that cannot send the issuer.
	AudienceIssuerOrEndpoint AssertionAudience = "issuer-or-endpoint"
)

// Resource is a protected server that tokens are issued for.
type Resource struct {
	// URI is the resource identifier (RFC 8707 section 2) in canonical form.
	URI string
	// Name is shown to people at consent.
	Name string
	// Default marks the resource of requests that carry no resource parameter. With a
	// single resource it is implied.
	Default bool
	// Scopes are what the resource distinguishes, in the order people see them.
	Scopes []Scope
	// DefaultScopes are granted for requests that carry no scope; nil means all.
	DefaultScopes []string
	// Introspection is how the resource server authenticates at /introspect; nil means
	// that it cannot.
	Introspection *IntrospectionClient
}

// Scope is a scope of a resource with the sentence that people read at consent.
type Scope struct {
	Name        string
	Description string
}

// IntrospectionClient is a resource server's own credential. It is a namespace of its
// own: it opens nothing but /introspect.
type IntrospectionClient struct {
	ID string
	// Secret has 32 characters or more that nobody can guess: its length, and not the number
	// of attempts, is what stands against guessing.
	Secret string
}

// offlineAccess is accepted, listed in the metadata and never put into a token: every
// client whose grant types hold refresh_token gets refresh tokens.
const offlineAccess = "offline_access"

// withDefaults fills in what was left out and refuses what cannot work. Every mistake
// is reported, not only the first.
func (c Config) withDefaults() (Config, error) {
	c.Registration = cmp.Or(c.Registration, RegistrationClosed)
	c.AssertionAudience = cmp.Or(c.AssertionAudience, AudienceIssuer)
	c.RegistrationQuota = cmp.Or(c.RegistrationQuota, 600)
	c.AccessTokenTTL = cmp.Or(c.AccessTokenTTL, 10*time.Minute)
	c.KeyRotation = cmp.Or(c.KeyRotation, 30*24*time.Hour)
	c.KeyCache = cmp.Or(c.KeyCache, metadata.MaxAge)
	c.CodeTTL = cmp.Or(c.CodeTTL, time.Minute)
	c.RefreshWindow = cmp.Or(c.RefreshWindow, 30*time.Second)
	c.RefreshIdle = cmp.Or(c.RefreshIdle, 30*24*time.Hour)
	c.RefreshMax = cmp.Or(c.RefreshMax, 90*24*time.Hour)
	c.Logger = slog.New(requestid.LogHandler(cmp.Or(c.Logger, slog.Default()).Handler()))
	if c.CheckPassword == nil {
		c.CheckPassword = passwords.Check
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	c.Resources = slices.Clone(c.Resources)
	return c, c.validate()
}

func (c Config) validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("authz: "+format, args...))
		}
	}
	if err := metadata.ValidIssuer(c.Issuer); err != nil {
		errs = append(errs, fmt.Errorf("authz: issuer %q: %w", c.Issuer, err))
	}
	refuse(c.Store == nil, "no store")
	refuse(c.Store != nil && c.Store.Issuer() != c.Issuer, "the store was opened for another issuer")
	refuse(!slices.Contains([]Registration{RegistrationClosed, RegistrationToken, RegistrationOpen}, c.Registration), "registration %q is not open, token or closed", c.Registration)
	refuse(c.AssertionAudience != AudienceIssuer && c.AssertionAudience != AudienceIssuerOrEndpoint, "assertion-audience %q is not issuer or issuer-or-endpoint", c.AssertionAudience)
	refuse(!slices.Contains([]string{"", "ES256", "EdDSA", "RS256"}, c.SigningAlgorithm), "signing algorithm %q is not ES256, EdDSA or RS256", c.SigningAlgorithm)
	refuse(c.KeyCache < time.Second, "key-cache %s: it must be at least 1s", c.KeyCache)
	refuse(c.KeyRotation > 0 && c.KeyRotation < 2*c.KeyCache, "key-rotation %s: it must be 0 for never, or at least %s, for which a key is published before it signs", c.KeyRotation, 2*c.KeyCache)
	refuse(c.AccessTokenTTL < time.Second || c.AccessTokenTTL > time.Hour, "access-token-ttl %s: it must be 1s to 1h", c.AccessTokenTTL)
	refuse(c.CodeTTL < time.Second || c.CodeTTL > 10*time.Minute, "code-ttl %s: it must be 1s to 10m", c.CodeTTL)
	refuse(c.RefreshWindow > 10*time.Minute, "refresh-window %s: it must be at most 10m", c.RefreshWindow)
	refuse(c.RefreshIdle < time.Second, "refresh-idle %s: it must be at least 1s", c.RefreshIdle)
	refuse(c.RefreshMax < time.Second, "refresh-max %s: it must be at least 1s", c.RefreshMax)
	refuse(c.ClientUnused != 0 && c.ClientUnused < time.Minute, "client-unused %s: it must be at least 1m", c.ClientUnused)
	refuse(c.ClientIdle != 0 && c.ClientIdle < 2*storage.UseStep, "client-idle %s: it must be at least 2d", c.ClientIdle)
	refuse(len(c.Resources) == 0, "no resources: name at least one server that tokens are for")
	errs = append(errs, c.Egress.validate())
	return errors.Join(append(errs, validateResources(c.Resources)...)...)
}

func validateResources(resources []Resource) []error {
	var errs []error
	uris, meanings, clients, defaults := map[string]bool{}, map[string]string{}, map[string]bool{}, 0
	for _, r := range resources {
		errs = append(errs, r.validate(uris, meanings)...)
		uris[r.URI] = true
		if r.Default {
			defaults++
		}
		if i := r.Introspection; i != nil {
			if i.ID == "" || i.Secret == "" {
				errs = append(errs, fmt.Errorf("authz: resource %s: introspection needs a client_id and a secret", r.URI))
			}
			if clients[i.ID] {
				errs = append(errs, fmt.Errorf("authz: resource %s: introspection client_id %q is used twice", r.URI, i.ID))
			}
			clients[i.ID] = true
		}
	}
	if defaults > 1 {
		errs = append(errs, errors.New("authz: more than one resource is the default"))
	}
	return errs
}

func (r Resource) validate(uris map[string]bool, meanings map[string]string) []error {
	var errs []error
	canonical, err := metadata.Canonical(r.URI)
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("authz: resource %q: %w", r.URI, err))
	case canonical != r.URI:
		errs = append(errs, fmt.Errorf("authz: resource %q: write it in its canonical form, %s", r.URI, canonical))
	case uris[r.URI]:
		errs = append(errs, fmt.Errorf("authz: resource %s is listed twice", r.URI))
	}
	known := map[string]bool{}
	for _, s := range r.Scopes {
		if !usableScope(s.Name) || s.Name == offlineAccess {
			errs = append(errs, fmt.Errorf("authz: resource %s: scope %q is not a usable scope name", r.URI, s.Name))
		}
		if other, ok := meanings[s.Name]; ok && (known[s.Name] || other != s.Description) {
			errs = append(errs, fmt.Errorf("authz: resource %s: scope %q is already defined with another meaning", r.URI, s.Name))
		}
		known[s.Name], meanings[s.Name] = true, s.Description
	}
	for _, name := range r.DefaultScopes {
		if !known[name] {
			errs = append(errs, fmt.Errorf("authz: resource %s: default scope %q is not one of its scopes", r.URI, name))
		}
	}
	return errs
}
