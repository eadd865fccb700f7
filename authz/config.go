package authz

import (
	"cmp"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/dcr"
	"gatehouse.example/internal/passwords"
	"gatehouse.example/internal/requestid"
	"gatehouse.example/metadata"
	"gatehouse.example/safefetch"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
)

// Config configures a [Server]. Issuer and Store are required.
type Config struct {
	// Issuer is the issuer identifier (RFC 8414 section 2), byte for byte as it
	// appears in metadata, in tokens and in the iss parameter. It has no trailing slash
	// and is https unless its host is loopback.
	Issuer string
	// Store keeps all state. Open it with the same Issuer and with master keys.
	Store *storage.Store
	// Resources are the servers that tokens are issued for, beside those in the store
	// ([storage.Resource]). Of two with one URI this one counts.
	Resources []Resource
	// Groups are groups of people by name, with the names of their members. They can be named in
	// an [Allow], like the groups that the operator makes in the store; a group of the store with
	// the same name has the members of both. Set it where people are known when the server
	// starts; authz group changes groups while it runs.
	Groups map[string][]string
	// Registration decides which clients may register. The zero value is closed.
	Registration Registration
	// RegistrationPolicy restricts the metadata that clients may register. StatementIssuers
	// are the issuers whose software statements are accepted.
	RegistrationPolicy dcr.Policy
	StatementIssuers   []dcr.StatementIssuer
	// RegistrationQuota is the number of clients of one software that may register in an hour
	// from one address. Ten times as many may register of all software. The networks around
	// an address have twice and four times that limit. The size of registrations is limited
	// as well: 2 KiB for each allowed client of one network, and eight times that for all
	// networks together. Changes of a registration count like registrations. Default 600;
	// negative means no limit. All processes with one store count together.
	RegistrationQuota int
	// Limits are how often a network and a client may ask. Set it to protect a small machine, or where
	// many people or servers share an address.
	Limits Limits
	// ClientUnused is the time after which a registered client that was never used is
	// removed. ClientIdle is the time after which a client that was used and has no live
	// grant is removed. Defaults: 7 and 90 days, those of package dcr.
	ClientUnused, ClientIdle time.Duration
	// Clients are clients that come from the configuration and are not kept in the store.
	Clients []storage.Client
	// AssertionAudience selects the audiences that client assertions may have. The zero value
	// is [AudienceIssuer].
	AssertionAudience AssertionAudience

	// SigningAlgorithm is the algorithm of new signing keys: ES256 (the default), EdDSA or
	// RS256.
	SigningAlgorithm string
	// KeyRotation is the time that a key signs before the next one replaces it. Default 30
	// days; negative means no rotation. Rotation requires that [Server.Run] runs.
	KeyRotation time.Duration
	// KeyCache is the time for which caches may keep the published keys. A new key is
	// published for twice as long before it signs. Default 5 minutes, at least 1 second. All
	// processes with one store must have the same value.
	KeyCache time.Duration

	// AccessTokenTTL is the lifetime of an access token. Default 10 minutes, at most 1 hour.
	// Set it lower when revoked tokens must end sooner at resources that do not introspect.
	// With 6 minutes or less, clients that refresh five minutes early do so at almost every
	// call.
	AccessTokenTTL time.Duration
	// CodeTTL is the lifetime of an authorization code. Default 60 seconds, at most 10
	// minutes.
	CodeTTL time.Duration
	// RefreshWindow is the time after a rotation in which the previous refresh token still
	// gets the same successor. Default 30 seconds; negative means strict rotation without a
	// window.
	RefreshWindow time.Duration
	// RefreshIdle is the time after which a grant ends if it is not refreshed. Default 30
	// days.
	RefreshIdle time.Duration
	// RefreshMax is the time after which every grant ends, counted from the redemption of its
	// code. Default 90 days.
	RefreshMax time.Duration

	// SessionIdle is the time after which a session ends in which the person did nothing at this
	// server, up to five minutes earlier. Default 2 hours, at least 1 minute. The last use is
	// recorded only while [Server.Run] runs; without it a session ends that long after the sign-in.
	// SessionMax is the time after which every session ends. Default 12 hours, 1 minute to 30
	// days. Both hold for sessions that began before they were lowered, too.
	SessionIdle, SessionMax time.Duration

	// ConsentRemember are the times for which a person may have a decision remembered, as choices
	// on the consent page: whole hours, or [RememberAlways]. The choice to be asked each time is
	// always there, and is the default. Nil means a day, 30 days and always; an empty list offers
	// none, and decisions that were remembered before do not count.
	ConsentRemember []time.Duration
	// InsecureRememberUnvouched also remembers decisions about clients that nobody vouches for and
	// that get their answer at a loopback address or a private-use scheme. Another program on the
	// person's device can then use the same client_id and is let in without a page (RFC 8252
	// section 8.6). Set it only where every program on people's devices is yours.
	InsecureRememberUnvouched bool
	// PreApproved is what clients may do without asking each person. It counts for clients that
	// the operator vouches for, and for requests that ask for nothing else. The first request of a
	// person shows a page with the account and the client, which has nothing to choose; after
	// that, none is shown. Set it for applications that everybody has to use.
	PreApproved []PreApproval

	// Fetcher fetches what clients refer to: metadata documents, keys and logos. Without it
	// none of them is fetched. Set it where the server may read from the public web, to the
	// one fetcher of the process, so that its bounds cover all that the process fetches.
	Fetcher *safefetch.Fetcher
	// Documents selects the client metadata documents that are read; the zero value reads
	// none. It requires a Fetcher.
	Documents dcr.Documents
	// Egress configures the check for access to the public web; the zero value disables it.
	// Checks after the first one require that [Server.Run] runs.
	Egress EgressCheck

	// Catalogue is the URL of pages that list servers, such as those of a registry on the
	// same listener. The page for people at the issuer links to it. Empty means no link.
	Catalogue string

	// Pages is the look of the pages: name, logo, colour, what stands at their foot, and files
	// that replace theirs. The zero value is that of Gatehouse. Its LogoPath is ignored.
	Pages templates.Look
	// Providers are identity providers at which people sign in, in the order of the sign-in page.
	// Each knows this server by the redirect URI ISSUER/login/ID/callback. Passwords and
	// passkeys of this server go on working beside them, unless NoPasswords is set.
	Providers []upstream.Provider
	// RecheckGrace is the time for which the sessions and grants of a person go on after a check
	// at the provider is due ([upstream.Provider.Recheck]) and has no answer. Then they end. Default
	// 24 hours. Checks require that [Server.Run] runs.
	RecheckGrace time.Duration
	// ProviderProxy chooses the proxy for requests to providers, ProviderRoots are the certificate
	// authorities that providers may use. Nil means no proxy, and the authorities of the system.
	ProviderProxy func(*http.Request) (*url.URL, error)
	ProviderRoots *x509.CertPool
	// InsecureProviders allows providers with http on loopback and rechecks of a second. Set it
	// for tests on one machine only: over http anybody on the way can sign in as anybody.
	InsecureProviders bool

	// CheckPassword reports whether a password matches a hash made by
	// [gatehouse.example/authz/admin.AddUser]. It is called from as many goroutines as there
	// are processors, less one. By default the check runs in this process and delays other
	// requests by some milliseconds; set it to check passwords in another process.
	CheckPassword func(hash, password string) bool

	// NoPasswords refuses every password, right or wrong: people sign in with passkeys or at providers only. Set it
	// once everybody has one. It is refused without Providers if browsers have no passkeys for the Issuer.
	NoPasswords bool

	// TrustedProxies are the addresses of proxies in front of the server. The server
	// distinguishes clients behind them by the X-Forwarded-For header that they write. It
	// ignores that header from all other addresses.
	TrustedProxies []netip.Prefix

	// Observe, if set, is told what the server does, for metrics. It is called from the goroutine
	// of each request, some times for one, and must return at once; it is safe for concurrent use.
	Observe func(Observation)
	// Audit, if set, is told what happened, for an audit trail: package audit/trail writes one. It is
	// called from the goroutine of each request, after what it is about is in the store; it is safe for concurrent use.
	Audit func(audit.Event)
	// Trace is told which parts requests have, for traces. The zero Trace is off and costs nothing.
	Trace Trace
	// Logger receives one line per event. Default: slog.Default.
	Logger *slog.Logger
	// Now is the clock, Rand the source of randomness. Defaults: time.Now,
	// crypto/rand.Reader.
	Now  func() time.Time
	Rand io.Reader
}

// Registration decides which clients may register at /register (RFC 7591).
type Registration string

const (
	// RegistrationClosed disables the registration endpoint.
	RegistrationClosed Registration = "closed"
	// RegistrationToken requires an initial access token.
	RegistrationToken Registration = "token"
	// RegistrationOpen allows every client to register.
	RegistrationOpen Registration = "open"
)

// AssertionAudience selects the audiences that a client assertion may have (RFC 7523 section
// 3). In every case an assertion must have exactly one audience.
type AssertionAudience string

const (
	// AudienceIssuer accepts the issuer identifier only (draft-ietf-oauth-rfc7523bis).
	AudienceIssuer AssertionAudience = "issuer"
	// AudienceIssuerOrEndpoint also accepts the URL of the token endpoint and of the endpoint
	// that was called. Another authorization server of the same client can announce this
	// server's token endpoint as its own, and then receives assertions that are valid here
	// (CVE-2025-27370, CVE-2025-27371). Set it only for clients that cannot send the issuer.
	AudienceIssuerOrEndpoint AssertionAudience = "issuer-or-endpoint"
)

// offlineAccess is a scope that requests may name and the metadata lists. It is never put
// into a token: every client with the grant type refresh_token gets refresh tokens.
const offlineAccess = "offline_access"

// withDefaults fills in the defaults and checks the result. The error lists every mistake.
func (c Config) withDefaults() (Config, error) {
	c.Registration = cmp.Or(c.Registration, RegistrationClosed)
	c.AssertionAudience = cmp.Or(c.AssertionAudience, AudienceIssuer)
	c.RegistrationQuota = cmp.Or(c.RegistrationQuota, 600)
	c.Limits = c.Limits.withDefaults()
	c.AccessTokenTTL = cmp.Or(c.AccessTokenTTL, 10*time.Minute)
	c.KeyRotation = cmp.Or(c.KeyRotation, 30*24*time.Hour)
	c.KeyCache = cmp.Or(c.KeyCache, metadata.MaxAge)
	c.CodeTTL = cmp.Or(c.CodeTTL, time.Minute)
	c.RefreshWindow = cmp.Or(c.RefreshWindow, 30*time.Second)
	c.RefreshIdle = cmp.Or(c.RefreshIdle, 30*24*time.Hour)
	c.RefreshMax = cmp.Or(c.RefreshMax, 90*24*time.Hour)
	c.SessionIdle = cmp.Or(c.SessionIdle, 2*time.Hour)
	c.SessionMax = cmp.Or(c.SessionMax, 12*time.Hour)
	if c.ConsentRemember == nil {
		c.ConsentRemember = []time.Duration{24 * time.Hour, 30 * 24 * time.Hour, RememberAlways}
	}
	c.RecheckGrace = cmp.Or(c.RecheckGrace, 24*time.Hour)
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
	refuse(c.SessionIdle < time.Minute, "session-idle %s: it must be at least 1m", c.SessionIdle)
	refuse(c.SessionMax < time.Minute || c.SessionMax > 30*24*time.Hour, "session-max %s: it must be 1m to 30d", c.SessionMax)
	refuse(c.ClientUnused != 0 && c.ClientUnused < time.Minute, "client-unused %s: it must be at least 1m", c.ClientUnused)
	refuse(c.ClientIdle != 0 && c.ClientIdle < 2*storage.UseStep, "client-idle %s: it must be at least 2d", c.ClientIdle)
	refuse(c.RecheckGrace < time.Second, "recheck-grace %s: it must be at least 1s", c.RecheckGrace)
	errs = append(errs, c.Limits.mistake())
	errs = append(errs, c.providerMistakes()...)
	errs = append(errs, c.SignInMistake())
	errs = append(errs, c.Egress.validate())
	errs = append(errs, c.allowMistakes()...)
	errs = append(errs, memoryMistakes(c.ConsentRemember)...)
	errs = append(errs, preApprovedMistakes(c.PreApproved, c.Resources)...)
	return errors.Join(append(errs, validateResources(c.Resources)...)...)
}
