package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// A tool answers when the token covers it. Otherwise the status is 403 with a challenge that
// names the scopes of the tool, so that clients step up.
func TestToolsNeedTheirScopes(t *testing.T) {
	tests := []struct {
		scopes, tool, arguments string
		missing                 string
	}{
		{"", "whoami", `{}`, ""},
		{"notes:read notes:write", "whoami", `{}`, ""},
		{"notes:read", "list_notes", `{}`, ""},
		{"notes:write", "add_note", `{"text":"milk"}`, ""},
		{"", "list_notes", `{}`, "notes:read"},
		{"notes:write", "list_notes", `{}`, "notes:read"},
		{"notes:reader notes", "list_notes", `{}`, "notes:read"},
		{"", "add_note", `{"text":"milk"}`, "notes:write"},
		{"notes:read", "add_note", `{"text":"milk"}`, "notes:write"},
		{"NOTES:WRITE", "add_note", `{"text":"milk"}`, "notes:write"},
		{"notes:read", "add_note", `{}`, "notes:write"},
	}
	eachEra(t, func(t *testing.T, d demo, as func(string, string) *caller) {
		for _, test := range tests {
			resp, answer := as("reader", test.scopes).call(t, test.tool, test.arguments)
			if test.missing == "" {
				if resp.StatusCode != http.StatusOK || answer.Result.IsError || answer.Result.StructuredContent == nil {
					t.Errorf("%s with %q: %s %+v", test.tool, test.scopes, resp.Status, answer)
				}
				continue
			}
			checkInsufficient(t, d, resp, test.tool, test.missing)
		}
	})
}

// A tool that the policy does not name is refused for every token. No token would help, so there
// is no challenge.
func TestOtherToolsAreForNobody(t *testing.T) {
	eachEra(t, func(t *testing.T, _ demo, as func(string, string) *caller) {
		for _, tool := range []string{"archive_notes", "WHOAMI", "whoami2", "who", "*"} {
			resp, _ := as("reader", "notes:read notes:write").call(t, tool, `{}`)
			if resp.StatusCode != http.StatusForbidden || resp.Header["Www-Authenticate"] != nil {
				t.Errorf("%q: %s %q, want 403 without a challenge", tool, resp.Status, resp.Header["Www-Authenticate"])
			}
		}
	})
}

// The tools do not rely on the guard: where its policy allows everything, they still run only for
// a token that covers them.
func TestToolsCheckThemselves(t *testing.T) {
	d := newDemoWith(t, plainDesk(), func(c *middleware.Config) { c.Policy = middleware.Policy{} })
	for scopes, tool := range map[string]string{"": "list_notes", "notes:write": "list_notes", "notes:read": "add_note"} {
		c := d.as("reader", scopes)
		c.modern = true
		if resp, answer := c.call(t, tool, `{"text":"milk"}`); resp.StatusCode != http.StatusOK || !answer.Result.IsError {
			t.Errorf("%s with %q: %s %+v, want an error of the tool", tool, scopes, resp.Status, answer)
		}
	}
	nobody := desk{notes: newNotebook(), caller: func(*mcp.CallToolRequest) *middleware.Token { return nil }}
	c := newDemoWith(t, nobody, nil).as("reader", "notes:read notes:write")
	c.modern = true
	for _, tool := range []string{"whoami", "list_notes", "add_note"} {
		if resp, answer := c.call(t, tool, `{}`); resp.StatusCode != http.StatusOK || !answer.Result.IsError {
			t.Errorf("%s without a token: %s %+v, want an error of the tool", tool, resp.Status, answer)
		}
	}
}

func checkInsufficient(t *testing.T, d demo, resp *http.Response, tool, missing string) {
	t.Helper()
	challenges, err := metadata.ParseChallenges(resp.Header["Www-Authenticate"])
	if resp.StatusCode != http.StatusForbidden || err != nil || len(challenges) != 1 {
		t.Errorf("%s: %s %q %v, want 403 and one challenge", tool, resp.Status, resp.Header["Www-Authenticate"], err)
		return
	}
	meta, err := metadata.ResourceMetadataURL(d.resource)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"error": "insufficient_scope", "scope": missing, "resource_metadata": meta} {
		if got, _ := challenges[0].Get(name); got != want {
			t.Errorf("%s: the challenge has %s=%q, want %q", tool, name, got, want)
		}
	}
}

// A tool that the token does not cover does not run for any form of the message: the tool itself
// refuses messages that the guard does not recognise.
func TestScopesCannotBeEvaded(t *testing.T) {
	const inner = `"arguments":{"text":"stolen"}`
	messages := map[string]string{
		"another case first":  `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"Name":"whoami","name":"add_note",` + inner + `}}`,
		"another case last":   `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add_note","NAME":"whoami",` + inner + `}}`,
		"name twice":          `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"whoami","name":"add_note",` + inner + `}}`,
		"name twice, swapped": `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add_note","name":"whoami",` + inner + `}}`,
		"method twice":        `{"jsonrpc":"2.0","id":2,"method":"ping","method":"tools/call","params":{"name":"add_note",` + inner + `}}`,
		"params twice":        `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"whoami"},"params":{"name":"add_note",` + inner + `}}`,
		"escaped name":        `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"n\u0061me":"add\u005fnote",` + inner + `}}`,
		"escaped method":      `{"jsonrpc":"2.0","id":2,"method":"tools\/call","params":{"name":"add_note",` + inner + `}}`,
		"batch":               `[{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add_note",` + inner + `}}]`,
		"notification":        `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"add_note",` + inner + `}}`,
		"deep arguments":      `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add_note","x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `,` + inner + `}}`,
		"two messages":        `{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add_note",` + inner + `}}`,
		"white space":         "\n\t" + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add_note",` + inner + `}}` + "\n",
	}
	for name, message := range messages {
		t.Run(name, func(t *testing.T) {
			d := newDemo(t)
			session := d.as("reader", "notes:read")
			session.initialize(t)
			for _, version := range []string{"", "2025-06-18", "2026-07-28", "2027-01-01"} {
				r := session.request(t, http.MethodPost, message)
				r.Header.Del("Mcp-Protocol-Version")
				if version != "" {
					r.Header.Set("Mcp-Protocol-Version", version)
				}
				send(t, r)
			}
			_, answer := session.call(t, "list_notes", `{}`)
			if got := string(answer.Result.StructuredContent); got != `{"notes":[]}` {
				t.Errorf("notes are now %s", got)
			}
		})
	}
}

func TestEachPersonHasTheirOwnNotes(t *testing.T) {
	eachEra(t, func(t *testing.T, _ demo, as func(string, string) *caller) {
		const all = "notes:read notes:write"
		for _, text := range []string{"milk", "bread"} {
			if _, answer := as("reader", all).call(t, "add_note", fmt.Sprintf(`{"text":%q}`, text)); answer.Result.IsError {
				t.Errorf("add_note %s: %+v", text, answer)
			}
		}
		for person, want := range map[string]string{"reader": `{"notes":["milk","bread"]}`, "writer": `{"notes":[]}`} {
			if _, answer := as(person, all).call(t, "list_notes", `{}`); string(answer.Result.StructuredContent) != want {
				t.Errorf("notes of %s are %s, want %s", person, answer.Result.StructuredContent, want)
			}
		}
	})
}

func TestWhoami(t *testing.T) {
	eachEra(t, func(t *testing.T, d demo, as func(string, string) *caller) {
		_, answer := as("reader", "notes:write profile").call(t, "whoami", `{}`)
		want := fmt.Sprintf(`{"client_id":"client","issuer":%q,"scopes":["notes:write","profile"],"subject":"reader"}`, d.issuer.URL())
		if got := string(answer.Result.StructuredContent); got != want {
			t.Errorf("whoami = %s, want %s", got, want)
		}
	})
}

// Each request in a session is authorized by its own token: another person may not use the
// session, and the same person with fewer scopes can do less.
func TestSessionsBelongToAPerson(t *testing.T) {
	d := newDemo(t)
	reader := d.as("reader", "notes:read notes:write")
	reader.initialize(t)
	other := func(claims middlewaretest.Claims) *caller {
		claims["aud"] = d.resource
		return &caller{resource: d.resource, session: reader.session, token: d.issuer.Mint(claims)}
	}
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		intruder := other(middlewaretest.Claims{"sub": "writer", "scope": "notes:read"})
		resp, _ := send(t, intruder.request(t, method, `{"jsonrpc":"2.0","id":2,"method":"ping"}`))
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s by another person: %s, want 403", method, resp.Status)
		}
	}
	lesser := other(middlewaretest.Claims{"sub": "reader", "scope": "notes:read", "client_id": "reader"})
	resp, _ := lesser.call(t, "add_note", `{"text":"milk"}`)
	checkInsufficient(t, d, resp, "add_note", "notes:write")
	if _, answer := lesser.call(t, "whoami", `{}`); !strings.Contains(string(answer.Result.StructuredContent), `"client_id":"reader"`) {
		t.Errorf("whoami = %s, want the client of this request", answer.Result.StructuredContent)
	}
	if resp, _ := reader.call(t, "add_note", `{"text":"milk"}`); resp.StatusCode != http.StatusOK {
		t.Errorf("the owner of the session: %s", resp.Status)
	}
}
