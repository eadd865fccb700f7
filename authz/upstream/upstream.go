// Package upstream signs people in at identity providers of others: Google, Microsoft Entra ID,
// Okta, Keycloak, GitHub, GitLab and every provider of OpenID Connect.
//
// It speaks with the provider and judges what comes back. It knows nothing of storage, cookies
// and pages: who uses it keeps an [Attempt] for one browser and one sign-in, sends the browser to
// the address of [Client.Begin], and gives what came back to [Client.Finish], once:
//
//	attempt := upstream.NewAttempt(state)      // keep it, bound to this browser
//	address, err := client.Begin(ctx, attempt) // redirect the browser there
//	…
//	arrival, err := client.Finish(ctx, attempt, upstream.Callback{Code: …, Issuer: …})
//	decision, err := client.Admits(arrival, pinned)
//
// What is always so: PKCE with S256; a nonce wherever there is an ID token; the issuer of the
// callback is compared (RFC 9207), so that two providers cannot be mixed up; only asymmetric
// signatures; https with TLS 1.2 or newer; no redirect of the provider is followed by this
// package. Every answer is bounded in time and size, every provider has its own places for calls,
// so that one that is down, slow or endless blocks nobody else. Each error is an [*Error] that
// names the provider and has a sentence for people and a detail for the log. Neither holds a
// token, a code or a secret.
//
// A provider that nobody may use is refused: [Provider.Validate] wants an [Allow] that the
// provider can prove.
package upstream

import (
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// The presets, the values of [Provider.Preset].
const (
	Google   = "google"
	Entra    = "entra" // Microsoft Entra ID
	Okta     = "okta"
	Keycloak = "keycloak"
	GitHub   = "github" // github.com, ghe.com and GitHub Enterprise Server; not OpenID Connect
	GitLab   = "gitlab" // gitlab.com and others
	OIDC     = "oidc"   // any provider of OpenID Connect
)

// Presets returns all presets, in the order of the documentation.
func Presets() []string { return []string{Google, Entra, Okta, Keycloak, GitHub, GitLab, OIDC} }

// Provider is the configuration of one provider. The names in brackets are the keys of the
// configuration file; [Provider.Validate] uses them in its sentences.
type Provider struct {
	// ID names the provider in paths, in names of people (ID/HANDLE) and of groups (ID/GROUP)
	// (id): 1 to 32 of a-z, 0-9 and "-", with a letter or digit at both ends.
	ID string
	// Preset is one of [Presets] (preset). Empty is OIDC.
	Preset string
	// Name stands on the button (name). Empty is the product's name, or the ID.
	Name string
	// Issuer is the provider's issuer (issuer), exactly as its metadata has it. Presets have a
	// default: Google, GitHub, GitLab their public services; Entra the one tenant of Allow.Domains,
	// or all organisations. GitHub Enterprise is named by its address, https://github.example.com.
	Issuer string
	// ClientID and ClientSecret are what the provider gave for this server (client_id,
	// client_secret).
	ClientID, ClientSecret string
	// ClientKey signs an assertion instead of the secret (client_key): private_key_jwt of OpenID
	// Connect Core section 9. See [ParseClientKey]. Nil uses the secret.
	ClientKey *ClientKey
	// Scopes are asked for besides those that the preset needs (scopes). Give "groups" here if the
	// provider wants it for its groups claim.
	Scopes []string
	// Claims says where the provider puts what (claims).
	Claims Claims
	// Allow says who may come in (allow). A zero Allow is refused.
	Allow Allow
	// Recheck is how often the provider is asked again whether it still knows the person
	// (recheck); 0 never. At least a minute, with dev a second. With 0 no refresh token is asked for.
	Recheck time.Duration
	// LogoutEndsGrants lets a logout at the provider end also what the person allowed to clients,
	// not only sessions (logout-ends-grants). This package only carries it.
	LogoutEndsGrants bool
}

// Claims names the provider's claims.
type Claims struct {
	// Groups is the claim with the person's groups (claims: groups). Empty is "groups". Not for
	// GitHub, whose groups are teams.
	Groups string
}

// Options says how a [Client] works. The zero value lacks only the Redirect.
type Options struct {
	// Redirect is the exact redirect URI that the provider knows: ISSUER/login/ID/callback.
	Redirect string
	// Dev allows http for a provider on a loopback address, and what [Provider.Validate] allows
	// with dev.
	Dev bool
	// Proxy chooses the proxy for a request, as [http.ProxyFromEnvironment]. Nil is none.
	Proxy func(*http.Request) (*url.URL, error)
	// Roots are the certificate authorities that providers may use. Nil is those of the system.
	Roots *x509.CertPool
	// Logger gets what is worth knowing about a provider: that it cannot be reached, that it sent
	// a group that was left out. Nil discards it.
	Logger *slog.Logger
	// Now is the clock for tokens and caches. Nil is [time.Now].
	Now func() time.Time
	// Observe, if set, is called for each request to the provider, with the status of the answer, 0
	// for none, and the time to the end of its header. It is not called when whoever waited for the
	// request left before. It must not block.
	Observe func(status int, took time.Duration)
}

// Title is the name of the provider for people: Name, or that of the product, or the ID.
func (p Provider) Title() string {
	if p.Name != "" {
		return p.Name
	}
	if title := presets[p.preset()].title; title != "" {
		return title
	}
	return p.ID
}

// NamesGroups reports whether the provider names groups in a sign-in. Google does not.
func (p Provider) NamesGroups() bool {
	return p.Claims.Groups != "" || presets[p.preset()].groups != ""
}

func (p Provider) preset() string {
	if p.Preset == "" {
		return OIDC
	}
	return p.Preset
}
