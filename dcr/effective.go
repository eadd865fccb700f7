package dcr

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

const (
	responseCode  = "code"
	offlineAccess = "offline_access"
)

var (
	supportedMethods = []string{metadata.AuthMethodNone, metadata.AuthMethodBasic, metadata.AuthMethodPost, metadata.AuthMethodPrivateKeyJWT}
	supportedGrants  = []string{metadata.GrantAuthorizationCode, metadata.GrantRefreshToken}
)

// hasSecret reports whether a client authenticates with a secret.
func hasSecret(m metadata.Client) bool {
	return m.TokenEndpointAuthMethod == metadata.AuthMethodBasic || m.TokenEndpointAuthMethod == metadata.AuthMethodPost
}

// effective returns the client that will be registered for a request: the requested
// metadata with defaults filled in and without what is not supported (RFC 7591 section 3.2.1
// lets the server replace values). Forbidden values are errors. The client has no id or
// secret yet.
func (cs *Clients) effective(ctx context.Context, asked request) (storage.Client, error) {
	// The statement comes first: its values take precedence over the others (RFC 7591
	// section 2.3).
	asked, statement, err := cs.statements.apply(asked, cs.now())
	if err != nil {
		return storage.Client{}, err
	}
	c := storage.Client{Source: storage.ClientRegistered, SoftwareStatement: statement}
	rules := &scopeRules{&cs.policy, cs.scopes(ctx)}
	for _, member := range []func(asked metadata.Client, m *metadata.Client) error{
		cs.policy.redirectURIs, authMethod, signingAlgorithm, rules.grantTypes, responseTypes, rules.registrable, rules.scope, applicationType,
		texts, links, keys, demands,
	} {
		if err := member(asked.Client, &c.Metadata); err != nil {
			return storage.Client{}, err
		}
	}
	if c.Localized, err = asked.localized(); err != nil {
		return storage.Client{}, err
	}
	c.Software = software(c.Metadata)
	return c, nil
}

func authMethod(asked metadata.Client, m *metadata.Client) error {
	// RFC 7591 section 2: if omitted, the default is client_secret_basic.
	m.TokenEndpointAuthMethod = cmp.Or(asked.TokenEndpointAuthMethod, metadata.AuthMethodBasic)
	if !slices.Contains(supportedMethods, m.TokenEndpointAuthMethod) {
		return invalidMetadata("token_endpoint_auth_method", "%.64q is not supported; supported are %s",
			m.TokenEndpointAuthMethod, strings.Join(supportedMethods, ", "))
	}
	return nil
}

// demands refuses a client that demands a protection which this server does not have: it would
// take its bearer tokens for bound ones (RFC 9449 section 5.2, RFC 8705 section 3.4), or rely on
// other requests in its name being refused (RFC 9126 section 6, RFC 9101 section 10.5).
func demands(asked metadata.Client, _ *metadata.Client) error {
	for _, d := range [...]struct {
		made         bool
		member, here string
	}{
		{asked.DPoPBoundAccessTokens, "dpop_bound_access_tokens", "proofs of possession are not supported here, tokens would be bearer tokens"},
		{asked.CertificateBoundAccessTokens, "tls_client_certificate_bound_access_tokens", "tokens are not bound to certificates here, they would be bearer tokens"},
		{asked.RequirePushedRequests, "require_pushed_authorization_requests", "pushed requests are not supported here, and others would be accepted"},
		{asked.RequireSignedRequests, "require_signed_request_object", "request objects are not supported here, and requests without one would be accepted"},
	} {
		if d.made {
			return invalidMetadata(d.member, "%s; register without it if that will do", d.here)
		}
	}
	return nil
}

// scopeRules are the policy and the scopes of this server at one registration.
type scopeRules struct {
	policy *Policy
	scopes map[string]bool
}

// grantTypes registers the supported grants that were asked for. Clients list grants that
// this server does not have, such as the device grant, and work without them; the response
// lists what is left. A grant that OAuth 2.1 removed or the policy forbids is refused, and so
// is a request without authorization_code.
func (r *scopeRules) grantTypes(asked metadata.Client, m *metadata.Client) error {
	if err := r.policy.forbiddenGrant(asked.GrantTypes); err != nil {
		return err
	}
	m.GrantTypes = r.requestedGrants(asked)
	if !slices.Contains(m.GrantTypes, metadata.GrantAuthorizationCode) {
		return invalidMetadata("grant_types", "it must hold authorization_code; supported are %s", strings.Join(supportedGrants, ", "))
	}
	return nil
}

// forbiddenGrant returns an error about the first grant that OAuth 2.1 removed or that the
// policy does not allow.
func (p *Policy) forbiddenGrant(grants []string) error {
	for _, grant := range grants {
		if grant == "implicit" || grant == "password" {
			// OAuth 2.1 section 10.
			return invalidMetadata("grant_types", "the %s grant does not exist in OAuth 2.1; use authorization_code", grant)
		}
		if slices.Contains(supportedGrants, grant) && !p.allowsGrant(grant) {
			return invalidMetadata("grant_types", "%s is not allowed here; allowed are %s", grant, strings.Join(p.GrantTypes, ", "))
		}
	}
	return nil
}

// requestedGrants returns the grants that were asked for and are supported, or the default
// if grant_types was omitted.
func (r *scopeRules) requestedGrants(asked metadata.Client) (grants []string) {
	if len(asked.GrantTypes) == 0 {
		// RFC 7591 section 2: if omitted, the default is authorization_code alone. A client
		// that asks for offline_access wants refresh tokens as well.
		if r.scopes[offlineAccess] && r.policy.allowsGrant(metadata.GrantRefreshToken) && slices.Contains(strings.Fields(asked.Scope), offlineAccess) {
			return slices.Clone(supportedGrants)
		}
		return []string{metadata.GrantAuthorizationCode}
	}
	for _, grant := range supportedGrants {
		if slices.Contains(asked.GrantTypes, grant) {
			grants = append(grants, grant)
		}
	}
	return grants
}

// responseTypes registers code and refuses every other response type. It is consistent with
// the authorization_code grant, which every client has (RFC 7591 section 2.1).
func responseTypes(asked metadata.Client, m *metadata.Client) error {
	for _, responseType := range asked.ResponseTypes {
		if responseType != responseCode {
			return invalidMetadata("response_types", "%.64q is not supported; only code is", responseType)
		}
	}
	m.ResponseTypes = []string{responseCode}
	return nil
}

// registrable refuses scopes of this server that the policy does not allow. If they were
// left out without an error, a developer would not see why the client lacks them.
func (r *scopeRules) registrable(asked metadata.Client, _ *metadata.Client) error {
	for scope := range strings.FieldsSeq(asked.Scope) {
		if r.scopes[scope] && !r.policy.allowsScope(scope) {
			return invalidMetadata("scope", "%.64q cannot be registered here; register without it", scope)
		}
	}
	return nil
}

// scope registers the scopes of this server that were asked for, each once.
func (r *scopeRules) scope(asked metadata.Client, m *metadata.Client) error {
	var kept []string
	for scope := range strings.FieldsSeq(asked.Scope) {
		if r.scopes[scope] && !slices.Contains(kept, scope) {
			kept = append(kept, scope)
		}
	}
	m.Scope = strings.Join(kept, " ")
	return nil
}

// applicationType registers the application type, which has no effect: clients in use mix
// https, loopback and private-use redirect URIs under either value. An unknown value is left
// out.
func applicationType(asked metadata.Client, m *metadata.Client) error {
	if asked.ApplicationType == "web" || asked.ApplicationType == "native" {
		m.ApplicationType = asked.ApplicationType
	}
	return nil
}

// absent reports whether a member is missing or null. Both mean that it was left out.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
