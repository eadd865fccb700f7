package middleware_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const (
	north = "https://north.example.com/mcp"
	south = "https://south.example.com/mcp"
)

// behind are guards of resources that share an issuer, with one key for their sessions.
func behind(t testing.TB, issuer *middlewaretest.Issuer, resources []string, change ...func(*middleware.GuardsConfig)) *middleware.Guards {
	t.Helper()
	var c middleware.GuardsConfig
	shared := newIssuers(t, issuer)
	for _, of := range resources {
		c.Guards = append(c.Guards, sharing(t, shared, of, func(c *middleware.Config) { c.Sessions = newHandles(t, 7) }))
	}
	for _, f := range change {
		f(&c)
	}
	guards, err := middleware.NewGuards(c)
	if err != nil {
		t.Fatal(err)
	}
	return guards
}

// saysResource answers with the resource of the request.
var saysResource = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	of, _ := middleware.ResourceFrom(r.Context())
	_, _ = io.WriteString(w, of)
})

// replied returns the status, the challenge and the body of an answer.
func replied(h http.Handler, r *http.Request) (status int, challenge, body string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Header().Get("WWW-Authenticate"), w.Body.String()
}

// TestResourcePerHost sends the token of each resource to each host.
func TestResourcePerHost(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	handler := behind(t, issuer, []string{north, south}).Protect(saysResource)
	for _, audience := range []string{north, south} {
		token := "Bearer " + issuer.Mint(claims{"aud": audience})
		for range 2 {
			for _, of := range []string{north, south} {
				status, challenge, body := replied(handler, newRequest("POST", of, "Authorization", token))
				if of == audience && (status != http.StatusOK || body != of) {
					t.Errorf("%s at its host: %d %s", of, status, body)
				}
				if of != audience && (status != http.StatusUnauthorized || !strings.Contains(challenge, metadataOf(of))) {
					t.Errorf("a token for %s at %s: %d %s", audience, of, status, challenge)
				}
			}
		}
	}
	for _, target := range []string{"https://north.example.com:443/mcp", "https://NORTH.example.com/mcp"} {
		if status, challenge, _ := replied(handler, newRequest("POST", target)); status != http.StatusUnauthorized || !strings.Contains(challenge, metadataOf(north)) {
			t.Errorf("%s: %d %s", target, status, challenge)
		}
	}
	if got := issuer.KeyRequests(); got != 1 {
		t.Errorf("%d fetches of keys", got)
	}
}

// metadataOf returns the URL of the metadata of a resource with the path /mcp.
func metadataOf(resource string) string {
	return strings.Replace(resource, "/mcp", "/.well-known/oauth-protected-resource/mcp", 1)
}

// TestNoOtherResource sends a good token to places that are none of the resources, and lets
// ResourceFor return what is not on the list.
func TestNoOtherResource(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token := "Bearer " + issuer.Mint(claims{"aud": []string{north, south, "https://west.example.com/mcp", ""}})
	var seen []middleware.Event
	watch := func(c *middleware.GuardsConfig) {
		c.Observe = func(_ *http.Request, e middleware.Event) { seen = append(seen, e) }
	}
	refusedEverywhere := func(guards *middleware.Guards, r *http.Request) {
		t.Helper()
		seen = nil
		status, challenge, body := replied(guards.Protect(saysResource), r)
		if status != http.StatusNotFound || challenge != "" || strings.Contains(body, "secret") || len(seen) != 1 || seen[0].Status != status || seen[0].Err == nil {
			t.Errorf("%s %s: %d %s %s %v", r.Host, r.URL, status, challenge, body, seen)
		}
	}
	guards := behind(t, issuer, []string{north, south}, watch)
	for _, target := range []string{"https://west.example.com/mcp", "https://north.example.com/", "https://north.example.com/mcp/", "https://north.example.com/MCP",
		"https://north.example.com/%6dcp", "https://north.example.com:8443/mcp", "https://north.example.com.evil.example.org/mcp"} {
		refusedEverywhere(guards, newRequest("POST", target, "Authorization", token))
	}
	for _, host := range []string{"", "north.example.com, south.example.com", "north.example.com/mcp", "x@north.example.com", "north.example.com?", "north.example.com#", "[", "north.example.com:x"} {
		r := newRequest("POST", north, "Authorization", token)
		r.Host = host
		refusedEverywhere(guards, r)
	}
	for answer, err := range map[string]error{"": nil, "https://west.example.com/mcp": nil, north + "/": nil, north: errors.New("a secret reason")} {
		chosen := behind(t, issuer, []string{north, south}, watch, func(c *middleware.GuardsConfig) {
			c.ResourceFor = func(*http.Request) (string, error) { return answer, err }
		})
		refusedEverywhere(chosen, newRequest("POST", north, "Authorization", token))
	}
}

// TestForwardedHosts reaches a resource through X-Forwarded-Host, which counts from a trusted proxy
// only: anybody else could choose another resource with it.
func TestForwardedHosts(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guards := behind(t, issuer, []string{north, south}, func(c *middleware.GuardsConfig) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	for from, want := range map[string]string{"10.1.2.3:99": south, "192.0.2.1:99": north, "": north} {
		r := newRequest("POST", north, "X-Forwarded-Host", "South.example.com", "Forwarded", "host=west.example.com")
		r.RemoteAddr = from
		if _, challenge, _ := replied(guards.Protect(saysResource), r); !strings.Contains(challenge, metadataOf(want)) {
			t.Errorf("from %q: %s, want %s", from, challenge, want)
		}
	}
}

// TestWhatResourceForSees looks at the request that the function gets.
func TestWhatResourceForSees(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	var got *http.Request
	guards := behind(t, issuer, []string{north, south}, func(c *middleware.GuardsConfig) {
		c.ResourceFor = func(r *http.Request) (string, error) {
			got = r
			r.URL.Path, r.Host = "/changed", "changed.example.com"
			r.Header.Set("Accept", "changed")
			return map[string]string{"a": north, "b": south}[r.PathValue("tenant")], nil
		}
	})
	mux := http.NewServeMux()
	mux.Handle("/{tenant}/mcp", guards.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/b/mcp" || r.Host == "changed.example.com" || r.Header.Get("Accept") != "text/html" {
			t.Errorf("the handler gets a changed request: %s %s %v", r.Host, r.URL, r.Header)
		}
		saysResource(w, r)
	})))
	r := newRequest("POST", "https://Any.example.com/b/mcp", "Authorization", "Bearer "+issuer.Mint(claims{"aud": south}), "Accept", "text/html", "DPoP", "x",
		"X-Forwarded-Host", "evil.example.org", "X-Forwarded-Proto", "http", "Forwarded", "host=evil.example.org", "X-Original-URL", "/a/mcp",
		"X-Host", "evil.example.org", "X-Rewrite-URL", "/a/mcp")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("text")), 4
	if status, _, body := replied(mux, r); status != http.StatusOK || body != south {
		t.Errorf("%d %s", status, body)
	}
	if got.URL.Host != "" || got.Body != http.NoBody || got.ContentLength != 0 || len(got.Header) != 1 {
		t.Errorf("ResourceFor gets %s, %v, %v", got.URL, got.Body, got.Header)
	}
}

// TestMetadataOfEachResource asks for the documents of resources on one host and on several.
func TestMetadataOfEachResource(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	const well = "/.well-known/oauth-protected-resource"
	one, two := "https://one.example.com/a/mcp", "https://one.example.com/b/mcp"
	guards := behind(t, issuer, []string{north, south, one, two})
	mux := http.NewServeMux()
	for _, path := range guards.MetadataPaths() {
		mux.Handle(path, guards.Metadata())
	}
	for target, want := range map[string]string{
		metadataOf(north): north, metadataOf(south): south,
		"https://north.example.com" + well: north, "https://SOUTH.example.com:443" + well: south,
		"https://one.example.com" + well + "/a/mcp": one, "https://one.example.com" + well + "/b/mcp": two,
		"https://internal:8081" + well + "/b/mcp":  two, // a proxy that does not pass on the host
		"https://one.example.com" + well:           "",
		"https://west.example.com" + well + "/mcp": "",
		"https://west.example.com" + well:          "",
		"https://one.example.com" + well + "/mcp":  "",
	} {
		status, _, body := replied(mux, newRequest("GET", target))
		if want == "" && status != http.StatusNotFound || want != "" && !strings.Contains(body, `"resource":"`+want+`"`) {
			t.Errorf("%s: %d %s, want %q", target, status, body, want)
		}
	}
}

// TestSessionsOfAnotherResource takes a session from one resource to the other. The person, the
// issuer and the configured key are the same.
func TestSessionsOfAnotherResource(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token := "Bearer " + issuer.Mint(claims{"aud": []string{north, south}})
	handler := behind(t, issuer, []string{north, south}).Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Mcp-Session-Id", "session-1")
	}))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, newRequest("POST", north, "Authorization", token))
	session := w.Header().Get("Mcp-Session-Id")
	for of, want := range map[string]int{north: http.StatusOK, south: http.StatusNotFound} {
		if status, _, _ := replied(handler, newRequest("POST", of, "Authorization", token, "Mcp-Session-Id", session)); status != want {
			t.Errorf("the session at %s: %d, want %d", of, status, want)
		}
	}
}

// TestScopesOfEachResource wraps a route: the challenge is that of the resource of the request.
func TestScopesOfEachResource(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guards := behind(t, issuer, []string{north, south})
	handler := guards.Protect(guards.RequireScope("notes:write")(saysResource))
	for _, of := range []string{north, south} {
		for scope, want := range map[string]int{"notes:write": http.StatusOK, "notes:read": http.StatusForbidden} {
			r := newRequest("POST", of, "Authorization", "Bearer "+issuer.Mint(claims{"aud": of, "scope": scope}))
			if status, challenge, _ := replied(handler, r); status != want || status == http.StatusForbidden && !strings.Contains(challenge, metadataOf(of)) {
				t.Errorf("%s with %s: %d %s", of, scope, status, challenge)
			}
		}
		if status, challenge, _ := replied(guards.RequireScope("notes:write")(saysResource), newRequest("POST", of)); status != http.StatusUnauthorized || !strings.Contains(challenge, metadataOf(of)) {
			t.Errorf("%s without Protect: %d %s", of, status, challenge)
		}
	}
}

func TestMistakesAboutGuards(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	shared := newIssuers(t, issuer)
	one := sharing(t, shared, north)
	for want, guards := range map[string][]*middleware.Guard{
		"there is none": nil, "is empty": {one, nil}, "make them with New": {new(middleware.Guard)}, "has two": {one, sharing(t, shared, north)},
	} {
		if _, err := middleware.NewGuards(middleware.GuardsConfig{Guards: guards}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if _, ok := middleware.ResourceFrom(t.Context()); ok {
		t.Error("there is a resource outside a guard")
	}
}
