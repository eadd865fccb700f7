package dcr

import (
	"cmp"
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

// effective returns what will be registered for a request: what the client asked for,
// with defaults filled in and what is not supported left out (RFC 7591 section 3.2.1 lets
// the server replace values). What must not be is refused. The client has no identity
// yet.
func (cs *Clients) effective(asked request) (storage.Client, error) {
	// The statement comes first: its values take precedence over the others (RFC 7591
	// section 2.3).
	asked, statement, err := cs.statements.believe(asked, cs.now())
	if err != nil {
		return storage.Client{}, err
	}
	c := storage.Client{Source: storage.ClientRegistered, SoftwareStatement: statement}
	for _, member := range []func(asked metadata.Client, m *metadata.Client) error{
		cs.policy.redirectURIs, authMethod, signingAlgorithm, cs.grantTypes, responseTypes, cs.registrable, cs.scope, applicationType,
		texts, links, keys, boundTokens,
	} {
		if err := member(asked.Client, &c.Metadata); err != nil {
			return storage.Client{}, err
		}
	}
	if c.Localized, err = localized(asked.members); err != nil {
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

// boundTokens refuses a client that promises to prove possession of a key with every
// request (RFC 9449 section 5.2). Nothing here binds a token to a key: such a client
// would get bearer tokens and take them for bound ones.
func boundTokens(asked metadata.Client, _ *metadata.Client) error {
	if asked.DPoPBoundAccessTokens {
		return invalidMetadata("dpop_bound_access_tokens", "proofs of possession are not supported here, tokens would be bearer tokens; register without it if that will do")
	}
	return nil
}

// grantTypes keeps the grants that exist here. Clients list whatever they can do, such as
// the device grant, and work without it; they are told what is left. A grant that OAuth
// 2.1 removed is refused, and so is a request of which nothing usable is left.
func (cs *Clients) grantTypes(asked metadata.Client, m *metadata.Client) error {
	for _, grant := range asked.GrantTypes {
		if grant == "implicit" || grant == "password" {
			// OAuth 2.1 section 10.
			return invalidMetadata("grant_types", "the %s grant does not exist in OAuth 2.1; use authorization_code", grant)
		}
		if slices.Contains(supportedGrants, grant) && !cs.policy.allowsGrant(grant) {
			return invalidMetadata("grant_types", "%s is not allowed here; allowed are %s", grant, strings.Join(cs.policy.GrantTypes, ", "))
		}
	}
	for _, grant := range supportedGrants {
		if slices.Contains(asked.GrantTypes, grant) {
			m.GrantTypes = append(m.GrantTypes, grant)
		}
	}
	if len(asked.GrantTypes) == 0 {
		// RFC 7591 section 2: if omitted, the default is authorization_code alone. A
		// client that asks for offline_access says in another way that it wants more.
		m.GrantTypes = []string{metadata.GrantAuthorizationCode}
		if cs.scopes[offlineAccess] && cs.policy.allowsGrant(metadata.GrantRefreshToken) && slices.Contains(strings.Fields(asked.Scope), offlineAccess) {
			m.GrantTypes = slices.Clone(supportedGrants)
		}
	}
	if !slices.Contains(m.GrantTypes, metadata.GrantAuthorizationCode) {
		return invalidMetadata("grant_types", "it must hold authorization_code; supported are %s", strings.Join(supportedGrants, ", "))
	}
	return nil
}

// responseTypes wants code, which is consistent with the authorization_code grant that
// every client has (RFC 7591 section 2.1).
func responseTypes(asked metadata.Client, m *metadata.Client) error {
	for _, responseType := range asked.ResponseTypes {
		if responseType != responseCode {
			return invalidMetadata("response_types", "%.64q is not supported; only code is", responseType)
		}
	}
	m.ResponseTypes = []string{responseCode}
	return nil
}

// registrable refuses scopes that exist here and may not be registered: left out, the
// client would go on without knowing why.
func (cs *Clients) registrable(asked metadata.Client, _ *metadata.Client) error {
	for scope := range strings.FieldsSeq(asked.Scope) {
		if cs.scopes[scope] && !cs.policy.allowsScope(scope) {
			return invalidMetadata("scope", "%.64q cannot be registered here; register without it", scope)
		}
	}
	return nil
}

// scope keeps the scopes that exist here, each once.
func (cs *Clients) scope(asked metadata.Client, m *metadata.Client) error {
	var kept []string
	for scope := range strings.FieldsSeq(asked.Scope) {
		if cs.scopes[scope] && !slices.Contains(kept, scope) {
			kept = append(kept, scope)
		}
	}
	m.Scope = strings.Join(kept, " ")
	return nil
}

// applicationType is recorded and decides nothing: real clients mix https, loopback and
// private-use redirect URIs under either value. An unknown one is left out.
func applicationType(asked metadata.Client, m *metadata.Client) error {
	if asked.ApplicationType == "web" || asked.ApplicationType == "native" {
		m.ApplicationType = asked.ApplicationType
	}
	return nil
}

// absent says whether a member is missing or null. Both mean that it was left out.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
