package authz_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/authz"
	"gatehouse.example/metadata"
)

// TestWellKnown: the document has the same bytes at every address that clients try, and
// contains the issuer byte for byte.
func TestWellKnown(t *testing.T) {
	t.Parallel()
	for issuer, paths := range map[string][]string{
		secureIssuer:   {"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"},
		loopbackIssuer: {"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"},
		"https://auth.example.com/tenant/one": {
			"/.well-known/oauth-authorization-server/tenant/one", "/.well-known/openid-configuration/tenant/one", "/tenant/one/.well-known/openid-configuration",
		},
	} {
		t.Run(issuer, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{issuer: issuer})
			bodies := map[string]bool{}
			for _, path := range paths {
				r := h.send(h.newRequest(http.MethodGet, origin(issuer)+path, nil))
				if r.status != http.StatusOK || r.member(t, "issuer") != issuer {
					t.Errorf("%s: %s", path, r)
				}
				bodies[r.body+r.header.Get("Etag")] = true
			}
			if len(bodies) != 1 {
				t.Errorf("%d different documents", len(bodies))
			}
		})
	}
}

// TestOneIssuer: the issuer is the same string in the metadata, in tokens, in responses and
// at introspection, with and without a path.
func TestOneIssuer(t *testing.T) {
	t.Parallel()
	for _, issuer := range []string{secureIssuer, secureIssuer + "/tenant", loopbackIssuer, "http://localhost:8080", "http://[::1]:8080/x"} {
		t.Run(issuer, func(t *testing.T) {
			t.Parallel()
			h, c := newHarness(t, setup{issuer: issuer}), testClients()["native"]
			answer := h.newBrowser().walk(asks(c), "allow").location(t).Query()
			token := h.toToken(c, redemption(c, answer.Get("code"))).member(t, "access_token")
			refused := h.send(h.newRequest(http.MethodGet, issuer+"/authorize", replaced(asks(c), "scope", "x"))).location(t).Query()
			for where, got := range map[string]any{
				"response": answer.Get("iss"), "error": refused.Get("iss"), "token": claims(t, token)["iss"], "introspection": h.introspect(token).json(t)["iss"],
			} {
				if got != issuer {
					t.Errorf("%s: %v", where, got)
				}
			}
		})
	}
}

// TestListedWorks: every endpoint in the metadata answers, and one that is not listed does
// not exist.
func TestListedWorks(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*authz.Config){
		"everything":              nil,
		"no registration":         func(c *authz.Config) { c.Registration = authz.RegistrationClosed },
		"the zero registration":   func(c *authz.Config) { c.Registration = "" },
		"nobody may introspect":   func(c *authz.Config) { c.Resources[0].Introspection, c.Resources[1].Introspection = nil, nil },
		"one of two introspects":  func(c *authz.Config) { c.Resources[1].Introspection = nil },
		"below a path of its own": func(c *authz.Config) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup{issuer: secureIssuer, config: change}
			if strings.HasPrefix(name, "below") {
				b.issuer += "/tenant"
			}
			h := newHarness(t, b)
			document := h.get("/.well-known/openid-configuration").json(t)
			listed := map[string]string{}
			for member, value := range document {
				if strings.HasSuffix(member, "_endpoint") || member == "jwks_uri" {
					listed[member] = value.(string)
				}
			}
			for member, address := range listed {
				if r := h.send(h.newRequest(http.MethodOptions, address, nil)); r.status == http.StatusNotFound || !strings.HasPrefix(address, h.issuer+"/") {
					t.Errorf("%s is listed as %s: %s", member, address, r)
				}
			}
			for member, path := range map[string]string{
				"registration_endpoint": "/register", "introspection_endpoint": "/introspect", "pushed_authorization_request_endpoint": "/par",
				"device_authorization_endpoint": "/device", "userinfo_endpoint": "/userinfo", "revocation_endpoint": "/revoke",
			} {
				r := h.send(h.newRequest(http.MethodPost, h.issuer+path, nil))
				if there := r.status != http.StatusNotFound; there != (listed[member] != "") {
					t.Errorf("%s: listed %t, there %t", member, listed[member] != "", there)
				}
			}
			if _, ok := document["end_session_endpoint"]; ok {
				t.Error("/logout is for people: it is no end_session_endpoint, which clients would send them to")
			}
			methods := "introspection_endpoint_auth_methods_supported"
			if _, ok := document[methods]; ok != (listed["introspection_endpoint"] != "") {
				t.Errorf("%s without the endpoint", methods)
			}
		})
	}
}

// TestListedMethodsWork: the token endpoint accepts each client authentication method and
// each grant type in the metadata.
func TestListedMethodsWork(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	document := h.get("/.well-known/oauth-authorization-server").json(t)
	byMethod := map[string]testClient{}
	for _, c := range testClients() {
		if !c.Disabled && len(c.Metadata.GrantTypes) == 2 {
			byMethod[c.Metadata.TokenEndpointAuthMethod] = c
		}
	}
	byMethod[metadata.AuthMethodPrivateKeyJWT] = signing(h)
	for _, method := range document["token_endpoint_auth_methods_supported"].([]any) {
		c, ok := byMethod[method.(string)]
		if !ok {
			t.Errorf("%s: no client of the cast uses it", method)
			continue
		}
		held := h.tokens(c)
		if r := h.toToken(c, refreshing(c, held.refresh)); r.status != http.StatusOK {
			t.Errorf("%s: %s", method, r)
		}
	}
	c := testClients()["native"]
	for _, grant := range document["grant_types_supported"].([]any) {
		if r := h.post("/token", "grant_type", grant.(string), "client_id", c.ID); r.member(t, "error") != "invalid_request" {
			t.Errorf("%s: %s", grant, r)
		}
	}
	for _, grant := range []string{"implicit", "password", "client_credentials", "urn:ietf:params:oauth:grant-type:device_code"} {
		mustRefuse(t, h.post("/token", "grant_type", grant, "client_id", c.ID), http.StatusBadRequest, "unsupported_grant_type")
	}
	for _, scope := range document["scopes_supported"].([]any) {
		request := replaced(asks(c), "scope", scope.(string), "resource", notes)
		request.Add("resource", tasks)
		if r := h.send(h.newRequest(http.MethodGet, h.issuer+"/authorize", request)); !strings.HasPrefix(r.header.Get("Location"), h.issuer+"/login") {
			t.Errorf("%s is listed: %s", scope, r)
		}
	}
}

// TestKeys: the published keys are public, and one of them verifies the token.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"", "ES256", "EdDSA", "RS256"} {
		t.Run("algorithm "+algorithm, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{config: func(c *authz.Config) { c.SigningAlgorithm = algorithm }})
			token := h.tokens(testClients()["native"]).access
			header := jwtPart(t, token, 0)
			if want := map[string]string{"": "ES256"}[algorithm] + algorithm; header["alg"] != want || header["typ"] != "at+jwt" {
				t.Errorf("header %v, want %s", header, want)
			}
			var set struct {
				Keys []map[string]any `json:"keys"`
			}
			if err := json.Unmarshal([]byte(h.get("/jwks.json").body), &set); err != nil {
				t.Fatal(err)
			}
			found := false
			for _, key := range set.Keys {
				for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "k"} {
					if _, ok := key[private]; ok {
						t.Errorf("the private member %s is published", private)
					}
				}
				found = found || (key["kid"] == header["kid"] && key["alg"] == header["alg"] && key["use"] == "sig")
			}
			if !found {
				t.Errorf("no published key fits %v: %v", header, set.Keys)
			}
			if !h.active(token) {
				t.Error("the token is not active")
			}
		})
	}
}

// TestCORS: programs in any browser can call the API routes, without credentials, and no
// other route.
func TestCORS(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	const page = "https://inspector.example.org"
	request := func(method, path string, preflight string) reply {
		r := h.newRequest(method, h.issuer+path, nil)
		r.Header.Set("Origin", page)
		if preflight != "" {
			r.Header.Set("Access-Control-Request-Method", preflight)
			r.Header.Set("Access-Control-Request-Headers", "authorization,content-type,mcp-protocol-version")
		}
		return h.send(r)
	}
	for path, method := range openPaths {
		preflight := request(http.MethodOptions, path, method)
		allowed := strings.ToLower(preflight.header.Get("Access-Control-Allow-Headers"))
		if preflight.status != http.StatusNoContent || preflight.header.Get("Access-Control-Allow-Origin") != "*" ||
			!slices.Contains(strings.Split(preflight.header.Get("Access-Control-Allow-Methods"), ", "), method) ||
			!strings.Contains(allowed, "authorization") || !strings.Contains(allowed, "content-type") || !strings.Contains(allowed, "mcp-protocol-version") {
			t.Errorf("preflight of %s: %d %v", path, preflight.status, preflight.header)
		}
		answer := request(method, path, "")
		if answer.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: no page may read the answer: %v", path, answer.header)
		}
		if !strings.Contains(answer.header.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") {
			t.Errorf("%s: the challenge cannot be read: %v", path, answer.header)
		}
		for _, r := range []reply{preflight, answer} {
			if r.header.Get("Access-Control-Allow-Credentials") != "" || len(r.header.Values("Set-Cookie")) > 0 {
				t.Errorf("%s: credentials or cookies: %v", path, r.header)
			}
		}
	}
	for path, method := range closedPaths {
		for _, r := range []reply{request(http.MethodOptions, path, method), request(method, path, "")} {
			for name := range r.header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s: %s: %s", path, name, r.header.Get(name))
				}
			}
		}
		if r := request(http.MethodOptions, path, method); r.status != http.StatusMethodNotAllowed {
			t.Errorf("preflight of %s: %d", path, r.status)
		}
	}
}

// TestAnswersCannotBeCached: only public documents may be cached.
func TestAnswersCannotBeCached(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	paths := h.endpoints("/jwks.json", "/passkey.js", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
	for _, path := range append(paths, "/nothing") {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
			if r := h.send(h.newRequest(method, h.issuer+path, nil)); r.header.Get("Cache-Control") != "no-store" || r.status >= 500 {
				t.Errorf("%s %s: %d, Cache-Control %q", method, path, r.status, r.header.Get("Cache-Control"))
			}
		}
	}
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/jwks.json"} {
		if r := h.get(path); !strings.Contains(r.header.Get("Cache-Control"), "public") {
			t.Errorf("%s: Cache-Control %q", path, r.header.Get("Cache-Control"))
		}
	}
}
