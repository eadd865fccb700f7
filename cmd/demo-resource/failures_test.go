package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/message"
	"gatehouse.example/middleware/middlewaretest"
)

// at returns a caller of one revision, with a session if the revision has them.
func at(t *testing.T, d demo, revision, scopes string) *caller {
	t.Helper()
	c := d.as("reader", scopes)
	if c.modern = revision >= stateless; !c.modern {
		c.revision = revision
		c.initialize(t)
	}
	return c
}

// failed checks that a response is a JSON-RPC error with the id of its request and a code other
// than 0.
func failed(t *testing.T, what, text, id string) message.Error {
	t.Helper()
	m, err := message.Decode([]byte(text), message.Limits{})
	answer, ok := m.(message.ErrorResponse)
	if err != nil || !ok {
		t.Errorf("%s: %q is no error of the protocol (%v)", what, text, err)
		return message.Error{}
	}
	if got, _ := answer.ID.MarshalJSON(); string(got) != id || answer.Error.Code == 0 || answer.Error.Message == "" {
		t.Errorf("%s: %s, want the id %s and a code", what, text, id)
	}
	return answer.Error
}

// TestEveryFailureIsAnswered sends requests that fail in all ways, in sessions of the older
// revisions and in the stateless one.
func TestEveryFailureIsAnswered(t *testing.T) {
	d := newDemo(t)
	tests := []struct {
		name, method, params string
		code                 message.Code // 0: any
		status               int          // in sessions; 0: any
	}{
		{"an unknown method", "notes/burn", `{}`, message.CodeMethodNotFound, http.StatusOK},
		{"a method of clients", "sampling/createMessage", `{}`, message.CodeMethodNotFound, http.StatusOK},
		{"almost a method", "Tools/List", `{}`, message.CodeInvalidRequest, http.StatusBadRequest},
		{"a notification as a request", "notifications/initialized", `{}`, 0, 0},
		{"an unknown tool", "tools/call", `{"name":"burn_notes","arguments":{}}`, message.CodeInvalidParams, http.StatusForbidden},
		{"a tool without a name", "tools/call", `{"arguments":{}}`, 0, 0},
		{"a tool whose name is a number", "tools/call", `{"name":7}`, message.CodeInvalidParams, http.StatusBadRequest},
		{"malformed params", "tools/list", `{"cursor":7}`, 0, 0},
		{"a cursor that nobody gave out", "tools/list", `{"cursor":"x"}`, 0, 0},
		{"a resource that is not there", "resources/read", `{"uri":"notes://x"}`, 0, 0},
		{"a prompt that is not there", "prompts/get", `{"name":"x"}`, 0, 0},
		{"completion of nothing", "completion/complete", `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}}`, 0, 0},
		{"a level that is none", "logging/setLevel", `{"level":"loud"}`, 0, 0},
		{"a tool that the token does not cover", "tools/call", `{"name":"add_note","arguments":{"text":"x"}}`, message.CodeInvalidRequest, http.StatusForbidden},
	}
	for _, revision := range []string{"2025-06-18", "2025-11-25", stateless} {
		t.Run(revision, func(t *testing.T) {
			c := at(t, d, revision, "notes:read")
			for i, tt := range tests {
				if c.modern && strings.Contains(tt.params, `"name":7`) {
					continue // no header could repeat it
				}
				for _, id := range []string{fmt.Sprint(1000 + i), fmt.Sprintf(`"a \" %d"`, i)} {
					c.nextID = id
					resp, text := c.post(t, tt.method, tt.params)
					if resp.StatusCode == http.StatusOK && strings.Contains(text, `"result"`) {
						if tt.code != 0 {
							t.Errorf("%s went well: %s", tt.name, text)
						}
						continue
					}
					got := failed(t, tt.name, text, id)
					if tt.code != 0 && got.Code != tt.code || !c.modern && tt.status != 0 && resp.StatusCode != tt.status {
						t.Errorf("%s: %s, %v; want the code %d and %d", tt.name, resp.Status, got, tt.code, tt.status)
					}
				}
			}
		})
	}
}

// TestToolsThatFail checks that the failure of a tool is a result with an error, for the model
// to read.
func TestToolsThatFail(t *testing.T) {
	d := newDemo(t)
	for _, revision := range []string{"2025-06-18", "2025-11-25", stateless} {
		c := at(t, d, revision, "notes:write")
		for name, arguments := range map[string]string{"too long": `{"text":"` + strings.Repeat("x", 5000) + `"}`, "of another type": `{"text":7}`, "nothing": `{}`} {
			c.nextID = ""
			resp, text := c.post(t, "tools/call", `{"name":"add_note","arguments":`+arguments+`}`)
			var out result
			if err := json.Unmarshal([]byte(text), &out); err != nil || resp.StatusCode != http.StatusOK || !out.Result.IsError && out.Error.Code == 0 {
				t.Errorf("%s, %s: %s %s", revision, name, resp.Status, text)
			}
		}
	}
}

// TestUnknownSessions checks that an unknown session is 404 with the id of the request, so that
// the client starts a new one.
func TestUnknownSessions(t *testing.T) {
	d := newDemo(t)
	for _, revision := range []string{"2025-06-18", "2025-11-25"} {
		c := at(t, d, revision, "notes:read")
		c.session = "nobody-has-this-one"
		resp, text := c.post(t, "tools/list", `{}`)
		if failed(t, "an unknown session", text, fmt.Sprint(c.ids+1)); resp.StatusCode != http.StatusNotFound {
			t.Errorf("an unknown session: %s", resp.Status)
		}
		resp, text = send(t, c.request(t, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
		if resp.StatusCode != http.StatusNotFound || strings.Contains(text, `"id"`) {
			t.Errorf("a notification to nowhere: %s %s", resp.Status, text)
		}
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			if resp, text = send(t, c.request(t, method, "")); resp.StatusCode != http.StatusNotFound || strings.Contains(text, `"id"`) {
				t.Errorf("%s: %s %s", method, resp.Status, text)
			}
		}
		c.session = ""
		if resp, text = send(t, c.request(t, http.MethodGet, "")); resp.StatusCode < 400 {
			t.Errorf("GET without a session: %s %s", resp.Status, text)
		}
	}
}

// TestRefusalsAreLogged checks that refusals by the guard, by the rules about ids and by the
// SDK are logged, with the id that the response names, and not with one that a client chose.
func TestRefusalsAreLogged(t *testing.T) {
	var out lockedBuffer
	issuer := middlewaretest.NewIssuer(t)
	server := httptest.NewUnstartedServer(nil)
	s := settings{Resource: "http://" + server.Listener.Addr().String() + "/mcp", Issuer: issuer.URL()}
	handler, err := s.handler(plainDesk(), slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = handler
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	d := demo{issuer: issuer, resource: s.Resource}
	c := at(t, d, "2025-11-25", "notes:read")
	strangers := &caller{resource: d.resource}
	for name, r := range map[string]*http.Request{
		"no token":         strangers.request(t, http.MethodPost, `{}`),
		"a missing scope":  c.message(t, "tools/call", `{"name":"add_note","arguments":{"text":"x"}}`),
		"an unknown tool":  c.message(t, "tools/call", `{"name":"burn","arguments":{}}`),
		"an unknown call":  c.message(t, "burn", `{}`),
		"an id used twice": c.request(t, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"ping"}`),
	} {
		r.Header.Set("X-Request-Id", "theirs")
		resp, _ := send(t, r)
		own := resp.Header.Get("X-Request-Id")
		var lines [][]byte
		for line := range bytes.Lines([]byte(out.String())) {
			if bytes.Contains(line, []byte("request="+own)) {
				lines = append(lines, line)
			}
		}
		if own == "" || len(lines) != 1 || !bytes.Contains(lines[0], []byte("request refused")) || !bytes.Contains(lines[0], []byte("parent=theirs")) {
			t.Errorf("%s (%s): request %s is in the lines %q", name, resp.Status, own, lines)
		}
	}
}
