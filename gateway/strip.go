package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gatehouse.example/internal/headername"
)

// unsent are the request headers that are never forwarded, in any spelling: the upstream trusts
// the gateway, and a client could have set them.
var unsent = headername.NewSet(
	// Headers of the gateway, which it sets itself.
	"gatehouse*",
	// The id that a client gives its request. The upstream would log it as the gateway's id.
	"x-request-id",
	// Credentials of the client (requirement R-TOK-5: the token MUST NOT be passed on).
	"authorization", "proxy-authorization", "dpop", "cookie", "cookie2", "x-authorization", "x-access-token", "x-id-token", "x-serverless-authorization",
	// The origin and the target of a request, as other proxies describe them (RFC 7239 section
	// 8.1). Origin is not forged by pages, but the guard has checked it already, and the upstream
	// has another host name than the gateway.
	"origin", "forwarded*", "x-forwarded", "x-forwarded-for*", "x-forwarded-host*", "x-forwarded-proto*", "x-forwarded-port", "x-forwarded-prefix", "x-forwarded-server",
	"x-forwarded-uri", "x-forwarded-method", "x-forwarded-path", "x-forwarded-scheme", "x-forwarded-ssl", "x-forwarded-by",
	"x-real-ip", "x-original*", "x-rewrite*", "x-url-scheme", "x-scheme", "x-host", "x-http-host-override", "x-client-ip",
	"client-ip", "true-client-ip", "x-cluster-client-ip", "x-envoy*", "cf-connecting-ip*", "fastly-client-ip", "x-appengine*", "x-azure-clientip", "x-proxyuser-ip",
	"x-script-name", "x-waws*", "x-arr*", "front-end-https",
	// In a program that gets headers as variables, this one sets the proxy for its own requests:
	// HTTP_PROXY (RFC 3875 section 4.1.18).
	"proxy",
	// Other methods than the one that the guard checked.
	"x-http-method*", "x-method-override", "x-method",
	// Headers of the connection between client and gateway (RFC 9110 section 7.6.1). An upgraded
	// connection would bypass the policy, and the protocol does not use trailers.
	"connection", "keep-alive", "proxy-connection", "upgrade", "te", "trailer", "transfer-encoding", "content-length", "expect", "host", "http2-settings",
)

// identifying are headers by which servers and other proxies identify a caller. They are
// forwarded only if the operator names them, like all names with a word of [namesIdentity].
var identifying = headername.NewSet(
	"from", "remote*", "x-remote*", "x-auth*", "x-webauth*", "x-sub", "x-consumer*", "x-anonymous-consumer", "x-token*", "x-openid*", "x-forwarded*",
	"x-goog*", "x-endpoint-api*", "x-apigateway-api*", "cf-access*", "x-amzn-oidc*", "x-amzn-mtls*", "x-ms-client*", "x-ms-token*",
	"on-behalf*", "x-on-behalf*", "x-acting*", "x-act-as*", "x-run-as*", "sudo*", "x-sudo*",
	"x-pomerium*", "tailscale*", "x-tailscale*", "x-vouch*", "x-keycloak*", "teleport*", "x-teleport*", "x-grafana*",
	// Certificates of clients (RFC 9440 section 2).
	"client-cert*", "x-client-cert*", "x-client-verify", "x-client-dn", "ssl-client*", "x-ssl*",
)

// harmless are headers that do not identify a caller although their names suggest it: headers
// that every client sends, and parameters of tools (MCP Streamable HTTP, revision 2026-07-28).
var harmless = headername.NewSet("user-agent", "sec-fetch-user", "mcp-param-*")

// identityPrefixes are the prefixes of words in the names of headers by which servers identify
// or authenticate a caller.
var identityPrefixes = []string{
	"user", "role", "group", "auth", "account", "admin", "apikey", "claim", "credential", "customer", "email", "employee", "entitlement", "identit", "impersonat",
	"jwt", "ldap", "login", "logon", "member", "oidc", "org", "owner", "passw", "permission", "person", "principal", "privilege", "saml", "scope", "secret", "sso", "subject",
	"tenant", "token", "uid", "upn",
}

// namesIdentity reports whether a header could identify a caller by its name: a word in it has
// a prefix or suffix that servers use for such headers.
func namesIdentity(name string) bool {
	words := strings.Split(headername.Fold(name), "-")
	for i, word := range words {
		if word == "key" && i > 0 && words[i-1] == "api" {
			return true
		}
		for _, prefix := range identityPrefixes {
			if strings.HasPrefix(word, prefix) {
				return true
			}
		}
		for _, suffix := range []string{"user", "role", "roles", "groups", "email", "token", "userid", "username", "apikey", "jwt"} {
			if strings.HasSuffix(word, suffix) {
				return true
			}
		}
	}
	return false
}

// passing are the headers of Config.PassHeaders in their canonical spelling. Other spellings are
// not forwarded.
type passing map[string]bool

// newPassing returns an error for a name that is invalid or must not be forwarded.
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

// drops reports whether the gateway removes a request header.
func (p passing) drops(name string) bool {
	if unsent.Has(name) {
		return true
	}
	return !p[name] && !harmless.Has(name) && (identifying.Has(name) || namesIdentity(name))
}

// strip removes the headers for which drops returns true.
func strip(header http.Header, drops func(string) bool) {
	for name := range header {
		if drops(name) {
			delete(header, name)
		}
	}
}

// droppedAnswerHeaders are the response headers that are never forwarded. The guard sets the
// challenge and the CORS headers; the gateway does not forward cookies of clients; and clients
// must not use another address of the upstream.
var droppedAnswerHeaders = headername.NewSet("www-authenticate", "dpop-nonce", "proxy-authenticate", "authentication-info", "proxy-authentication-info", "access-control*", "set-cookie", "set-cookie2", "alt-svc", "x-request-id")

// dropsAnswer judges names of response headers.
var dropsAnswer = newJudged(droppedAnswerHeaders.Has)

// TellingHeaders returns the elements of names by which a server could identify the caller. Use
// it to warn an operator about such entries of [Config.PassHeaders], which clients can forge.
func TellingHeaders(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !passing(nil).drops(name) })
}
