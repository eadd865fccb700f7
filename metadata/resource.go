package metadata

// Resource is the protected resource metadata of RFC 9728 section 2.
type Resource struct {
	// Resource ("resource"): the resource identifier, byte for byte the URL that
	// clients dial.
	Resource string `json:"resource"`
	// AuthorizationServers ("authorization_servers"): issuer identifiers, at least
	// one (the seed, Discovery 1).
	AuthorizationServers []string `json:"authorization_servers"`
	// ScopesSupported ("scopes_supported"): never offline_access.
	ScopesSupported []string `json:"scopes_supported,omitempty"`
	// BearerMethodsSupported ("bearer_methods_supported"): always ["header"].
	BearerMethodsSupported []string `json:"bearer_methods_supported,omitempty"`
	// ResourceName ("resource_name"): for people.
	ResourceName string `json:"resource_name,omitempty"`
	// ResourceDocumentation ("resource_documentation"): a page for developers.
	ResourceDocumentation string `json:"resource_documentation,omitempty"`
	JWKSURI               string `json:"jwks_uri,omitempty"`
}
