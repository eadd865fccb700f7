package metadata

import (
	"errors"
	"slices"
)

// AuthorizationServer is the authorization server metadata of RFC 8414 section 2,
// with the additions of RFC 9207 (iss) and RFC 9728 section 4 (protected_resources).
type AuthorizationServer struct {
	Issuer                            string   `json:"issuer"`
	AuthorizationEndpoint             string   `json:"authorization_endpoint,omitempty"`
	TokenEndpoint                     string   `json:"token_endpoint,omitempty"`
	JWKSURI                           string   `json:"jwks_uri,omitempty"`
	RegistrationEndpoint              string   `json:"registration_endpoint,omitempty"`
	ScopesSupported                   []string `json:"scopes_supported,omitempty"`
	ResponseTypesSupported            []string `json:"response_types_supported"`
	ResponseModesSupported            []string `json:"response_modes_supported,omitempty"`
	GrantTypesSupported               []string `json:"grant_types_supported,omitempty"`
	TokenEndpointAuthMethodsSupported []string `json:"token_endpoint_auth_methods_supported,omitempty"`
	TokenEndpointAuthSigningAlgs      []string `json:"token_endpoint_auth_signing_alg_values_supported,omitempty"`
	ServiceDocumentation              string   `json:"service_documentation,omitempty"`
	RevocationEndpoint                string   `json:"revocation_endpoint,omitempty"`
	RevocationEndpointAuthMethods     []string `json:"revocation_endpoint_auth_methods_supported,omitempty"`
	RevocationEndpointAuthSigningAlgs []string `json:"revocation_endpoint_auth_signing_alg_values_supported,omitempty"`
	IntrospectionEndpoint             string   `json:"introspection_endpoint,omitempty"`
	IntrospectionEndpointAuthMethods  []string `json:"introspection_endpoint_auth_methods_supported,omitempty"`
	CodeChallengeMethodsSupported     []string `json:"code_challenge_methods_supported,omitempty"`
	AuthorizationResponseIssParameter bool     `json:"authorization_response_iss_parameter_supported,omitempty"`
	ProtectedResources                []string `json:"protected_resources,omitempty"`
	ClientIDMetadataDocumentSupported bool     `json:"client_id_metadata_document_supported,omitempty"`
}

// Validate checks a document before it is served. Its error joins every mistake.
func (m AuthorizationServer) Validate() error {
	errs := []error{fault("issuer", issuerFault(m.Issuer)), m.validEndpoints(), m.validLists(), m.validCodeFlow()}
	for _, resource := range m.ProtectedResources {
		errs = append(errs, fault("protected_resources", resourceFault(resource)))
	}
	return errors.Join(errs...)
}

func (m AuthorizationServer) validEndpoints() error {
	return errors.Join(
		validURL("authorization_endpoint", m.AuthorizationEndpoint),
		validURL("token_endpoint", m.TokenEndpoint),
		validURL("jwks_uri", m.JWKSURI),
		validURL("registration_endpoint", m.RegistrationEndpoint),
		validURL("service_documentation", m.ServiceDocumentation),
		validURL("revocation_endpoint", m.RevocationEndpoint),
		validURL("introspection_endpoint", m.IntrospectionEndpoint))
}

func (m AuthorizationServer) validLists() error {
	errs := []error{
		validScopes(m.ScopesSupported),
		distinct("response_types_supported", m.ResponseTypesSupported),
		distinct("response_modes_supported", m.ResponseModesSupported),
		distinct("grant_types_supported", m.GrantTypesSupported),
		distinct("token_endpoint_auth_methods_supported", m.TokenEndpointAuthMethodsSupported),
		distinct("token_endpoint_auth_signing_alg_values_supported", m.TokenEndpointAuthSigningAlgs),
		validAlgs("token_endpoint_auth_signing_alg_values_supported", m.TokenEndpointAuthMethodsSupported, m.TokenEndpointAuthSigningAlgs),
		distinct("revocation_endpoint_auth_methods_supported", m.RevocationEndpointAuthMethods),
		distinct("revocation_endpoint_auth_signing_alg_values_supported", m.RevocationEndpointAuthSigningAlgs),
		validAlgs("revocation_endpoint_auth_signing_alg_values_supported", m.RevocationEndpointAuthMethods, m.RevocationEndpointAuthSigningAlgs),
		distinct("introspection_endpoint_auth_methods_supported", m.IntrospectionEndpointAuthMethods),
		distinct("code_challenge_methods_supported", m.CodeChallengeMethodsSupported),
		distinct("protected_resources", m.ProtectedResources),
	}
	if m.ResponseTypesSupported == nil {
		// RFC 8414 section 2: response_types_supported is REQUIRED.
		errs = append(errs, errors.New("metadata: response_types_supported is missing"))
	}
	if m.RevocationEndpoint == "" && m.RevocationEndpointAuthMethods != nil {
		errs = append(errs, errors.New("metadata: revocation_endpoint_auth_methods_supported: there is no revocation_endpoint"))
	}
	if m.IntrospectionEndpoint == "" && m.IntrospectionEndpointAuthMethods != nil {
		errs = append(errs, errors.New("metadata: introspection_endpoint_auth_methods_supported: there is no introspection_endpoint"))
	}
	return errors.Join(errs...)
}

// validAlgs checks the algorithms of an endpoint against its authentication methods.
func validAlgs(member string, methods, algs []string) error {
	switch {
	case slices.Contains(methods, AuthMethodPrivateKeyJWT) != (len(algs) > 0):
		// RFC 8414 section 2: MUST be present if an authentication method with signatures is.
		return errors.New("metadata: " + member + ": it must be present exactly if private_key_jwt is listed")
	case slices.Contains(algs, "none"):
		return errors.New(`metadata: ` + member + `: "none" MUST NOT be used`) // RFC 8414 section 2
	}
	return nil
}

// validCodeFlow checks that a server with the authorization code grant has the endpoints,
// response type and challenge methods for it. Without a list of grant types, the default of RFC
// 8414 section 2 includes authorization_code.
func (m AuthorizationServer) validCodeFlow() error {
	if m.GrantTypesSupported != nil && !slices.Contains(m.GrantTypesSupported, GrantAuthorizationCode) {
		return nil
	}
	var errs []error
	if m.AuthorizationEndpoint == "" || m.TokenEndpoint == "" {
		// RFC 8414 section 2: both are REQUIRED for the code grant.
		errs = append(errs, errors.New("metadata: the authorization code grant needs authorization_endpoint and token_endpoint"))
	}
	if m.ResponseTypesSupported != nil && !slices.Contains(m.ResponseTypesSupported, "code") {
		errs = append(errs, errors.New(`metadata: response_types_supported: the authorization code grant needs "code"`))
	}
	if !slices.Contains(m.CodeChallengeMethodsSupported, "S256") {
		// Clients MUST refuse a server that does not announce PKCE (OAuth 2.1 section 7.5.2).
		errs = append(errs, errors.New(`metadata: code_challenge_methods_supported: the authorization code grant needs "S256"`))
	}
	if slices.Contains(m.CodeChallengeMethodsSupported, "plain") {
		errs = append(errs, errors.New(`metadata: code_challenge_methods_supported: "plain" protects nothing`))
	}
	return errors.Join(errs...)
}
