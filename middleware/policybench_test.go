package middleware_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// BenchmarkPolicy measures a call of a tool with a message of 1 KiB, with a token that is
// known, through a policy of a hundred tools.
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
