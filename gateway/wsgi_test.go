package gateway_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

// wsgi is a server of Python's standard library that answers with the variables of the request
// headers.
const wsgi = `
import json
from wsgiref.simple_server import make_server, WSGIRequestHandler

class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass

def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    names = ("HTTP_", "CONTENT_", "REMOTE_", "SERVER_")
    return [json.dumps({k: str(v) for k, v in environ.items() if k.startswith(names)}).encode()]

server = make_server("127.0.0.1", 0, app, handler_class=Quiet)
print(server.server_port, flush=True)
server.serve_forever()
`

// newWSGI returns the address of a server in Python, which treats "_" and "-" in header names
// alike.
func newWSGI(t *testing.T) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 here")
	}
	return runForeign(t, exec.Command(python, "-c", wsgi)) + "/mcp"
}

// runForeign runs a server that prints its port, and returns its URL.
func runForeign(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s did not begin: %v", cmd.Args[0], err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port)
}

// TestHeadersAsWSGIReadsThem checks that a server in Python gets only headers that the gateway
// checked or set, in whatever spelling the client sends them.
func TestHeadersAsWSGIReadsThem(t *testing.T) {
	handles, err := middleware.NewHandles([]byte("a key of thirty-two bytes or more"))
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(t, newWSGI(t), func(c *gateway.Config) { c.Guard.Sessions = handles })
	const smuggled = "smuggled"
	send := func(name string) map[string]string {
		t.Helper()
		r := g.request(t, "POST", "/mcp", "{}", "Authorization", "Bearer "+g.token(t, claims{"sub": "bob"}))
		r.Header[name] = []string{smuggled}
		a := do(t, r)
		var variables map[string]string
		if a.status != http.StatusOK || json.Unmarshal([]byte(a.body), &variables) != nil {
			t.Fatalf("%s: %d %s", name, a.status, a.body)
		}
		return variables
	}
	for _, judged := range []string{
		"Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Last-Event-Id", "Content-Type", "Content-Encoding", "Authorization",
		"X-Forwarded-For", "X-Forwarded-Host", "Gatehouse-Subject", "X-Remote-User",
	} {
		for _, name := range []string{strings.ReplaceAll(judged, "-", "_"), strings.ToUpper(strings.ReplaceAll(judged, "-", "_")), strings.Replace(judged, "-", "_", 1)} {
			if !strings.Contains(name, "_") {
				continue
			}
			for variable, value := range send(name) {
				if value == smuggled {
					t.Errorf("%s becomes %s", name, variable)
				}
			}
		}
	}
	if got := send("Mcp-Param-My_tool"); got["HTTP_MCP_PARAM_MY_TOOL"] != smuggled {
		t.Errorf("a header that carries a parameter did not arrive: %v", got)
	}
}
