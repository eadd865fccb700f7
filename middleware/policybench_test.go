package middleware_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// BenchmarkPolicy measures a call of a tool with a message of 1 KiB and a cached token, with a
// policy of a hundred tools.
func BenchmarkPolicy(b *testing.B) {
	tools := map[string][]string{"add_note": {"notes:write"}, "admin_*": {"notes:admin"}}
	for i := range 100 {
		tools["tool_"+strings.Repeat("x", i)] = []string{"notes:read"}
	}
	issuer := middlewaretest.NewIssuer(b)
	call := request("tools/call", `{"name":"add_note","arguments":{"text":"`+strings.Repeat("milk ", 186)+`"}}`)
	for name, tt := range map[string]struct {
		policy middleware.Policy
		scopes string
	}{
		"unread":      {middleware.Policy{}, "notes:write"},
		"let through": {middleware.Policy{Tools: tools}, "notes:write"},
		"implied":     {middleware.Policy{Tools: tools, Implies: map[string][]string{"notes:admin": {"notes:write"}}}, "notes:admin"},
		"refused":     {middleware.Policy{Tools: tools}, "notes:read"},
	} {
		b.Run(name, func(b *testing.B) {
			guard := newGuard(b, issuer, func(c *middleware.Config) { c.Policy = tt.policy })
			handler := guard.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			r := post(issuer, tt.scopes, call)
			r.Header.Set("Mcp-Method", "tools/call")
			r.Header.Set("Mcp-Name", "add_note")
			body := strings.NewReader(call)
			r.Body = io.NopCloser(body)
			w := discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				body.Reset(call)
				handler.ServeHTTP(w, r)
			}
		})
	}
}

// BenchmarkReadings measures reading a resource with a policy of a hundred patterns.
func BenchmarkReadings(b *testing.B) {
	patterns := map[string][]string{"notes://box/*": {"notes:read"}}
	for i := range 100 {
		patterns["notes://"+strings.Repeat("x", i)+"/*"] = []string{"notes:read"}
	}
	issuer := middlewaretest.NewIssuer(b)
	for name, uri := range map[string]string{"plain": "notes://box/1", "strange": "FILE:///a/../b%2Fc;d?e#f", "longest": "notes://box/" + strings.Repeat("%61/", 4000)} {
		b.Run(name, func(b *testing.B) {
			guard := newGuard(b, issuer, func(c *middleware.Config) { c.Policy = middleware.Policy{Resources: patterns} })
			handler := guard.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			message := request("resources/read", `{"uri":"`+uri+`"}`)
			r := post(issuer, "notes:read", message)
			body := strings.NewReader(message)
			r.Body = io.NopCloser(body)
			w := discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				body.Reset(message)
				handler.ServeHTTP(w, r)
			}
		})
	}
}
