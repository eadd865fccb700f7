package middleware

import (
	"slices"
	"strings"
	"time"
)

const (
	// defaultLeeway and maxLeeway are the default and the maximum of [Issuer.Leeway].
	defaultLeeway = 10 * time.Second
	maxLeeway     = time.Minute
)

// Issuer says how a guard judges the tokens of one issuer. What it loosens, it loosens for this
// issuer alone. URL is required; with nothing else, the tokens are those of RFC 9068.
type Issuer struct {
	// URL is "iss" in the tokens, byte for byte. It is https, or http on loopback, and may end in
	// a slash. For several tenants of Entra it has {tenantid} in place of the tenant, as in
	// https://login.microsoftonline.com/{tenantid}/v2.0.
	URL string
	// Profile is the form of the tokens. The default is [RFC9068].
	Profile Profile
	// Audiences are further accepted values of "aud" in tokens of this issuer, besides the
	// resource and [Config.Audiences], compared byte for byte. With InsecureNoAudience they are
	// something else.
	Audiences []string
	// Algorithms replace those of the profile. Each is one of ES256, ES384, ES512, EdDSA, RS256,
	// RS384, RS512, PS256, PS384 and PS512.
	Algorithms []string
	// Type replaces the types that the profile accepts in the header ("typ"), such as "JWT". Case
	// and a prefix "application/" make no difference. With RFC9068 it takes away the evidence
	// that a token is an access token. Then a token whose audience contains its client is
	// refused, and so is one with "nonce", "at_hash", "c_hash" or "events".
	Type string
	// ClientClaim replaces the claim that names the client, a string.
	ClientClaim string
	// ScopeClaim replaces the claim with the scopes: a string in which spaces separate them, or
	// an array with one scope in each string.
	ScopeClaim string
	// ScopeMap grants scopes by roles, groups or permissions among the claims, for providers that know
	// no scopes of this resource. A scope that a rule names is granted by the rules alone: in the
	// token's own scopes it does not count, because a client may get those by asking. All other
	// scopes are as ever. Nobody is told to ask for a scope that a rule names: the refusal for it is
	// 403 without a challenge. With introspection, a role must be in the token and, if it names the
	// claim at all, in the response; of an opaque token the response decides.
	ScopeMap []ScopeRule
	// Leeway is the accepted difference between the clocks of the issuer and of this server. The
	// default is 10 seconds, the maximum a minute.
	Leeway time.Duration
	// MaxStale replaces [Config.StaleKeys].
	MaxStale time.Duration
	// Keys is where the keys come from. The default is the metadata of the issuer.
	Keys KeySource
	// Tenants are the IDs of the tenants whose tokens are accepted. It is required for a URL with
	// {tenantid}, and refused for others.
	Tenants []string
	// InsecureNoAudience accepts tokens without "aud" if their client is one of Audiences, which
	// then lists clients and no audiences. It is for the profiles Cognito, Google and GitHub. Any
	// server that gets such a token can use it here: list only clients that send their tokens to
	// nobody else. A JWT with "aud" is judged as ever.
	InsecureNoAudience bool
}

// ofSeveralTenants reports whether the URL stands for several issuers.
func (i *Issuer) ofSeveralTenants() bool {
	return i.Profile == Entra && strings.Contains(i.URL, entraTemplate)
}

// plain reports whether the claims of the tokens have the names of RFC 9068.
func (i *Issuer) plain() bool {
	return i.asInRFC9068() && len(i.ScopeMap) == 0
}

// asInRFC9068 reports whether client and scopes are the claims of RFC 9068.
func (i *Issuer) asInRFC9068() bool {
	return i.Profile == RFC9068 && i.Type == "" && i.ClientClaim == "" && i.ScopeClaim == ""
}

// urls returns the values of "iss" in the tokens: one, or one for each tenant.
func (i *Issuer) urls() []string {
	if !i.ofSeveralTenants() {
		return []string{i.URL}
	}
	var out []string
	for _, tenant := range i.Tenants {
		out = append(out, strings.Replace(i.URL, entraTemplate, tenant, 1))
	}
	return out
}

// issuers returns all issuers whose tokens are accepted, one for each value of "iss": those of
// SharedIssuers, or those of Issuers and as RFC 9068 those that AuthorizationServers names besides.
func (c *Config) issuers() []Issuer {
	if c.SharedIssuers != nil {
		return c.SharedIssuers.configured()
	}
	var out []Issuer
	var configured []string
	for _, one := range c.Issuers {
		for _, url := range one.urls() {
			one.URL = url
			out, configured = append(out, one), append(configured, url)
		}
	}
	for _, url := range c.AuthorizationServers {
		if !slices.Contains(configured, url) {
			out = append(out, Issuer{URL: url})
		}
	}
	return out
}

// announced returns the issuers that the metadata of the resource names.
func (c *Config) announced() []string {
	if len(c.AuthorizationServers) > 0 {
		return slices.Clone(c.AuthorizationServers)
	}
	var out []string
	for _, one := range c.issuers() {
		out = append(out, one.URL)
	}
	return out
}
