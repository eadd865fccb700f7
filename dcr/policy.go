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

// Policy restricts what clients may register. The zero value allows every supported scope and
// grant type, and every redirect URI that [metadata.ParseRedirect] accepts, except for
// private-use schemes that any client could claim. It does not apply to configured clients or
// to existing registrations.
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
	// RefuseLoopback refuses redirect URIs on loopback addresses, which programs on people's
	// own machines use. Set it when all clients are web services.
	RefuseLoopback bool
	// RedirectHosts, if not empty, are the only hosts of https redirect URIs, with any port:
	// a name in lowercase, or "*.example.com" for every name below example.com. Set it when
	// the web clients are known.
	RedirectHosts []string
	// Scopes, if not empty, are the only scopes that clients may register. A client may later
	// request scopes that it did not register; see [Clients.MayAskFor].
	Scopes []string
	// GrantTypes, if not empty, are the only grant types that clients may register.
	// authorization_code must be one of them.
	GrantTypes []string
}

// MayAskFor reports whether a client may request a scope. The policy limits clients that the
// operator does not vouch for, whether or not they registered the scope.
func (cs *Clients) MayAskFor(c storage.Client, scope string) bool {
	return cs.Vouched(c) || cs.policy.allowsScope(scope)
}

// AllowsScheme reports whether a private-use scheme is listed in [Policy.PrivateUseSchemes].
func (cs *Clients) AllowsScheme(scheme string) bool {
	return slices.Contains(cs.policy.PrivateUseSchemes, scheme)
}

func (p *Policy) allowsScope(scope string) bool {
	return len(p.Scopes) == 0 || scope == offlineAccess || slices.Contains(p.Scopes, scope)
}

func (p *Policy) allowsGrant(grant string) bool {
	return len(p.GrantTypes) == 0 || slices.Contains(p.GrantTypes, grant)
}

// validate returns every mistake in a policy.
func (p *Policy) validate() error {
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
	for _, scope := range p.Scopes {
		if !metadata.ValidScope(scope) {
			errs = append(errs, fmt.Errorf("dcr: policy: scope %q is no scope: write the name of one, without spaces, and each as an element of its own", scope))
		}
	}
	if len(p.GrantTypes) > 0 && (!subset(p.GrantTypes, supportedGrants) || !p.allowsGrant(metadata.GrantAuthorizationCode)) {
		errs = append(errs, errors.New("dcr: policy: grant types must be authorization_code, with or without refresh_token"))
	}
	return errors.Join(errs...)
}

// validPattern reports whether a redirect host of a policy can match a host.
func validPattern(pattern string) bool {
	host := strings.TrimPrefix(pattern, "*.")
	uri, err := metadata.ParseRedirect("https://" + host + "/")
	return err == nil && uri.Host() == host && strings.ToLower(host) == host && !strings.ContainsAny(host, ":[")
}

// refuses returns why a redirect URI cannot be registered, or "" if it can.
func (p *Policy) refuses(raw string) string {
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

func (p *Policy) refusesScheme(raw string) string {
	scheme, _, _ := strings.Cut(raw, ":")
	switch {
	case p.RefusePrivateUse:
		return "private-use schemes are not allowed here; use https or http on a loopback address"
	case len(p.PrivateUseSchemes) > 0 && !slices.Contains(p.PrivateUseSchemes, scheme):
		return fmt.Sprintf("the scheme %.64q is not one of those allowed here: %s", scheme, strings.Join(p.PrivateUseSchemes, ", "))
	case len(p.PrivateUseSchemes) == 0 && !reverseDomain(scheme) && !slices.Contains(knownSchemes, scheme):
		return fmt.Sprintf("any client could claim the scheme %.64q: use a domain name of yours in reverse order, such as com.example.app, or http on a loopback address", scheme)
	}
	return ""
}

func (p *Policy) refusesHost(raw string) string {
	if len(p.RedirectHosts) == 0 {
		return ""
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "it is not a URL"
	}
	host := u.Hostname() // in lowercase: [metadata.ParseRedirect] accepts no other
	for _, pattern := range p.RedirectHosts {
		below, wild := strings.CutPrefix(pattern, "*")
		if host == pattern || wild && strings.HasSuffix(host, below) {
			return ""
		}
	}
	return fmt.Sprintf("the host %.100q is not one of those allowed here", host)
}
