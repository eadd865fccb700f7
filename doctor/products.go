package doctor

import (
	"slices"
	"strings"
)

// product is a server or gateway of another maker that the doctor recognizes.
type product struct {
	name   string
	serves func(*walk) bool
}

// products are recognized by what they say of themselves, or by the shape of their issuers.
var products = []product{
	{"Keycloak", issuers("/realms/")},
	{"Auth0", issuers(".auth0.com")},
	{"Okta", issuers(".okta.com", ".oktapreview.com")},
	{"Entra ID", issuers("login.microsoftonline.com", "sts.windows.net")},
	{"Cognito", issuers("https://cognito-idp.")},
	{"authentik", issuers("/application/o/")},
	{"WorkOS", issuers(".authkit.app")},
	{"ZITADEL", either(issuers(".zitadel.cloud"), members("jwks_uri", "/oauth/v2/keys"))},
	{"Ory Hydra", either(issuers(".oryapis.com"), members("end_session_endpoint", "/oauth2/sessions/logout"))},
	{"nginx", banner("nginx")},
	{"Envoy", banner("envoy")},
	{"Kong", either(banner("kong"), sends("X-Kong-Proxy-Latency", "X-Kong-Response-Latency"))},
	{"Cloudflare", banner("cloudflare")},
	{"Caddy", banner("caddy")},
}

func issuers(parts ...string) func(*walk) bool {
	return func(w *walk) bool {
		return slices.ContainsFunc(w.servers, func(s *server) bool {
			return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s.issuer, part) })
		})
	}
}

func banner(name string) func(*walk) bool {
	return func(w *walk) bool {
		return slices.ContainsFunc(w.exchanges, func(e *exchange) bool {
			return strings.Contains(strings.ToLower(e.get("Server")), name)
		})
	}
}

// members recognizes a server by the end of a URL in its metadata.
func members(name, end string) func(*walk) bool {
	return func(w *walk) bool {
		return slices.ContainsFunc(w.servers, func(s *server) bool { return strings.HasSuffix(s.metadata().text(name), end) })
	}
}

// sends recognizes a gateway by one of the headers that it adds.
func sends(names ...string) func(*walk) bool {
	return func(w *walk) bool {
		return slices.ContainsFunc(w.exchanges, func(e *exchange) bool {
			return slices.ContainsFunc(names, func(name string) bool { return e.get(name) != "" })
		})
	}
}

func either(one, other func(*walk) bool) func(*walk) bool {
	return func(w *walk) bool { return one(w) || other(w) }
}
