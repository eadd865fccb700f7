package metadata

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Resource is the protected resource metadata of RFC 9728 section 2.
type Resource struct {
	// Resource ("resource"): the resource identifier, byte for byte the URL that
	// clients dial.
	Resource string `json:"resource"`
	// AuthorizationServers ("authorization_servers"): issuer identifiers, at least
	// one (requirement R-DIS-1, RFC 9728 section 2).
	AuthorizationServers []string `json:"authorization_servers"`
	// ScopesSupported ("scopes_supported"): never offline_access.
	ScopesSupported []string `json:"scopes_supported,omitempty"`
	// BearerMethodsSupported ("bearer_methods_supported"): always ["header"].
	BearerMethodsSupported []string `json:"bearer_methods_supported,omitempty"`
	// ResourceName ("resource_name"): a name to show to people.
	ResourceName string `json:"resource_name,omitempty"`
	// ResourceDocumentation ("resource_documentation"): a page for developers.
	ResourceDocumentation string `json:"resource_documentation,omitempty"`
	JWKSURI               string `json:"jwks_uri,omitempty"`

	// DPoPSigningAlgValuesSupported ("dpop_signing_alg_values_supported"): for proofs of clients;
	// never symmetric.
	DPoPSigningAlgValuesSupported []string `json:"dpop_signing_alg_values_supported,omitempty"`
	// DPoPBoundAccessTokensRequired ("dpop_bound_access_tokens_required"): bearer tokens are
	// refused.
	DPoPBoundAccessTokensRequired bool `json:"dpop_bound_access_tokens_required,omitempty"`
	// TLSClientCertificateBoundAccessTokens ("tls_client_certificate_bound_access_tokens"): tokens
	// may be bound to a certificate (RFC 8705).
	TLSClientCertificateBoundAccessTokens bool `json:"tls_client_certificate_bound_access_tokens,omitempty"`
}

// Validate checks a document before it is served. Its error joins every mistake.
func (m Resource) Validate() error {
	errs := []error{fault("resource", resourceFault(m.Resource))}
	if len(m.AuthorizationServers) == 0 {
		// Requirement R-DIS-1: the document MUST hold at least one authorization server.
		errs = append(errs, errors.New("metadata: authorization_servers: name at least one"))
	}
	for _, issuer := range m.AuthorizationServers {
		errs = append(errs, fault("authorization_servers", issuerFault(issuer)))
	}
	errs = append(errs,
		distinct("authorization_servers", m.AuthorizationServers),
		validScopes(m.ScopesSupported),
		validURL("resource_documentation", m.ResourceDocumentation),
		validURL("jwks_uri", m.JWKSURI))
	if slices.Contains(m.ScopesSupported, "offline_access") {
		// Refresh tokens concern a client and its authorization server only.
		errs = append(errs, errors.New("metadata: scopes_supported: offline_access is not a scope of a resource"))
	}
	if slices.ContainsFunc(m.BearerMethodsSupported, func(method string) bool { return method != "header" }) {
		// OAuth 2.1 section 5.1.1: a token is never sent in the query or a form body.
		errs = append(errs, errors.New(`metadata: bearer_methods_supported: only "header" is allowed`))
	}
	for _, algorithm := range m.DPoPSigningAlgValuesSupported {
		if algorithm == "" || algorithm == "none" || strings.HasPrefix(algorithm, "HS") {
			// RFC 9728 section 2, RFC 9449 section 5.1: the value "none" and MACs are not allowed.
			errs = append(errs, fmt.Errorf("metadata: dpop_signing_alg_values_supported: %q is not an algorithm for proofs", algorithm))
		}
	}
	return errors.Join(errs...)
}

// ValidResource returns an error unless raw can be a resource identifier (RFC 9728 section 1.2): an
// https URL, or an http URL on loopback, without fragment, user information or dot segments, in its
// canonical form. The path "/" may be written.
func ValidResource(raw string) error {
	if why := resourceFault(raw); why != "" {
		return errors.New("metadata: resource: " + why)
	}
	return nil
}

// resourceFault returns what is wrong with a resource identifier, or "". It must be in its
// canonical form. The path "/" is also allowed, because clients compare the identifier with the
// URL that a person entered.
func resourceFault(raw string) string {
	canonical, why := canonical(raw)
	if why != "" {
		return why
	}
	u, err := url.Parse(canonical)
	switch {
	case err != nil:
		return "it cannot be parsed"
	case raw != canonical && raw != canonical+"/":
		return "write it in its canonical form, " + canonical
	case hasDotSegment(u):
		return "it must not have dot segments, because clients remove them"
	case u.Scheme == "http" && !IsLoopbackHost(u.Hostname()):
		// RFC 9728 section 1.2: a resource identifier uses the https scheme.
		return "it must be https unless the host is loopback"
	}
	return ""
}
