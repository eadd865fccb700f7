package middleware_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// A message without a name is forwarded to the handler, which may not have the method, unless a
// pattern of the policy needs scopes for every name.
func TestMessagesThatNameNothing(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	needs := func(names ...string) map[string][]string {
		rules := map[string][]string{}
		for _, name := range names {
			rules[name] = []string{"notes:read"}
		}
		return rules
	}
	anything := middleware.Policy{Tools: needs("*"), Prompts: needs("*"), Resources: needs("*")}
	byName := middleware.Policy{Tools: needs("add_note", "x*"), Prompts: needs("plan"), Resources: needs("notes://*")}
	for _, tt := range []struct {
		name, scope, message string
		policy               middleware.Policy
		status               int
	}{
		{"no uri", "notes:read", `"method":"resources/subscribe","params":{}`, anything, 418},
		{"no params", "notes:read", `"method":"resources/unsubscribe"`, anything, 418},
		{"no tool", "notes:read", `"method":"tools/call","params":{"arguments":{}}`, anything, 418},
		{"no prompt to complete", "notes:read", `"method":"completion/complete","params":{"ref":{"type":"ref/prompt"}}`, anything, 418},
		{"of another part", "", `"method":"resources/subscribe"`, middleware.Policy{Tools: needs("add_note")}, 418},
		{"without the scope", "", `"method":"resources/subscribe"`, anything, 403},
		{"no uri, known ones only", "notes:read", `"method":"resources/subscribe"`, byName, 400},
		{"no tool, known ones only", "notes:read", `"method":"tools/call","params":{}`, byName, 400},
		{"no prompt, known ones only", "notes:read", `"method":"prompts/get","params":{}`, byName, 400},

		{"an empty name", "notes:read", `"method":"tools/call","params":{"name":""}`, anything, 400},
		{"null", "notes:read", `"method":"tools/call","params":{"name":null}`, anything, 400},
		{"a number", "notes:read", `"method":"resources/read","params":{"uri":1}`, anything, 400},
		{"in another case", "notes:read", `"method":"tools/call","params":{"Name":"add_note"}`, anything, 400},
		{"inherited in JavaScript", "notes:read", `"method":"tools/call","params":{"__proto__":{"name":"add_note"}}`, anything, 400},
		{"a prompt, inherited", "notes:read", `"method":"completion/complete","params":{"ref":{"type":"ref/prompt","__proto__":{"name":"plan"}}}`, anything, 400},
		{"a filter, inherited", "notes:read", `"method":"subscriptions/listen","params":{"notifications":{"__proto__":{"resourceSubscriptions":["notes://1"]}}}`, anything, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy = tt.policy })
			send := func(fields ...string) *http.Request {
				request := withToken(issuer.Mint(claims{"aud": resource, "scope": tt.scope}))
				request.Header.Set("Content-Type", "application/json")
				request.Body = io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,` + tt.message + `}`))
				request.ContentLength = -1
				for i := 0; i < len(fields); i += 2 {
					request.Header.Set(fields[i], fields[i+1])
				}
				return request
			}
			if got := serve(guard.Protect(&inner{}), send()).StatusCode; got != tt.status {
				t.Errorf("answered with %d, want %d", got, tt.status)
			}
			if tt.status != http.StatusTeapot || tt.scope == "" {
				return
			}
			// The header must not have a name that the message does not have.
			if got := serve(guard.Protect(&inner{}), send("Mcp-Name", "notes://1")).StatusCode; got != http.StatusBadRequest {
				t.Errorf("with a name in the header, answered with %d, want 400", got)
			}
		})
	}
}
