package gateway_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

// behind serves a handler with a guard of its own, which admits requests without a token, and
// refuses add_note to them.
func behind(t *testing.T, out *bytes.Buffer) string {
	t.Helper()
	var inner http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inner.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	log := slog.New(middleware.LogHandler(slog.NewTextHandler(out, nil)))
	guard, err := middleware.New(middleware.Config{
		Resource: server.URL + "/mcp", AuthorizationServers: []string{"https://auth.example.com"}, Optional: true,
		Policy: middleware.Policy{Tools: map[string][]string{"add_note": {"notes:write"}}},
		Observe: func(r *http.Request, e middleware.Event) {
			log.InfoContext(r.Context(), "decided", "decision", e)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	inner = guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "of-the-handler")
		fmt.Fprintln(w, middleware.RequestID(r.Context()))
	}))
	return server.URL + "/mcp"
}

// TestOneIDJoinsGatewayAndGuard sends a request through a gateway to a server with a guard of
// its own. The log lines of both have the same id, whatever id the client sends.
func TestOneIDJoinsGatewayAndGuard(t *testing.T) {
	const theirs, trace = "a-clients-own", "0af7651916cd43dd8448eb211c80319c"
	var log bytes.Buffer
	g := newGate(t, behind(t, &log), func(c *gateway.Config) {
		c.Guard.Policy = middleware.Policy{Methods: map[string][]string{"tools/list": {"notes:admin"}, "*": {}}}
	})
	got := do(t, g.request(t, "POST", "/mcp", call("tools/call", map[string]any{"name": "add_note"}),
		"X-Request-Id", theirs, "Traceparent", "00-"+trace+"-b7ad6b7169203331-01"))
	own := got.header["X-Request-Id"]
	if len(own) != 1 || len(own[0]) != 26 {
		t.Fatalf("the answer is about %q", own)
	}
	line := log.String()
	if !strings.Contains(line, " parent="+own[0]+" trace="+trace+"\n") || strings.Contains(line, theirs) {
		t.Errorf("the guard behind says\n%s", line)
	}
	if inner := regexp.MustCompile(`request=(\w+)`).FindStringSubmatch(line); inner == nil || inner[1] == own[0] {
		t.Errorf("the guard behind draws no id of its own:\n%s", line)
	}

	before := len(g.log.String())
	refused := do(t, g.request(t, "POST", "/mcp", call("tools/list", nil), "X-Request-Id", own[0]))
	again := refused.header.Get("X-Request-Id")
	if line = g.log.String()[before:]; !strings.Contains(line, " request="+again+" parent="+own[0]+"\n") || again == own[0] || strings.Contains(line, " request="+own[0]) {
		t.Errorf("a step-up under the id of another request is logged as\n%s", line)
	}
	if !strings.Contains(line, "insufficient_scope") {
		t.Errorf("the step-up is not in the log:\n%s", line)
	}
}

// TestIDsOfClientsStayHere sends headers that an upstream would log or follow as the id of the
// request, in spellings that some servers treat as equal.
func TestIDsOfClientsStayHere(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL)
	got := do(t, g.request(t, "POST", "/mcp", call("ping", nil),
		"X-Request-Id", "a\tb", "X_Request_Id", "c", "X.Request-Id", "d", "Traceparent", "00-xyz", "Tracestate", "e=f"))
	header := up.taken()[0].header
	if id := header["X-Request-Id"]; len(id) != 1 || id[0] != got.header.Get("X-Request-Id") {
		t.Errorf("the upstream gets the id %q, the client %q", id, got.header.Get("X-Request-Id"))
	}
	for _, name := range []string{"X_request_id", "X_Request_Id", "X.Request-Id", "Traceparent", "Tracestate"} {
		if header[name] != nil {
			t.Errorf("%s arrives: %q", name, header[name])
		}
	}
	for _, path := range []string{"/healthz", "/verify", "/nowhere", "/mcp//x"} {
		if id := do(t, g.request(t, "GET", path, "")).header.Get("X-Request-Id"); len(id) != 26 {
			t.Errorf("%s answers about %q", path, id)
		}
	}
}
