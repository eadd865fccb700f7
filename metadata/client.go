package metadata

import (
	"encoding/json"

	"gatehouse.example/internal/appendjson"
	"gatehouse.example/internal/readjson"
)

// Client is the client metadata of RFC 7591 section 2, an untrusted self-assertion of the
// client (RFC 7591 section 5).
type Client struct {
	// RedirectURIs ("redirect_uris"): the URIs to which authorization responses may be sent.
	RedirectURIs []string `json:"redirect_uris,omitempty"`
	// TokenEndpointAuthMethod ("token_endpoint_auth_method"): none,
	// client_secret_basic, client_secret_post or private_key_jwt.
	TokenEndpointAuthMethod string `json:"token_endpoint_auth_method,omitempty"`
	// TokenEndpointAuthSigningAlg ("token_endpoint_auth_signing_alg"): the only algorithm
	// of the client's assertions, or empty (OpenID Connect Dynamic Client Registration 1.0
	// section 2).
	TokenEndpointAuthSigningAlg string `json:"token_endpoint_auth_signing_alg,omitempty"`
	// GrantTypes ("grant_types"): authorization_code, refresh_token.
	GrantTypes []string `json:"grant_types,omitempty"`
	// ResponseTypes ("response_types"): code.
	ResponseTypes []string `json:"response_types,omitempty"`
	// ClientName ("client_name"): shown to people, never trusted.
	ClientName string `json:"client_name,omitempty"`
	// ClientURI ("client_uri"): the client's home page.
	ClientURI string `json:"client_uri,omitempty"`
	// LogoURI ("logo_uri"): a picture. The authorization server never makes browsers fetch it.
	LogoURI string `json:"logo_uri,omitempty"`
	// Scope ("scope"): space-separated.
	Scope string `json:"scope,omitempty"`
	// Contacts ("contacts"): ways to reach the people responsible.
	Contacts []string `json:"contacts,omitempty"`
	// TOSURI ("tos_uri") and PolicyURI ("policy_uri"): terms and privacy policy.
	TOSURI    string `json:"tos_uri,omitempty"`
	PolicyURI string `json:"policy_uri,omitempty"`
	// JWKSURI ("jwks_uri") and JWKS ("jwks"): public keys by reference or by value;
	// at most one of them.
	JWKSURI string          `json:"jwks_uri,omitempty"`
	JWKS    json.RawMessage `json:"jwks,omitempty"`
	// SoftwareID ("software_id") and SoftwareVersion ("software_version").
	SoftwareID      string `json:"software_id,omitempty"`
	SoftwareVersion string `json:"software_version,omitempty"`
	// ApplicationType ("application_type"): native or web (OpenID Connect Dynamic
	// Client Registration 1.0 section 2).
	ApplicationType string `json:"application_type,omitempty"`
	// DPoPBoundAccessTokens ("dpop_bound_access_tokens"): the client always sends proofs
	// of possession (RFC 9449 section 5.2).
	DPoPBoundAccessTokens bool `json:"dpop_bound_access_tokens,omitempty"`
	// CertificateBoundAccessTokens ("tls_client_certificate_bound_access_tokens"): the client
	// wants tokens that are bound to its certificate (RFC 8705 section 3.4).
	CertificateBoundAccessTokens bool `json:"tls_client_certificate_bound_access_tokens,omitempty"`
	// RequirePushedRequests ("require_pushed_authorization_requests"): authorization requests
	// of the client are pushed only (RFC 9126 section 6).
	RequirePushedRequests bool `json:"require_pushed_authorization_requests,omitempty"`
	// RequireSignedRequests ("require_signed_request_object"): authorization requests of the
	// client are signed only (RFC 9101 section 10.5).
	RequireSignedRequests bool `json:"require_signed_request_object,omitempty"`
}

// The supported token endpoint authentication methods of RFC 7591 section 2.
const (
	AuthMethodNone  = "none"
	AuthMethodBasic = "client_secret_basic"
	AuthMethodPost  = "client_secret_post"
	// AuthMethodPrivateKeyJWT is an assertion signed with the client's private key (RFC
	// 7523 section 2.2).
	AuthMethodPrivateKeyJWT = "private_key_jwt"
)

// The supported grant types of RFC 7591 section 2.
const (
	GrantAuthorizationCode = "authorization_code"
	GrantRefreshToken      = "refresh_token"
)

// Public reports whether the client has no way to authenticate (RFC 6749 section 2.1).
func (c Client) Public() bool { return c.TokenEndpointAuthMethod == AuthMethodNone }

// AppendJSON appends c as [json.Marshal] writes it, without reflection. The error is that of a JWKS that
// is not JSON.
func (c Client) AppendJSON(dst []byte) ([]byte, error) {
	o := appendjson.Begin(dst)
	o.ListIfAny("redirect_uris", c.RedirectURIs)
	o.TextIfAny("token_endpoint_auth_method", c.TokenEndpointAuthMethod)
	o.TextIfAny("token_endpoint_auth_signing_alg", c.TokenEndpointAuthSigningAlg)
	o.ListIfAny("grant_types", c.GrantTypes)
	o.ListIfAny("response_types", c.ResponseTypes)
	o.TextIfAny("client_name", c.ClientName)
	o.TextIfAny("client_uri", c.ClientURI)
	o.TextIfAny("logo_uri", c.LogoURI)
	o.TextIfAny("scope", c.Scope)
	o.ListIfAny("contacts", c.Contacts)
	o.TextIfAny("tos_uri", c.TOSURI)
	o.TextIfAny("policy_uri", c.PolicyURI)
	o.TextIfAny("jwks_uri", c.JWKSURI)
	if len(c.JWKS) > 0 {
		o.Any("jwks", c.JWKS)
	}
	o.TextIfAny("software_id", c.SoftwareID)
	o.TextIfAny("software_version", c.SoftwareVersion)
	o.TextIfAny("application_type", c.ApplicationType)
	o.FlagIfSet("dpop_bound_access_tokens", c.DPoPBoundAccessTokens)
	o.FlagIfSet("tls_client_certificate_bound_access_tokens", c.CertificateBoundAccessTokens)
	o.FlagIfSet("require_pushed_authorization_requests", c.RequirePushedRequests)
	o.FlagIfSet("require_signed_request_object", c.RequireSignedRequests)
	return o.End()
}

// ReadJSON reads what [Client.AppendJSON] appended into c, which is zero, without reflection. It returns
// what follows, and false for a text in another form: then [json.Unmarshal] may still read it. Strings
// of c are parts of the text.
func (c *Client) ReadJSON(text string) (rest string, ok bool) {
	o := readjson.Begin(text)
	o.List("redirect_uris", &c.RedirectURIs)
	o.Text("token_endpoint_auth_method", &c.TokenEndpointAuthMethod)
	o.Text("token_endpoint_auth_signing_alg", &c.TokenEndpointAuthSigningAlg)
	o.List("grant_types", &c.GrantTypes)
	o.List("response_types", &c.ResponseTypes)
	o.Text("client_name", &c.ClientName)
	o.Text("client_uri", &c.ClientURI)
	o.Text("logo_uri", &c.LogoURI)
	o.Text("scope", &c.Scope)
	o.List("contacts", &c.Contacts)
	o.Text("tos_uri", &c.TOSURI)
	o.Text("policy_uri", &c.PolicyURI)
	o.Text("jwks_uri", &c.JWKSURI)
	o.Any("jwks", &c.JWKS)
	o.Text("software_id", &c.SoftwareID)
	o.Text("software_version", &c.SoftwareVersion)
	o.Text("application_type", &c.ApplicationType)
	o.Flag("dpop_bound_access_tokens", &c.DPoPBoundAccessTokens)
	o.Flag("tls_client_certificate_bound_access_tokens", &c.CertificateBoundAccessTokens)
	o.Flag("require_pushed_authorization_requests", &c.RequirePushedRequests)
	o.Flag("require_signed_request_object", &c.RequireSignedRequests)
	return o.End()
}
