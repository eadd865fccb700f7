package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/gateway"
)

// A websocket is refused in words, with and without a token, and other upgrades are ignored.
func TestWebsocketsAreRefused(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL)
	for name, fields := range map[string][]string{
		"a handshake":                {"Connection", "Upgrade", "Upgrade", "websocket", "Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZQ==", "Sec-Websocket-Version", "13"},
		"in other case":              {"Connection", "upgrade", "Upgrade", "h2c, WebSocket/13"},
		"in a second header":         {"Connection", "upgrade", "Upgrade", "h2c", "Upgrade", "websocket"},
		"behind a proxy without one": {"Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="},
	} {
		for token, more := range map[string][]string{"a good token": nil, "no token": {"Authorization", ""}, "a bad token": {"Authorization", "Bearer hunter22"}} {
			a := do(t, g.request(t, "GET", "/mcp/ws", "", append(append([]string{}, more...), fields...)...))
			describes(t, a, http.StatusNotImplemented)
			if !strings.Contains(a.body, "Websockets are not forwarded") || !strings.Contains(a.body, "Use Streamable HTTP.") {
				t.Errorf("%s, %s: %s", name, token, a.body)
			}
		}
	}
	if got := up.taken(); len(got) > 0 {
		t.Errorf("the upstream was asked: %+v", got)
	}
	for _, fields := range [][]string{{"Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "Http2-Settings", "AAMAAABk"}, {"Connection", "upgrade", "Upgrade", "websocketlike"}} {
		if a := do(t, g.request(t, "GET", "/mcp", "", fields...)); a.status != http.StatusOK {
			t.Errorf("%q: %d %s", fields, a.status, a.body)
		}
	}
	if a := do(t, g.request(t, "POST", "/mcp", "{}", "Connection", "upgrade", "Upgrade", "websocket", "Sec-Websocket-Key", "x")); a.status != http.StatusOK {
		t.Errorf("a message that offers to go on: %d %s", a.status, a.body)
	}
	describes(t, do(t, g.request(t, "GET", "/elsewhere", "", "Connection", "Upgrade", "Upgrade", "websocket")), http.StatusNotFound)
}

// An extended CONNECT of HTTP/2 is a websocket too.
func TestExtendedConnectIsRefused(t *testing.T) {
	g := newGate(t, newUpstream(t).URL)
	router, err := gateway.NewRouter(g.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range []http.Handler{g, router, router} {
		for protocol, want := range map[string]int{"websocket": http.StatusNotImplemented, "": http.StatusMethodNotAllowed} {
			r := httptest.NewRequest("GET", []string{"https://notes.example.com/mcp", "https://notes.example.com/mcp", "https://other.example.com/other"}[i], nil)
			r.Method = "CONNECT"
			if protocol != "" {
				r.Header[":protocol"] = []string{protocol}
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want || strings.Contains(w.Body.String(), "Websockets are not forwarded") != (want == http.StatusNotImplemented) {
				t.Errorf("%q: %d %s", protocol, w.Code, w.Body)
			}
		}
	}
}
