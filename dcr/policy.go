package dcr

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// Policy is what a deployment allows to be registered. The zero value allows every
// redirect URI that [metadata.ParseRedirect] accepts, but for private-use schemes that
// anybody could claim, and every scope and grant type that exists. It does not concern
// clients of the configuration, nor what a client registered before.
type Policy struct {
	// RefusePrivateUse refuses redirect URIs with a private-use scheme (RFC 8252
	// section 7.1), such as cursor://anysphere.cursor-mcp/oauth/callback.
	RefusePrivateUse bool
	// PrivateUseSchemes, if not empty, are the only private-use schemes allowed, in
	// lowercase and without the colon. Errors may be redirected to these at once; see
	// [Clients.AllowsScheme]. Set it for clients whose scheme is neither a domain name in
	// reverse order, such as com.example.app, nor that of a client that is widely used, such
	// as cursor: without a list, only those are allowed.
	PrivateUseSchemes []string
	// RefuseLoopback refuses redirect URIs on loopback addresses, which programs on
	// people's own machines use.
	RefuseLoopback bool
	// RedirectHosts, if not empty, are the only hosts of https redirect URIs, whatever
	// their port: a name in lowercase, or "*.example.com" for every name below
	// example.com.
	RedirectHosts []string
	// Scopes, if not empty, are the only scopes that clients may register. What a client
	// registers does not limit what it asks for later; [Clients.MayAskFor] does.
	Scopes []string
	// GrantTypes, if not empty, are the only grant types that clients may register.
	// authorization_code must be one of them.
	GrantTypes []string
}

// MayAskFor reports whether a client may ask for a scope. The policy limits clients that
// nobody vouches for: not to register a scope keeps none of them from asking.
func (cs *Clients) MayAskFor(c storage.Client, scope string) bool {
	return cs.Vouched(c) || cs.policy.allowsScope(scope)
}

// AllowsScheme reports whether the operator named a private-use scheme as one of those that
// clients may have. Without such a list none was named.
func (cs *Clients) AllowsScheme(scheme string) bool {
	return slices.Contains(cs.policy.PrivateUseSchemes, scheme)
}

func (p Policy) allowsScope(scope string) bool {
	return len(p.Scopes) == 0 || scope == offlineAccess || slices.Contains(p.Scopes, scope)
}

func (p Policy) allowsGrant(grant string) bool {
	return len(p.GrantTypes) == 0 || slices.Contains(p.GrantTypes, grant)
}

// validate returns every mistake in a policy.
func (p Policy) validate() error {
	var errs []error
	for _, scheme := range p.PrivateUseSchemes {
		if scheme == "" || strings.ToLower(scheme) != scheme || strings.ContainsAny(scheme, ":/ ") {
			errs = append(errs, fmt.Errorf("dcr: policy: private-use scheme %q: write it in lowercase, without a colon", scheme))
		}
	}
	for _, host := range p.RedirectHosts {
		if !validPattern(host) {
			errs = append(errs, fmt.Errorf("dcr: policy: redirect host %q is neither a host in lowercase nor *. and a host", host))
		}
	}
	if len(p.GrantTypes) > 0 && (!subset(p.GrantTypes, supportedGrants) || !p.allowsGrant(metadata.GrantAuthorizationCode)) {
		errs = append(errs, errors.New("dcr: policy: grant types must be authorization_code, with or without refresh_token"))
	}
	return errors.Join(errs...)
}

// validPattern says whether a redirect host of a policy can match anything.
func validPattern(pattern string) bool {
	host := strings.TrimPrefix(pattern, "*.")
	uri, err := metadata.ParseRedirect("https://" + host + "/")
	return err == nil && uri.Host() == host && strings.ToLower(host) == host && !strings.ContainsAny(host, ":[")
}

// refuses says why a redirect URI cannot be registered, or "".
func (p Policy) refuses(raw string) string {
	uri, err := metadata.ParseRedirect(raw)
	if err != nil {
		why := err.Error()
		if _, reason, ok := strings.Cut(why, metadata.ErrRedirectURI.Error()+": "); ok {
			why = reason
		}
		return why
	}
	switch uri.Kind {
	case metadata.RedirectPrivateUse:
		return p.refusesScheme(raw)
	case metadata.RedirectLoopback:
		if p.RefuseLoopback {
			return "redirects to loopback addresses are not allowed here; use https"
		}
	case metadata.RedirectWeb:
		return p.refusesHost(raw)
	}
	return ""
}

func (p Policy) refusesScheme(raw string) string {
	scheme, _, _ := strings.Cut(raw, ":")
	switch {
	case p.RefusePrivateUse:
		return "private-use schemes are not allowed here; use https or http on a loopback address"
	case len(p.PrivateUseSchemes) > 0 && !slices.Contains(p.PrivateUseSchemes, scheme):
		return fmt.Sprintf("the scheme %.64q is not one of those allowed here: %s", scheme, strings.Join(p.PrivateUseSchemes, ", "))
	case len(p.PrivateUseSchemes) == 0 && !reverseDomain(scheme) && !slices.Contains(knownSchemes, scheme):
		return fmt.Sprintf("the scheme %.64q could be anybody's: use a domain name of yours in reverse order, such as com.example.app, or http on a loopback address", scheme)
	}
	return ""
}

func (p Policy) refusesHost(raw string) string {
	if len(p.RedirectHosts) == 0 {
		return ""
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "it is not a URL"
	}
	host := strings.ToLower(u.Hostname())
	for _, pattern := range p.RedirectHosts {
		below, wild := strings.CutPrefix(pattern, "*")
		if host == pattern || wild && strings.HasSuffix(host, below) {
			return ""
		}
	}
	return fmt.Sprintf("the host %.100q is not one of those allowed here", host)
}
