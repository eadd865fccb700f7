package middleware_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// otherSpellings are names that some servers, but not Go, treat as a header that the guard
// checks.
func otherSpellings(name string) []string {
	var names []string
	for _, separator := range []string{"_", ".", "~"} {
		names = append(names, strings.ReplaceAll(name, "-", separator), strings.ToUpper(strings.ReplaceAll(name, "-", separator)), strings.Replace(name, "-", separator, 1))
	}
	return names
}

// TestHeadersOfAnotherSpelling checks that the handler does not get other spellings of the
// headers that the guard checks.
func TestHeadersOfAnotherSpelling(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.InsecureUnboundSessions = true })
	var seen http.Header
	handler := guard.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header }))
	send := func(name string) {
		r := withToken(issuer.Mint(claims{"aud": resource}))
		r.Header[http.CanonicalHeaderKey(name)] = []string{"x"}
		seen = nil
		if res := serve(handler, r); res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", name, res.Status)
		}
	}
	for _, judged := range []string{
		"Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Last-Event-Id", "Content-Type", "Content-Length", "Content-Encoding",
		"Transfer-Encoding", "Proxy-Authorization", "X-Forwarded-Host", "X-Forwarded-For",
	} {
		for _, name := range otherSpellings(judged) {
			if send(name); slices.ContainsFunc(slices.Collect(keysOf(seen)), func(got string) bool { return strings.EqualFold(got, name) }) {
				t.Errorf("%s reaches the handler beside %s", name, judged)
			}
		}
	}
	for _, other := range []string{"Mcp-Param-My_tool", "Mcp-Param-A.b", "X_custom", "Mcp_session_identity", "Traceparent", "Mcp-Session-Id", "Last-Event-Id"} {
		if send(other); seen[http.CanonicalHeaderKey(other)] == nil {
			t.Errorf("%s does not reach the handler: %v", other, seen)
		}
	}
}

func keysOf(header http.Header) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range header {
			if !yield(name) {
				return
			}
		}
	}
}

// TestSessionOfAnotherSpelling checks that the raw session id in another spelling of the header
// does not bypass the binding.
func TestSessionOfAnotherSpelling(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Sessions = newHandles(t, 7) })
	var seen http.Header
	handler := guard.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header }))
	for _, name := range otherSpellings("Mcp-Session-Id") {
		r := withToken(issuer.Mint(claims{"aud": resource, "sub": "writer"}))
		r.Header[name] = []string{"the session of somebody else"}
		if serve(handler, r); len(seen) != 0 {
			t.Errorf("%s: the handler sees %v", name, seen)
		}
	}
}
