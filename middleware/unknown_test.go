package middleware_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// The refusal of a name that is not in the policy has an error response, which fails the call and
// not the connection. A notification gets none (JSON-RPC 2.0 section 4.1).
func TestRefusalByNameIsAMessage(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy.Tools = map[string][]string{"list_notes": {"notes:read"}}
	})
	const sentence = "The policy of this server does not allow this to anybody."
	for _, tt := range []struct{ name, id, body string }{
		{"request", `"id":"seven",`, `{"jsonrpc":"2.0","id":"seven","error":{"code":-32602,"message":"` + sentence + `"}}`},
		{"large number", `"id":9007199254740993,`, `{"jsonrpc":"2.0","id":9007199254740993,"error":{"code":-32602,"message":"` + sentence + `"}}`},
		{"notification", ``, `{"error_description":"` + sentence + `"}` + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			request := withToken(issuer.Mint(claims{"aud": resource, "scope": "notes:read"}))
			request.Header.Set("Content-Type", "application/json")
			request.Body = io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0",` + tt.id + `"method":"tools/call","params":{"name":"erase_all"}}`))
			request.ContentLength = -1
			var h inner
			res := serve(guard.Protect(&h), request)
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != http.StatusForbidden || string(body) != tt.body || len(h.requests) > 0 {
				t.Errorf("%s %s, %v, want 403 %s", res.Status, body, err, tt.body)
			}
			if res.Header["Www-Authenticate"] != nil || res.Header.Get("Content-Type") != "application/json" || res.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("the header is %v", res.Header)
			}
		})
	}
}
