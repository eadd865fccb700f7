package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"gatehouse.example/gateway"
)

func mustParse(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// raw sends a request with a target that is not normalized.
func raw(t testing.TB, g *gate, target string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", g.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: notes.example.com\r\nAuthorization: Bearer "+g.token(t, nil)+"\r\nConnection: close\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	return res
}

func TestPaths(t *testing.T) {
	up := newUpstream(t)
	tests := []struct {
		resource, upstream string
		to                 map[string]string // from the target to the one at the upstream, or a status
	}{
		{"/mcp", "/server", map[string]string{
			"/mcp": "/server", "/mcp/": "/server/", "/mcp/a": "/server/a", "/mcp/a/b/": "/server/a/b/", "/mcp/a?b=c;d&e=%zz": "/server/a?b=c;d&e=%zz", "/mcp?": "/server?",
			"/mcp/a%20b": "/server/a%20b", "/mcp/%61": "/server/%61", "/%6dcp/a": "/server/a", "/mcp/a;b=c": "/server/a;b=c", "/mcp/%c3%a9": "/server/%c3%a9",
			"/mcp/a%3fb": "/server/a%3fb", "/mcp/a%23b": "/server/a%23b", "/mcp/...": "/server/...", "/mcp/.a": "/server/.a", "/mcp/a:b@c": "/server/a:b@c",
			"http://elsewhere.example.com/mcp/a": "403", "http://notes.example.com/mcp/a": "/server/a",
			"/": "404", "/mc": "404", "/mcpx": "404", "/MCP": "404", "/x/mcp": "404", "/server": "404", "/jwks.json": "404",
		}},
		{"/mcp", "", map[string]string{"/mcp": "/", "/mcp/": "/", "/mcp/a": "/a"}},
		{"/mcp", "/", map[string]string{"/mcp": "/", "/mcp/": "/", "/mcp/a": "/a"}},
		{"/mcp", "/a/", map[string]string{"/mcp": "/a/", "/mcp/": "/a/", "/mcp/b": "/a/b"}},
		{"/mcp", "/a%20b", map[string]string{"/mcp": "/a%20b", "/mcp/c%20d": "/a%20b/c%20d"}},
		{"/a/b", "/mcp", map[string]string{"/a/b": "/mcp", "/a/b/c": "/mcp/c", "/a": "404", "/a/c": "404"}},
		{"/mcp/", "/server", map[string]string{"/mcp/": "/server", "/mcp/a": "/server/a", "/mcp": "404"}},
		{"", "/server", map[string]string{"/": "/server", "/a": "/server/a", "/a/": "/server/a/", "/mcp": "/server/mcp", "/jwks.json": "/server/jwks.json", "/verifyx": "/server/verifyx"}},
		{"", "", map[string]string{"/": "/", "/a/b": "/a/b", "/%2e.": "400", "/%76erify": "200", "/healthz": "200", "/healthz/x": "/healthz/x"}},
	}
	for _, tt := range tests {
		g := newGate(t, up.URL+tt.upstream, func(c *gateway.Config) {
			c.Guard.Resource = "https://notes.example.com" + tt.resource
			c.Guard.Audiences = []string{resource}
		})
		for target, want := range tt.to {
			res := raw(t, g, target)
			got := up.taken()
			switch {
			case strings.HasPrefix(want, "/"):
				if len(got) != 1 || got[0].uri != want {
					t.Errorf("%s to %s: %s reaches %+v with %s, want %s", tt.resource, tt.upstream, target, got, res.Status, want)
				}
			case !strings.HasPrefix(res.Status, want) || len(got) != 0:
				t.Errorf("%s to %s: %s is %s and reaches %+v, want %s", tt.resource, tt.upstream, target, res.Status, got, want)
			}
		}
	}
}

// A path that the upstream could read differently is not forwarded, wherever it leads.
func TestAmbiguousPaths(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL+"/server")
	for _, bad := range []string{
		"/.", "/..", "/%2e", "/%2E%2e", "/.%2e", "/%2e.", "/..;/", "/..;a=b", "/.;", "/%2e%2e;x", "/..%3b",
		"/%2f", "/%2F", "/a%2fb", "/%5c", "/%5C", "/a%5cb", "/\\", "/a\\b", "/..\\", "/%00", "/a%00", "//", "//a", "/a//b", "/a//", "/%25", "/%252e", "/%252f", "/%255c",
		"/%0a", "/%0d%0a", "/%09", "/%7f", "/%c2%85", "/%ff", "/%c0%ae", "/%c0%af", "/%e0%80%af", "/%ed%a0%80",
	} {
		for _, target := range []string{"/mcp" + bad, "/mcp" + bad + "/admin", "/mcp/a" + bad, bad, "/healthz" + bad, "/.well-known" + bad, "/verify" + bad} {
			res := raw(t, g, target)
			if res.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %s", target, res.Status)
			}
		}
	}
	if got := up.taken(); len(got) != 0 {
		t.Errorf("the upstream was asked: %+v", got)
	}
}
