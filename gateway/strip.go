package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gatehouse.example/internal/headername"
)

// unsent are the headers of a request that never reach the upstream, in any spelling. The
// upstream would believe them: it trusts who calls it, and a client could write them.
var unsent = headername.NewSet(
	// Ours. What the gateway verified is set anew.
	"gatehouse*",
	// What a client calls its request, which the upstream would log as our name of it.
	"x-request-id",
	// Credentials. Those of the client end here (requirement R-TOK-5: the token
	// MUST NOT be passed on).
	"authorization", "proxy-authorization", "cookie", "cookie2", "x-authorization", "x-access-token", "x-id-token", "x-serverless-authorization",
	// Where a request comes from and what it asked for, as other proxies tell it (RFC 7239
	// section 8.1). A page can choose its Origin no more than its name, but the guard has
	// judged it, and the upstream knows the gateway by another name.
	"origin", "forwarded*", "x-forwarded", "x-forwarded-for*", "x-forwarded-host*", "x-forwarded-proto*", "x-forwarded-port", "x-forwarded-prefix", "x-forwarded-server",
	"x-forwarded-uri", "x-forwarded-method", "x-forwarded-path", "x-forwarded-scheme", "x-forwarded-ssl", "x-forwarded-by",
	"x-real-ip", "x-original*", "x-rewrite*", "x-url-scheme", "x-scheme", "x-host", "x-http-host-override", "x-client-ip",
	"client-ip", "true-client-ip", "x-cluster-client-ip", "x-envoy*", "cf-connecting-ip*", "fastly-client-ip", "x-appengine*", "x-azure-clientip", "x-proxyuser-ip",
	"x-script-name", "x-waws*", "x-arr*", "front-end-https",
	// To a program that gets headers as variables, the proxy of its own requests: HTTP_PROXY
	// (RFC 3875 section 4.1.18).
	"proxy",
	// Other methods than the one that was judged.
	"x-http-method*", "x-method-override", "x-method",
	// What is between the client and the gateway alone (RFC 9110 section 7.6.1). An upgraded
	// connection would go around the policy, and nobody needs trailers.
	"connection", "keep-alive", "proxy-connection", "upgrade", "te", "trailer", "transfer-encoding", "content-length", "expect", "host", "http2-settings",
)

// telling are headers by which servers and other proxies tell who calls. A client gets one
// through only if the operator names it, as with every name that [speaks] of a person.
var telling = headername.NewSet(
	"from", "remote*", "x-remote*", "x-auth*", "x-webauth*", "x-sub", "x-consumer*", "x-anonymous-consumer", "x-token*", "x-openid*", "x-forwarded*",
	"x-goog*", "x-endpoint-api*", "x-apigateway-api*", "cf-access*", "x-amzn-oidc*", "x-amzn-mtls*", "x-ms-client*", "x-ms-token*",
	"on-behalf*", "x-on-behalf*", "x-acting*", "x-act-as*", "x-run-as*", "sudo*", "x-sudo*",
	"x-pomerium*", "tailscale*", "x-tailscale*", "x-vouch*", "x-keycloak*", "teleport*", "x-teleport*", "x-grafana*",
	// Certificates of clients (RFC 9440 section 2).
	"client-cert*", "x-client-cert*", "x-client-verify", "x-client-dn", "ssl-client*", "x-ssl*",
)

// harmless are names that speak of a person and do not mean one: what every client sends, and
// parameters of tools (MCP Streamable HTTP, revision 2026-07-28).
var harmless = headername.NewSet("user-agent", "sec-fetch-user", "mcp-param-*")

// beginnings are how words begin by which servers tell who calls, or accept who does.
var beginnings = []string{
	"user", "role", "group", "auth", "account", "admin", "apikey", "claim", "credential", "customer", "email", "employee", "entitlement", "identit", "impersonat",
	"jwt", "ldap", "login", "logon", "member", "oidc", "org", "owner", "passw", "permission", "person", "principal", "privilege", "saml", "scope", "secret", "sso", "subject",
	"tenant", "token", "uid", "upn",
}

// speaks reports whether a name has the shape of one that tells who calls: a word in it
// begins or ends like those that servers use.
func speaks(name string) bool {
	words := strings.Split(headername.Fold(name), "-")
	for i, word := range words {
		if word == "key" && i > 0 && words[i-1] == "api" {
			return true
		}
		for _, beginning := range beginnings {
			if strings.HasPrefix(word, beginning) {
				return true
			}
		}
		for _, end := range []string{"user", "role", "roles", "groups", "email", "token", "userid", "username", "apikey", "jwt"} {
			if strings.HasSuffix(word, end) {
				return true
			}
		}
	}
	return false
}

// passing are the headers that the operator lets through, in the spelling in which net/http
// writes them: other spellings of them do not pass.
type passing map[string]bool

// newPassing refuses names that no operator can mean.
func newPassing(names []string) (passing, error) {
	p := passing{}
	for _, name := range names {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !headername.Canonical(canonical) || canonical == "" || strings.Trim(canonical, "-") == "":
			return nil, fmt.Errorf("header %q cannot be passed on: a name has letters, digits and hyphens, and no pattern", name)
		case unsent.Has(canonical):
			return nil, fmt.Errorf("header %q cannot be passed on: it is a credential, the gateway sets it, or it changes what was judged", name)
		}
		p[canonical] = true
	}
	return p, nil
}

// drops reports whether a header of a client ends at the gateway.
func (p passing) drops(name string) bool {
	if unsent.Has(name) {
		return true
	}
	return !p[name] && !harmless.Has(name) && (telling.Has(name) || speaks(name))
}

// strip removes the headers that drops names.
func strip(header http.Header, drops func(string) bool) {
	for name := range header {
		if drops(name) {
			delete(header, name)
		}
	}
}

// unanswered are the headers of an answer that never reach the client. The guard alone says
// how to sign in and who may read; cookies would never come back; and other ways to the
// upstream are not the client's.
var unanswered = headername.NewSet("www-authenticate", "proxy-authenticate", "authentication-info", "proxy-authentication-info", "access-control*", "set-cookie", "set-cookie2", "alt-svc", "x-request-id")

// TellingHeaders returns those of some names that a server could take for who calls: what
// [Config.PassHeaders] lets through although a client writes it.
func TellingHeaders(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !passing(nil).drops(name) })
}
