package middleware_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestHostsThatAreNoHost lets ResourceFor accept every request: it is not asked about a Host that is
// not one host.
func TestHostsThatAreNoHost(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	var hosts []string
	handler := behind(t, issuer, []string{north, south}, func(c *middleware.GuardsConfig) {
		c.ResourceFor = func(r *http.Request) (string, error) { hosts = append(hosts, r.Host); return north, nil }
	}).Protect(saysResource)
	for _, host := range []string{"", ":443", "north.example.com,south.example.com", "north.example.com, x", "north.example.com/mcp", "x@north.example.com", "@north.example.com",
		"north.example.com?", "north.example.com#", "[", "north.example.com:x", "north.example.com\tx", "north%2eexample.com", "%C3%A9.example.com", "[fe80::1%25en0]"} {
		r := newRequest("POST", north)
		r.Host = host
		if status, _, _ := replied(handler, r); status != http.StatusNotFound || hosts != nil {
			t.Errorf("%q: %d, ResourceFor is asked about %q", host, status, hosts)
		}
	}
	r := newRequest("POST", north)
	r.Host = "North.example.com:8443"
	if status, _, _ := replied(handler, r); status != http.StatusUnauthorized || len(hosts) != 1 || hosts[0] != "north.example.com:8443" {
		t.Errorf("%d, ResourceFor is asked about %q", status, hosts)
	}
}

// TestSpellingsOfAPlace reaches resources at the root of a host, and at ports that a URL need not name.
func TestSpellingsOfAPlace(t *testing.T) {
	const root, local, port = "https://root.example.com", "http://127.0.0.1/mcp", "https://north.example.com:8443/mcp"
	issuer := middlewaretest.NewIssuer(t)
	guards := behind(t, issuer, []string{root, local, north, port})
	for target, of := range map[string]string{root + "/": root, root: root, "http://127.0.0.1:80/mcp": local, "https://north.example.com:443/mcp": north, port: port} {
		status, challenge, _ := replied(guards.Protect(saysResource), newRequest("POST", target))
		well, _, _ := strings.Cut(of, "/mcp")
		if status != http.StatusUnauthorized || !strings.Contains(challenge, well+"/.well-known/") {
			t.Errorf("%s: %d %s, want %s", target, status, challenge, of)
		}
	}
	const well = "/.well-known/oauth-protected-resource"
	for target, of := range map[string]string{
		"https://north.example.com:8443" + well: port, "https://north.example.com" + well: north, "https://north.example.com" + well + "%2Fmcp": "",
	} {
		if status, _, body := replied(guards.Metadata(), newRequest("GET", target)); of == "" && status != http.StatusNotFound || !strings.Contains(body, of) {
			t.Errorf("%s: %d %s, want %q", target, status, body, of)
		}
	}
}

// TestMetadataBehindAProxy asks for the document at the root of the host that the proxy names.
func TestMetadataBehindAProxy(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guards := behind(t, issuer, []string{north, south}, func(c *middleware.GuardsConfig) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	})
	r := newRequest("GET", "https://internal/.well-known/oauth-protected-resource", "X-Forwarded-Host", "south.example.com")
	if status, _, body := replied(guards.Metadata(), r); status != http.StatusOK || !strings.Contains(body, south) {
		t.Errorf("%d %s", status, body)
	}
}

// TestPlacesWithTwoResources makes guards for resources that differ in what no request shows.
func TestPlacesWithTwoResources(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	shared := newIssuers(t, issuer)
	c := middleware.GuardsConfig{Guards: []*middleware.Guard{sharing(t, shared, "https://127.0.0.1/mcp"), sharing(t, shared, "http://127.0.0.1/mcp")}}
	if _, err := middleware.NewGuards(c); err == nil || !strings.Contains(err.Error(), "set ResourceFor") {
		t.Errorf("without ResourceFor: %v", err)
	}
	c.ResourceFor = func(*http.Request) (string, error) { return "http://127.0.0.1/mcp", nil }
	if _, err := middleware.NewGuards(c); err != nil {
		t.Error(err)
	}
}

// TestScopesBehindAnotherPath wraps a handler whose requests have another path than the resource, and
// one behind a guard that is none of these.
func TestScopesBehindAnotherPath(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guards := behind(t, issuer, []string{north, south})
	scoped := guards.RequireScope("notes:read")(saysResource)
	r := newRequest("POST", north, "Authorization", "Bearer "+issuer.Mint(claims{"aud": north, "scope": "notes:read"}))
	if status, _, body := replied(guards.Protect(http.StripPrefix("/mcp", scoped)), r); status != http.StatusOK || body != north {
		t.Errorf("behind another path: %d %s", status, body)
	}
	const west = "https://west.example.com/mcp"
	foreign := sharing(t, newIssuers(t, issuer), west)
	r = newRequest("POST", west, "Authorization", "Bearer "+issuer.Mint(claims{"aud": west, "scope": "notes:read"}))
	if status, _, _ := replied(foreign.Protect(scoped), r); status != http.StatusNotFound {
		t.Errorf("behind another guard: %d", status)
	}
}

// TestRefusalsForNoResource looks at the answer and at the event.
func TestRefusalsForNoResource(t *testing.T) {
	var seen middleware.Event
	guards := behind(t, middlewaretest.NewIssuer(t), []string{north}, func(c *middleware.GuardsConfig) {
		c.ResourceFor = func(*http.Request) (string, error) { return "", http.ErrNoCookie }
		c.Observe = func(_ *http.Request, e middleware.Event) { seen = e }
	})
	res := serve(guards.Protect(saysResource), newRequest("POST", north))
	if res.Header.Get("X-Request-Id") == "" || seen.Remote != netip.MustParseAddr("192.0.2.1") || !strings.Contains(seen.Err.Error(), http.ErrNoCookie.Error()) {
		t.Errorf("%v, %+v", res.Header, seen)
	}
}
