package dcr

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"gatehouse.example/metadata"
)

const (
	responseCode  = "code"
	offlineAccess = "offline_access"
)

var (
	supportedMethods = []string{metadata.AuthMethodNone, metadata.AuthMethodBasic, metadata.AuthMethodPost}
	supportedGrants  = []string{metadata.GrantAuthorizationCode, metadata.GrantRefreshToken}
)

// effective returns the metadata that will be registered for a request: what the client
// asked for, with defaults filled in and what is not supported left out (RFC 7591
// section 3.2.1 lets the server replace values). What must not be is refused.
func (r *Registry) effective(asked request) (metadata.Client, error) {
	// The statement comes first: its values would take precedence over the others
	// (RFC 7591 section 2.3).
	if err := softwareStatement(asked.SoftwareStatement); err != nil {
		return metadata.Client{}, err
	}
	var m metadata.Client
	for _, member := range []func(asked metadata.Client, m *metadata.Client) error{
		r.policy.redirectURIs, authMethod, r.grantTypes, responseTypes, r.scope, applicationType, texts, links, keys,
	} {
		if err := member(asked.Client, &m); err != nil {
			return metadata.Client{}, err
		}
	}
	return m, nil
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

// grantTypes keeps the grants that exist here. Clients list whatever they can do, such as
// the device grant, and work without it; they are told what is left. A grant that OAuth
// 2.1 removed is refused, and so is a request of which nothing usable is left.
func (r *Registry) grantTypes(asked metadata.Client, m *metadata.Client) error {
	for _, grant := range asked.GrantTypes {
		if grant == "implicit" || grant == "password" {
			// OAuth 2.1 section 10.
			return invalidMetadata("grant_types", "the %s grant does not exist in OAuth 2.1; use authorization_code", grant)
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
		if r.scopes[offlineAccess] && slices.Contains(strings.Fields(asked.Scope), offlineAccess) {
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

// scope keeps the scopes that exist here, each once.
func (r *Registry) scope(asked metadata.Client, m *metadata.Client) error {
	var kept []string
	for scope := range strings.FieldsSeq(asked.Scope) {
		if r.scopes[scope] && !slices.Contains(kept, scope) {
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

// softwareStatement refuses every software statement (RFC 7591 section 2.3): nobody is
// trusted to issue one here, and ignoring it would register something else than what it
// says.
func softwareStatement(raw json.RawMessage) error {
	if absent(raw) {
		return nil
	}
	var statement string
	if json.Unmarshal(raw, &statement) != nil || strings.Count(statement, ".") != 2 {
		return refuse(codeInvalidStatement, "software_statement", "it is not a signed JWT")
	}
	return refuse(codeUnapprovedStatement, "software_statement", "no issuer of software statements is trusted here; register without one")
}

// absent says whether a member is missing or null. Both mean that it was left out.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
