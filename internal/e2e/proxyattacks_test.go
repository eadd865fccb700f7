//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestRecipesPaths: one spelling of one path reaches the server, and it is the one that was
// checked.
func TestRecipesPaths(t *testing.T) {
	t.Parallel()
	eachRecipe(t, func(t *testing.T, p *proxied) {
		token := p.token()
		for _, target := range []string{
			"//mcp", "/mcp/", "/mcp//", "///mcp", "/./mcp", "/mcp/.", "/x/../mcp", "/mcp/x/..", "/mcp/..", "/mcp/../admin", "/mcp/../mcp", "/%2e/mcp", "/%2E%2E/mcp", "/x/%2e%2e/mcp", "/mcp%2f", "/mcp%2Fadmin",
			"/mcp/%2e%2e/admin", "/mcp/..%2fadmin", "/mcp%2f..%2fadmin", "/%6dcp", "/mc%70", "/MCP", "/Mcp", "/mcp;x=y", "/mcp;/../admin", "/mcp%00", "/mcp%0a", "/mcp%20", "/mcp%3fx", "/mcp%23", "/mcp\\..\\admin", "/mcp/..\\admin",
			"/mcp%5c..%5cadmin", "/mcp#x", "/mcp%252f", "/admin", "/admin?/mcp", "/.well-known/../mcp", "/.well-known/oauth-protected-resource/../../verify", "/.well-known/oauth-protected-resource/%2e%2e/%2e%2e/mcp",
			"http://" + publicHost + "//mcp", "http://" + publicHost + "/x/../mcp", "http://other.example.org/admin", "*", "mcp", "?/mcp", "/mcp/admin", "/_verify", "/verify", "/verify/", "//verify",
		} {
			res, _ := p.send(p.call("POST", target, token))
			n := p.clean(target, token, "POST")
			if res != nil && res.StatusCode < 300 && n == 0 && !strings.Contains(target, "well-known") && !strings.Contains(target, "//other") {
				t.Errorf("%s: %s, and not from the server", target, res.Status)
			}
			if n > 0 {
				t.Errorf("%s reaches the server", target)
			}
		}
	})
}

// TestRecipesQueries: a token in the query is refused, however its name is spelled, and other
// queries pass.
func TestRecipesQueries(t *testing.T) {
	t.Parallel()
	eachRecipe(t, func(t *testing.T, p *proxied) {
		token := p.token()
		for _, query := range []string{
			"access_token=" + forged, "access_token", "a=b&access_token=" + forged, "a=b;access_token=" + forged, "ACCESS_TOKEN=" + forged, "Access_Token=" + forged, "%61ccess_token=" + forged,
			"access%5ftoken=" + forged, "access%5Ftoken", "a=b&%61%63%63ess_token=" + forged, "access_token&a=b", "a%26access_token=" + forged, "&&access_token=" + forged,
		} {
			for _, sent := range []string{token, ""} {
				res, _ := p.send(p.call("POST", "/mcp?"+query, sent))
				if n := p.clean(query, token, "POST"); n > 0 || res == nil || res.StatusCode != 400 && res.StatusCode != 401 {
					t.Errorf("%s: %v, %d requests reach the server", query, res, n)
				}
			}
			if res, _ := p.send(p.call("POST", "/mcp?"+strings.ReplaceAll(query, forged, token), "")); res == nil || res.StatusCode != 400 && res.StatusCode != 401 || p.clean(query, token, "POST") > 0 {
				t.Errorf("%s with a good token: %v", query, res)
			}
		}
		for _, query := range []string{"a=b", "a=%20", "", "access_tokens=a", "sessionId=7"} {
			if res, _ := p.send(p.call("POST", "/mcp?"+query, token)); res == nil || res.StatusCode != 200 || p.clean(query, token, "POST") != 1 {
				t.Errorf("%s: %v", query, res)
			}
		}
	})
}

// TestRecipesHeaders: values that a client invents about its identity, its address, its method,
// the path or a session do not pass the proxy.
func TestRecipesHeaders(t *testing.T) {
	t.Parallel()
	names := []string{
		"Gatehouse-Subject", "Gatehouse-Scope", "Gatehouse-Assertion", "Gatehouse-Roles", "X-Forwarded-User", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "X-Forwarded-Uri",
		"X-Forwarded-Method", "X-Forwarded-Groups", "Forwarded", "X-Real-Ip", "X-Original-Url", "X-Original-Uri", "X-Rewrite-Url", "X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "Remote-User",
		"Remote-Groups", "Remote-Addr", "Remote-Name", "X-Remote-User", "X-Auth-Request-User", "X-Authenticated-User", "X-Goog-Authenticated-User-Email", "Cf-Access-Authenticated-User-Email", "X-Amzn-Oidc-Data", "Tailscale-User-Login",
		"X-Webauth-User", "X-Acme-User", "Acme-User", "X-Team-Role", "Role", "Acme-Roles", "X-Api-Key", "Api-Key", "X-User", "From", "Acme-Email", "Acme-Token", "Proxy-Authorization", "Cookie", "X-Access-Token", "Client-Cert", "X-Tenant-Id",
		"Proxy", "Sudo", "On-Behalf-Of", "X-On-Behalf-Of", "Acme-Admin", "Acme-Owner", "Acme-Login", "Acme-Scope", "Acme-Uid",
	}
	folded := []string{"Mcp_Session_Id", "Mcp_Method", "Mcp_Name", "Last_Event_Id", "Content_Type", "Content_Length", "Transfer_Encoding", "Mcp.Session.Id", "Mcp-Session_Id", "mcp_session-id", "X_forwarded.user"}
	for _, name := range names {
		folded = append(folded, strings.ReplaceAll(name, "-", "_"), strings.ToLower(strings.ReplaceAll(name, "-", "_")), strings.ReplaceAll(name, "-", "."), strings.Replace(name, "-", "_", 1))
	}
	eachRecipe(t, func(t *testing.T, p *proxied) {
		token := p.token()
		for _, name := range append(append(folded, names...), lower(names)...) {
			if strings.EqualFold(name, "content-type") {
				continue
			}
			res, _ := p.send(p.call("POST", "/mcp", token, name+": "+forged))
			if n := p.clean(name, token, "POST"); n > 1 || res == nil || res.StatusCode == 200 && n != 1 {
				t.Errorf("%s: %v, %d requests reach the server", name, res, n)
			}
		}
		// A header that names other headers removes none of the gateway's.
		for _, value := range []string{"Gatehouse-Subject", "close, Gatehouse-Subject, Gatehouse-Scope", "Authorization", "X-Forwarded-For", "upgrade", "keep-alive, Gatehouse-Issuer"} {
			res, _ := p.send(p.call("POST", "/mcp", token, "Connection: "+value, "Upgrade: websocket"))
			if n := p.clean("Connection: "+value, token, "POST"); n > 1 || res == nil || res.StatusCode == 200 && n != 1 {
				t.Errorf("Connection: %s: %v, %d requests", value, res, n)
			}
		}
		for _, method := range []string{"TRACE", "CONNECT", "PUT", "PATCH", "PROPFIND", "post", "X"} {
			p.send(p.call(method, "/mcp", token, "X-Http-Method-Override: POST"))
			if n := p.clean(method, token, method); n > 0 && (p.verify || method != "PUT" && method != "PATCH") {
				t.Errorf("%s reaches the server", method)
			}
		}
		for _, lines := range [][]string{{"Authorization: Bearer " + forged}, {"authorization: Basic " + forged}, {"Authorization : Bearer " + forged}} {
			p.send(p.call("POST", "/mcp", token, lines...))
			p.clean("two credentials", token, "POST")
			p.send(p.call("POST", "/mcp", "", append(lines, "Authorization_: Bearer "+token)...))
			if n := p.clean("credentials that are none", token, "POST"); n > 0 {
				t.Errorf("%q reaches the server", lines)
			}
		}
	})
}

func lower(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strings.ToLower(name)
	}
	return out
}

// TestRecipesFraming: a request in the body of another is part of the body for every program on
// the way, or it is refused.
func TestRecipesFraming(t *testing.T) {
	t.Parallel()
	eachRecipe(t, func(t *testing.T, p *proxied) {
		token := p.token()
		hidden := fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: %s\r\nGatehouse-Subject: %s\r\nContent-Length: 0\r\n\r\n", publicHost, forged)
		chunked := "0\r\n\r\n" + hidden
		for _, lines := range [][]string{
			{"Transfer-Encoding: chunked", fmt.Sprintf("Content-Length: %d", len(chunked))},
			{fmt.Sprintf("Content-Length: %d", len(chunked)), "Transfer-Encoding: chunked"},
			{"Transfer-Encoding: chunked", "Content-Length: 4"},
			{"Transfer-Encoding: chunked", "Transfer-Encoding: identity"},
			{"Transfer-Encoding: identity, chunked"}, {"Transfer-Encoding: chunked, identity"}, {"Transfer-Encoding: xchunked"}, {"Transfer-Encoding: chunked "}, {"Transfer-Encoding:\tchunked"},
			{"Transfer-Encoding : chunked"}, {"Transfer-Encoding:\r\n chunked"}, {"Transfer-Encoding: \x0bchunked"}, {"Transfer_Encoding: chunked"}, {"Transfer.Encoding: chunked"},
			{"X: y\nTransfer-Encoding: chunked"}, {"Content-Length: 0", fmt.Sprintf("Content-Length: %d", len(chunked))}, {fmt.Sprintf("Content-Length: 0, %d", len(chunked))}, {"Content-Length: +0"}, {"Content-Length: 0x0"},
			{"Content_Length: 0", fmt.Sprintf("Content-Length: %d", len(chunked))}, {"Transfer-Encoding: chunked", fmt.Sprintf("Content_Length: %d", len(chunked))},
			{"Transfer-Encoding: gzip, chunked"}, {"Transfer-Encoding: CHUNKED"}, {"Expect: 100-continue", "Transfer-Encoding: chunked"},
		} {
			what := fmt.Sprintf("%q", lines)
			p.sendAll(p.head("POST", "/mcp", token, append([]string{"Content-Type: application/json"}, lines...)...) + "\r\n" + chunked)
			// All bytes may be the body of one request, or the rest a request of its own that is
			// refused because it has no token.
			if n := p.clean(what+", whole", token, "POST"); n > 1 {
				t.Errorf("%s: %d requests reach the server", what, n)
			}
			if strings.Contains(what, "Transfer") {
				p.sendAll(strings.Replace(p.head("POST", "/mcp", token, lines...), "HTTP/1.1", "HTTP/1.0", 1) + "\r\n" + chunked)
				if n := p.clean(what+" in HTTP/1.0, whole", token, "POST"); n > 1 {
					t.Errorf("%s in HTTP/1.0: %d requests reach the server", what, n)
				}
			}
		}
	})
}
