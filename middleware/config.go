package middleware

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"gatehouse.example/metadata"
)

// Config says what is protected and whose tokens are accepted. Resource and
// AuthorizationServers are required.
type Config struct {
	// Resource is the URL that clients dial, in canonical form: the audience of every
	// accepted token (RFC 8707 section 2). It is https, or http on loopback.
	Resource string
	// Audiences are further values of "aud" that are meant for this resource, compared
	// byte for byte. Some authorization servers know a resource by an identifier of their
	// own.
	Audiences []string
	// AuthorizationServers are the issuers whose tokens are accepted, byte for byte as
	// their metadata spells them. Each is https, or http on loopback.
	AuthorizationServers []string
	// Introspection is how tokens are looked up at their issuers, by issuer. Without an
	// entry, a token of an issuer is judged by its signature and its claims alone.
	Introspection map[string]Introspection
	// Scopes are the scopes that the metadata of the resource lists.
	Scopes []string
	// ChallengeScopes are the scopes that a client without a token is told to ask for.
	// The default is Scopes; name fewer to let clients start small and step up.
	ChallengeScopes []string
	// Policy says what each operation needs. Without one, every valid token may do
	// everything that the handler allows, and bodies are left unread.
	Policy Policy
	// Optional lets requests without credentials through as well, for operations that
	// need no scopes. Bad credentials are refused all the same.
	Optional bool
	// EndStreams ends the context of a request when its token expires, so that a long
	// stream does not outlive what opened it.
	EndStreams bool
	// Sessions binds the session ids and the ids of events that the handler gives out to who
	// received them, so that nobody goes on with the session or the stream of somebody else,
	// and seals the cursors of lists that the policy filters. Set it when several processes
	// serve the resource: they share a key. The default is a key that this guard draws.
	Sessions *Handles
	// InsecureUnboundSessions leaves session ids and ids of events as they are, and lets the
	// transport of revision 2024-11-05 through. It is safe only in front of a handler that
	// holds each session and each stream to the subject of its first token by itself: many
	// official SDKs do not, and then any valid token goes on with a session whose id is known.
	// Cursors are sealed all the same, with a key that this guard draws.
	InsecureUnboundSessions bool
	// ResourceName and ResourceDocumentation are shown to people by clients.
	ResourceName          string
	ResourceDocumentation string
	// AllowedOrigins matters on loopback alone: web pages of these origins, such as
	// "https://inspector.example.org", may call besides those of loopback and of the
	// resource itself. "*" allows every origin.
	AllowedOrigins []string
	// TrustedProxies are the networks of reverse proxies in front of the handler, whose
	// X-Forwarded-Host and X-Forwarded-For are believed. Nobody else's are.
	TrustedProxies []netip.Prefix
	// MaxBody bounds a body that is read for the policy, in bytes. The default is 4 MiB.
	MaxBody int
	// BodyTime is how long the body of a request may take to arrive, whoever reads it; a large
	// one has a second more for each 16 KiB that have arrived. It takes the place of ReadTimeout
	// of http.Server, and needs a ResponseWriter on which http.ResponseController can set
	// deadlines. The default is 30 seconds; less than zero leaves that to your listener.
	BodyTime time.Duration
	// CachedTokens is how many verified tokens are remembered, until they expire at the
	// latest. The default is 8192; less than zero remembers none.
	CachedTokens int
	// StaleKeys bounds how old keys may be that serve while their issuer cannot be reached,
	// counted from when they were fetched; after that the answer is 503. What the issuer itself
	// allows, by max-age, is allowed in any case. Set it shorter when a key that was taken back
	// must end sooner, longer when the issuer may be away for days. The default is 24 hours; less
	// than zero ends keys with what the issuer allows.
	StaleKeys time.Duration
	// Client fetches the metadata and keys of the issuers, and asks them about tokens.
	// Redirects are refused whatever it says. The default gives up after five seconds.
	Client *http.Client
	// Now is the clock. The default is time.Now.
	Now func() time.Time
	// Observe learns about every decision, for logs and metrics. It is called by the
	// goroutine of the request and must not wait for anything.
	Observe func(*http.Request, Event)
	// Logger learns about decisions (debug) and trouble with issuers (warn). It never
	// sees a token. The default discards.
	Logger *slog.Logger
}

// validate finds every mistake that the metadata document does not find.
func (c *Config) validate() error {
	var errs []error
	for _, scope := range c.ChallengeScopes {
		errs = append(errs, validScope(scope))
	}
	if slices.Contains(c.Audiences, "") {
		errs = append(errs, errors.New("an audience is empty"))
	}
	if c.Sessions != nil && c.InsecureUnboundSessions {
		errs = append(errs, errors.New("sessions cannot be bound and unbound: set Sessions or InsecureUnboundSessions"))
	}
	if c.Sessions != nil && !c.Sessions.usable() {
		errs = append(errs, errors.New("the handles for sessions have no key: make them with NewHandles"))
	}
	return errors.Join(append(errs, validOrigins(c.AllowedOrigins), c.Policy.validate(), validIntrospection(c.Introspection, c.AuthorizationServers))...)
}

func validScope(scope string) error {
	if !metadata.ValidScope(scope) || scope == "offline_access" {
		return fmt.Errorf("%q is not a scope of a resource", scope)
	}
	return nil
}

// validOrigins wants the form in which browsers send an origin (RFC 6454 section 6.2).
func validOrigins(origins []string) error {
	for _, origin := range origins {
		if origin == "*" {
			continue
		}
		canonical, err := metadata.Canonical(origin)
		u, err2 := url.Parse(canonical)
		if err != nil || err2 != nil || canonical != origin || u.Path != "" || u.RawQuery != "" {
			return fmt.Errorf("%q is not an origin such as https://app.example.com", origin)
		}
	}
	return nil
}
