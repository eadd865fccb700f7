package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

const twoTools = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"whoami"},{"name":"hidden"}],"nextCursor":"hidden"}}`

// TestGatewayFiltersListsInAnyForm checks that lists of an upstream show no hidden item with
// any status and media type, as a document or in a stream, compressed or not.
func TestGatewayFiltersListsInAnyForm(t *testing.T) {
	g := newGate(t, serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Content-Type", "Content-Encoding"} {
			if value := r.Header.Get("X-" + name); value != "" {
				w.Header().Set(name, value)
			}
		}
		status, _ := strconv.Atoi(r.Header.Get("X-Status"))
		w.WriteHeader(status)
		body := twoTools
		if strings.Contains(r.Header.Get("X-Content-Type"), "event-stream") {
			body = "data: " + body + "\n\n"
		}
		_, _ = io.WriteString(w, body)
	}), func(c *gateway.Config) { c.Guard.Policy = notes; c.Guard.Policy.Scopes = nil })
	for _, status := range []string{"200", "202", "400", "404", "500"} {
		for _, media := range []string{"application/json", "application/json;x", "text/event-stream", "text/plain", "", "application/x-ndjson", "multipart/mixed; boundary=x"} {
			for _, encoding := range []string{"", "gzip"} {
				a := do(t, g.request(t, "POST", "/mcp", call("tools/list", nil), "X-Status", status, "X-Content-Type", media, "X-Content-Encoding", encoding))
				shown := encoding == "" && (strings.HasPrefix(media, "application/json") || media == "text/event-stream")
				want := status
				if !shown && status < "300" {
					want = "502"
				}
				if strings.Contains(a.body, "hidden") || strings.Contains(a.body, "whoami") != shown || strconv.Itoa(a.status) != want {
					t.Errorf("%s %q %q: %d %s", status, media, encoding, a.status, a.body)
				}
			}
		}
	}
}

// TestGatewaysShareCursors checks that a list that was begun at one gateway continues at
// another with the same key, for the same person.
func TestGatewaysShareCursors(t *testing.T) {
	var asked []string
	url := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		var message struct{ Params struct{ Cursor string } }
		_ = json.NewDecoder(r.Body).Decode(&message)
		asked = append(asked, message.Params.Cursor)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, twoTools)
	})
	handles, err := middleware.NewHandles([]byte("a key of thirty-two bytes or more"))
	if err != nil {
		t.Fatal(err)
	}
	first := newGate(t, url, func(c *gateway.Config) { c.Guard.Policy, c.Guard.Sessions = notes, handles })
	second := newGate(t, url, func(c *gateway.Config) {
		c.Guard.Policy, c.Guard.Sessions, c.Guard.AuthorizationServers = notes, handles, []string{first.issuer.URL()}
	})
	second.issuer = first.issuer
	list := func(g *gate, subject, cursor string) answered {
		return do(t, g.request(t, "POST", "/mcp", call("tools/list", map[string]any{"cursor": cursor}), "Authorization", "Bearer "+g.token(t, claims{"sub": subject})))
	}
	var page struct{ Result struct{ NextCursor string } }
	if a := list(first, "alice", ""); json.Unmarshal([]byte(a.body), &page) != nil || page.Result.NextCursor == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := list(second, "alice", page.Result.NextCursor); a.status != 200 || !slices.Equal(asked, []string{"", "hidden"}) {
		t.Errorf("at another gateway: %d %s, the upstream was asked for %q", a.status, a.body, asked)
	}
	for name, a := range map[string]answered{"somebody else": list(second, "bob", page.Result.NextCursor), "a cursor of the upstream": list(second, "alice", "hidden")} {
		if a.status != 400 || !strings.Contains(a.body, "-32602") || len(asked) != 2 {
			t.Errorf("%s: %d %s, the upstream was asked for %q", name, a.status, a.body, asked)
		}
	}
}

// TestGatewayRefusesOtherSpellings checks that methods in another spelling and batches are not
// forwarded, and that /verify does not allow them.
func TestGatewayRefusesOtherSpellings(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL, func(c *gateway.Config) { c.Guard.Policy = notes })
	for _, body := range []string{
		call("Tools/Call", map[string]any{"name": "drop_notes"}), call("tools/call/", map[string]any{"name": "drop_notes"}), call("logging.setLevel", nil), call("tools/list ", nil), call("Completion/Complete", nil),
		"[" + call("tools/list", nil) + "]", "[" + call("tools/list", nil) + "," + call("tools/list", nil) + "]",
	} {
		if a := do(t, g.request(t, "POST", "/mcp", body)); a.status != 400 || !strings.Contains(a.body, "-32600") || len(up.taken()) > 0 {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	v := verifier(t, func(c *gateway.Config) { c.Guard.Policy, c.InsecureTrustMCPHeaders = notes, true })
	for _, method := range []string{"Tools/Call", "tools.call", "LOGGING/setLevel", "tools/call/"} {
		a := do(t, v.request(t, "GET", "/verify", "", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", "drop_notes", "Authorization", "Bearer "+v.token(t, claims{"scope": "notes:read"})))
		if a.status != 403 {
			t.Errorf("/verify of %s: %d", method, a.status)
		}
	}
}

// TestGatewaySaysThatAnAnswerIsLost checks that an unreadable event ends the stream with an
// error and the request to the upstream, and that the connection stays usable.
func TestGatewaySaysThatAnAnswerIsLost(t *testing.T) {
	ended := make(chan bool, 1)
	g := newGate(t, serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"tools\":\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // as servers wait that have more to say
		ended <- true
	}), func(c *gateway.Config) { c.Guard.Policy = notes })
	a := do(t, g.request(t, "POST", "/mcp", call("tools/list", nil)))
	soon(t, "the end at the upstream", ended)
	if want := `data: {"jsonrpc":"2.0","id":1,"error":{"code":-32603,`; a.status != 200 || !strings.HasPrefix(a.body, want) || !strings.HasSuffix(a.body, "\n\n") {
		t.Errorf("%d %q", a.status, a.body)
	}
	if text := g.log.String(); !strings.Contains(text, "an answer was not passed on") || strings.Contains(text, "panic") {
		t.Errorf("the log:\n%s", text)
	}
}
