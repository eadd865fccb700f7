package examples

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// posted is the answer to a message that a person posts.
func posted(t *testing.T, url, token, session, message string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
		r.Header.Set("MCP-Protocol-Version", "2025-06-18")
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// TestTheTenLinesAreSafe: the shortest configuration in front of a server of the official Go SDK
// with sessions: each tool needs its scopes, and a session cannot be continued by another user.
func TestTheTenLinesAreSafe(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	endpoint := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return newNotes() }, nil)
	url := start(t, "/mcp", func(resource string) (http.Handler, error) {
		guard, err := middleware.New(middleware.Config{
			Resource:             resource,
			AuthorizationServers: []string{issuer.URL()},
			Scopes:               []string{"notes:read", "notes:write"},
			Policy: middleware.Policy{Tools: map[string][]string{
				"list_notes": {"notes:read"},
				"add_note":   {"notes:write"},
			}},
		})
		if err != nil {
			return nil, err
		}
		return guard.Protect(endpoint), nil
	})
	token := func(subject, scope string) string {
		return issuer.Mint(middlewaretest.Claims{"aud": url, "sub": subject, "scope": scope})
	}
	first, second := token("first", "notes:read"), token("second", "notes:read notes:write")
	res, body := posted(t, url, first, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	session := res.Header.Get("Mcp-Session-Id")
	if res.StatusCode != http.StatusOK || session == "" {
		t.Fatalf("no session: %s %s", res.Status, body)
	}
	posted(t, url, first, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	tool := func(name string) string {
		return `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + name + `","arguments":{"text":"milk"}}}`
	}
	for _, tt := range []struct {
		who, token, tool string
		status           int
	}{
		{"the person", first, "list_notes", http.StatusOK},
		{"the person without the scope", first, "add_note", http.StatusForbidden},
		{"the person for a tool that is not named", first, "drop_notes", http.StatusForbidden},
		{"another person with the session", second, "list_notes", http.StatusNotFound},
		{"another person with the session and more scopes", second, "add_note", http.StatusNotFound},
	} {
		if res, body := posted(t, url, tt.token, session, tool(tt.tool)); res.StatusCode != tt.status {
			t.Errorf("%s: %s %s, want %d", tt.who, res.Status, body, tt.status)
		}
	}
	inside, _, _ := strings.Cut(session, ".")
	if res, body := posted(t, url, second, inside, tool("list_notes")); res.StatusCode != http.StatusNotFound {
		t.Errorf("another person with the id that the handler gave out: %s %s", res.Status, body)
	}
}
