package gateway

import (
	"net/http"

	"gatehouse.example/internal/headername"
)

// unsent are the headers of a request that never reach the upstream, in lowercase and with
// a hyphen for everything that is no letter and no digit. A "*" at the end stands for any
// more characters.
//
// The upstream would believe them: it trusts who calls it, and a client could write them.
var unsent = headername.NewSet(
	// Ours. What the gateway verified is set anew.
	"gatehouse*",
	// Credentials. Those of the client end here (the seed, Access token privilege: the token
	// MUST NOT be passed on).
	"authorization", "proxy-authorization", "cookie", "cookie2", "x-authorization", "x-access-token", "x-id-token", "x-serverless-authorization",
	// Where a request comes from and what it asked for, as other proxies tell it (RFC 7239
	// section 8.1). A page can choose its Origin no more than its name, but the guard has
	// judged it, and the upstream knows the gateway by another name.
	"origin", "forwarded*", "x-forwarded*", "x-real-ip", "x-original*", "x-rewrite-url", "x-url-scheme", "x-scheme", "x-host", "x-http-host-override", "x-client-ip",
	"client-ip", "true-client-ip", "x-cluster-client-ip", "x-envoy*", "cf-connecting-ip*", "fastly-client-ip", "x-appengine*", "x-azure-clientip", "x-proxyuser-ip",
	"x-script-name", "x-waws*", "x-arr*", "front-end-https",
	// Other methods than the one that was judged.
	"x-http-method*", "x-method-override", "x-method",
	// Who calls, as servers and other proxies spell it.
	"remote*", "x-remote*", "x-auth*", "x-webauth*", "x-user*", "x-username", "x-email", "x-groups", "x-group", "x-roles", "x-role", "x-login", "x-subject", "x-sub",
	"x-principal*", "x-identity*", "x-consumer*", "x-credential*", "x-anonymous-consumer", "x-token*", "x-jwt*", "x-oidc*", "oidc*", "x-openid*", "impersonate*",
	"x-goog*", "x-endpoint-api-userinfo", "x-apigateway-api-userinfo", "cf-access*", "x-amzn-oidc*", "x-amzn-mtls*", "x-ms-client-principal*", "x-ms-token*",
	"x-pomerium*", "tailscale*", "x-tailscale*", "x-vouch*", "x-keycloak*", "teleport-jwt-assertion", "x-teleport*", "x-grafana*", "x-sso*", "x-saml*", "x-ldap*",
	// Certificates of clients (RFC 9440 section 2).
	"client-cert*", "x-client-cert*", "x-client-verify", "x-client-dn", "ssl-client*", "x-ssl*",
	// What is between the client and the gateway alone (RFC 9110 section 7.6.1). An upgraded
	// connection would go around the policy, and nobody needs trailers.
	"connection", "keep-alive", "proxy-connection", "upgrade", "te", "trailer", "expect", "http2-settings",
)

// unanswered are the headers of an answer that never reach the client. The guard alone says
// how to sign in and who may read; cookies would never come back; and other ways to the
// upstream are not the client's.
var unanswered = headername.NewSet("www-authenticate", "proxy-authenticate", "authentication-info", "proxy-authentication-info", "access-control*", "set-cookie", "set-cookie2", "alt-svc")

// strip removes what has one of the names.
func strip(header http.Header, names headername.Set) {
	for name := range header {
		if names.Has(name) {
			delete(header, name)
		}
	}
}
