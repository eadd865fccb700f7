package gateway_test

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/gateway"
)

// bound is a change of a configuration for assertions that are bound to requests.
func bound(t testing.TB) func(*gateway.Config) {
	key := newKey(t)
	return func(c *gateway.Config) {
		c.Identity, c.AssertionKey, c.AssertionBinding = gateway.IdentityAssertion, key, gateway.BoundToRequest
	}
}

// An assertion names the request as the upstream gets it.
func TestAssertionsAreBoundToRequests(t *testing.T) {
	up := newUpstream(t)
	reads := func(c *gateway.Config) {
		c.Guard.Policy.Tools = map[string][]string{"list_notes": {"notes:read"}}
	}
	message := call("tools/call", map[string]any{"name": "list_notes"})
	for name, g := range map[string]*gate{"streams": newGate(t, up.URL+"/server", bound(t)), "messages": newGate(t, up.URL+"/server", bound(t), reads)} {
		for _, tt := range []struct{ method, path, body string }{
			{"POST", "/mcp", message}, {"POST", "/mcp/a%20b;c?d=%41&d", message}, {"POST", "/mcp?", message}, {"GET", "/mcp?a=b;c", ""}, {"DELETE", "/mcp/x", ""},
		} {
			if a := do(t, g.request(t, tt.method, tt.path, tt.body)); a.status != http.StatusOK {
				t.Fatalf("%s: %s %s: %+v", name, tt.method, tt.path, a)
			}
			got := up.taken()[0]
			says := verified(t, g, got.header.Get(gateway.HeaderAssertion))
			digest := sha256.Sum256(got.body)
			want := [3]string{got.method, got.uri, base64.RawURLEncoding.EncodeToString(digest[:])}
			if is := [3]string{says.RequestMethod, says.RequestTarget, says.RequestBody}; is != want || string(got.body) != tt.body {
				t.Errorf("%s: %s %s: %q, want %q", name, tt.method, tt.path, is, want)
			}
		}
	}
}

// A body that cannot be signed is refused: one that is too large, however it is sent.
func TestBoundBodiesAreBounded(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL, bound(t), func(c *gateway.Config) { c.Guard.MaxBody = 64 })
	for size, want := range map[int]int{64: http.StatusOK, 65: http.StatusRequestEntityTooLarge} {
		for _, streamed := range []bool{false, true} {
			r := g.request(t, "POST", "/mcp", strings.Repeat("x", size))
			if streamed {
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", size))), -1
			}
			a := do(t, r)
			if got := up.taken(); a.status != want || (len(got) == 1) != (want == http.StatusOK) {
				t.Errorf("%d bytes, streamed %t: %d %s, %d requests", size, streamed, a.status, a.body, len(got))
			}
			if want == http.StatusRequestEntityTooLarge {
				describes(t, a, want)
				if !strings.Contains(a.body, "more than 64 bytes") {
					t.Error(a.body)
				}
			}
		}
	}
}

// Nothing gives away an assertion that is bound to no request.
func TestNoAssertionWithoutRequest(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL, bound(t))
	a := do(t, g.request(t, "GET", "/verify", ""))
	describes(t, a, http.StatusNotFound)
	if a.header.Get(gateway.HeaderAssertion) != "" {
		t.Errorf("%+v", a)
	}
	for says, change := range map[string]func(*gateway.Config){
		"must be an assertion": func(c *gateway.Config) { c.Identity = gateway.IdentityHeaders },
		"forwards nothing":     func(c *gateway.Config) { c.VerifyOnly, c.Upstream = true, "" },
		"is not known":         func(c *gateway.Config) { c.AssertionBinding = "body" },
	} {
		config := gateway.Config{Upstream: up.URL}
		config.Guard.Resource, config.Guard.AuthorizationServers = resource, []string{"https://auth.example.com"}
		bound(t)(&config)
		change(&config)
		if _, err := gateway.New(config); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "assertion binding") {
			t.Errorf("%s: %v", says, err)
		}
	}
}
