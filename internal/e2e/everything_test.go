//go:build e2e

package e2e

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse.example/middleware"
	"gatehouse.example/storage/redis/redistest"
)

// everythingScopes are the scopes of the tools of server-everything. get-env, which shows the
// environment of the server, is not among them.
const everythingScopes = `challenge-scopes: notes:read
tools:
  echo: notes:read
  trigger-long-running-operation: notes:read
  toggle-subscriber-updates: notes:read
  get-sum: notes:write
prompts:
  "*-prompt": notes:read
resources:
  "demo://resource/*": notes:read
`

// startEverything runs the reference server of the protocol, which has no authorization, behind
// the gateway, and an authorization server for it. Requests to the server are recorded.
func startEverything(t *testing.T) (gate, server *process, wire *recorder) {
	t.Helper()
	server, wire = startRecorded(t)
	address := redistest.FreeAddress(t)
	authz := startAuthz(t, nil, "--dev-resource", "http://"+address+"/mcp")
	file := filepath.Join(t.TempDir(), "scopes.yaml")
	if err := os.WriteFile(file, []byte(everythingScopes), 0o600); err != nil {
		t.Fatal(err)
	}
	return startGateway(t, authz.URL, server.URL, "--listen", address, "--scopes", file), server, wire
}

// startRecorded runs server-everything on a socket in a private folder: on a port it would listen
// to the whole network. It ends with its standard input, so also when the test is killed.
func startRecorded(t *testing.T) (*process, *recorder) {
	t.Helper()
	node, script := os.Getenv("CONFORMANCE_NODE"), os.Getenv("EVERYTHING_SERVER")
	if node == "" || script == "" {
		t.Fatal("CONFORMANCE_NODE and EVERYTHING_SERVER must name node 22 and the index.js of server-everything; scripts/test sets them")
	}
	dir, err := os.MkdirTemp("", "gatehouse-e2e-") // short: the name of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "socket")
	wire := &recorder{
		seen: make(chan struct{}),
		next: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}},
	}
	front := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1, Transport: wire,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "everything"
		},
	})
	t.Cleanup(front.Close)
	cmd := exec.Command(node, "--import", `data:text/javascript,process.stdin.resume().on("end",()=>process.exit())`, script, "streamableHttp")
	cmd.Env = append(cleanEnvironment(), "PORT="+socket)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	return startForeign(t, front.URL, cmd), wire
}

// The official client works with a server behind the gateway as without one: it signs a person in,
// calls tools, reads resources and prompts, receives progress and changes while they happen, steps
// up, and ends its session.
func TestGatewayBeforeEverything(t *testing.T) {
	t.Parallel()
	gate, server, wire := startEverything(t)
	watched := &grants{}
	changed := make(chan string, 16)
	var progress counter
	session := connectOver(t, watched, gate, sdkHandler(t, watched, everyScope), "", &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			if progress.add() == 1 {
				close(wire.seen)
			}
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { changed <- r.Params.URI },
	})
	if !slices.Equal(watched.asked, []string{"notes:read offline_access"}) {
		t.Errorf("the person was asked for %q, want what the challenge of the file says", watched.asked)
	}
	checkTools(t, session)
	if got := say(t, session, "echo", map[string]any{"message": "hello"}); got != "Echo: hello" {
		t.Errorf("echo answers %q", got)
	}
	t.Run("progress", func(t *testing.T) { checkProgress(t, session, &progress) })
	t.Run("resources and prompts", func(t *testing.T) { checkReading(t, session) })
	t.Run("changes", func(t *testing.T) { checkChanges(t, session, wire, changed) })
	t.Run("refused", func(t *testing.T) { checkRefused(t, session, watched, wire) })
	t.Run("step up", func(t *testing.T) { checkStepUp(t, session, watched, wire) })
	t.Run("end", func(t *testing.T) { checkEnd(t, session, server, wire) })
	checkWire(t, wire)
}

// The official TypeScript clients step up with this server as well.
func TestGatewayStepsUpTypeScript(t *testing.T) {
	t.Parallel()
	for _, tt := range typescriptClients {
		t.Run(tt.name, func(t *testing.T) {
			gate, _, wire := startEverything(t)
			got := stepUp(t, tt.pkg, tt.grants, gate, func(page string) *url.URL { return allow(t, newBrowser(t), page) },
				`{"name":"echo","arguments":{"message":"hello"}}`, `{"name":"get-sum","arguments":{"a":2,"b":3}}`)
			offline, asked := "", "notes:read notes:write"
			if strings.Contains(tt.grants, "refresh_token") {
				offline = " offline_access"
			}
			if tt.name == "version 1" {
				asked = "notes:write"
			}
			reports(t, got,
				`{"asked":"notes:read`+offline+`","refusals":[]}`,
				`{"granted":"notes:read"}`,
				`{"echo":"Echo: hello"}`,
				`{"asked":"`+asked+offline+`","refusals":["insufficient_scope"]}`,
				`{"granted":"`+asked+`"}`,
				`{"get-sum":"The sum of 2 and 3 is 5."}`,
				`{"grants":["authorization_code","authorization_code"]}`)
			checkWire(t, wire)
		})
	}
}

// checkTools expects exactly the tools of the file, and the scope that is missing for get-sum.
func checkTools(t *testing.T, session *mcp.ClientSession) {
	t.Helper()
	want := []string{"echo", "get-sum", "toggle-subscriber-updates", "trigger-long-running-operation"}
	if got := tools(t, session); !slices.Equal(got, want) {
		t.Errorf("the tools are %q, want %q", got, want)
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	missing, _ := list.Meta[middleware.MissingScopesKey].(map[string]any)
	if got, _ := missing["get-sum"].([]any); len(missing) != 1 || !slices.Equal(got, []any{"notes:write"}) {
		t.Errorf("%v is missing", missing)
	}
}

// checkProgress calls a slow tool. The recorder holds back the rest of the answer until the client
// has received the first progress: no program on the way may buffer.
func checkProgress(t *testing.T, session *mcp.ClientSession, progress *counter) {
	params := &mcp.CallToolParams{Name: longTool, Arguments: map[string]any{"duration": 0.3, "steps": 3}}
	params.SetProgressToken("long")
	result, err := session.CallTool(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if got := textOf(result); !strings.Contains(got, "completed") {
		t.Errorf("the tool answers %q", got)
	}
	until(t, "all progress has arrived", func() bool { return progress.count() == 3 })
}

const longTool = "trigger-long-running-operation"

func checkReading(t *testing.T, session *mcp.ClientSession) {
	resources, err := session.ListResources(t.Context(), nil)
	if err != nil || len(resources.Resources) == 0 {
		t.Fatalf("%v, %v", resources, err)
	}
	templates, err := session.ListResourceTemplates(t.Context(), nil)
	if err != nil || len(templates.ResourceTemplates) == 0 {
		t.Fatalf("%v, %v", templates, err)
	}
	for _, uri := range []string{resources.Resources[0].URI, "demo://resource/dynamic/text/1"} {
		read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil || len(read.Contents) != 1 || read.Contents[0].Text == "" {
			t.Errorf("%s: %v, %v", uri, read, err)
		}
	}
	prompts, err := session.ListPrompts(t.Context(), nil)
	if err != nil || len(prompts.Prompts) == 0 {
		t.Fatalf("%v, %v", prompts, err)
	}
	prompt, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "simple-prompt"})
	if err != nil || len(prompt.Messages) != 1 {
		t.Errorf("%v, %v", prompt, err)
	}
}

// checkChanges expects a notification of a change on the open stream.
func checkChanges(t *testing.T, session *mcp.ClientSession, wire *recorder, changed <-chan string) {
	const uri = "demo://resource/dynamic/text/7"
	until(t, "the stream is open", func() bool { return wire.answered(http.MethodGet, http.StatusOK) > 0 })
	if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
		t.Fatal(err)
	}
	say(t, session, "toggle-subscriber-updates", map[string]any{})
	select {
	case got := <-changed:
		if got != uri {
			t.Errorf("%s has changed, want %s", got, uri)
		}
	case <-time.After(patience):
		t.Error("the client gets no notification")
	}
}

// checkRefused calls a tool that is allowed to no client: no person is asked, and the call does
// not reach the server.
func checkRefused(t *testing.T, session *mcp.ClientSession, watched *grants, wire *recorder) {
	asked := len(watched.asked)
	_, err1 := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "get-env", Arguments: map[string]any{}})
	_, err2 := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "file:///etc/passwd"})
	for _, err := range []error{err1, err2} {
		if err == nil || !strings.Contains(err.Error(), "does not allow this to anybody") {
			t.Errorf("the client says %v, want what the policy says", err)
		}
	}
	if challenges := slices.Compact(slices.Clone(watched.refused)); !slices.Equal(challenges, []string{""}) || len(watched.asked) != asked {
		t.Errorf("the challenges are %q and the person was asked for %q, want no challenge", challenges, watched.asked)
	}
	for _, r := range wire.requests() {
		if strings.Contains(r.body, "get-env") || strings.Contains(r.body, "/etc/passwd") {
			t.Errorf("the server was asked %s", r.body)
		}
	}
}

func checkStepUp(t *testing.T, session *mcp.ClientSession, watched *grants, wire *recorder) {
	if got := say(t, session, "get-sum", map[string]any{"a": 2, "b": 3}); got != "The sum of 2 and 3 is 5." {
		t.Errorf("get-sum answers %q", got)
	}
	if want := []string{"notes:read offline_access", "notes:read notes:write offline_access"}; !slices.Equal(watched.asked, want) {
		t.Errorf("the person was asked for %q, want %q", watched.asked, want)
	}
	scopes := map[string]string{}
	for _, r := range wire.requests() {
		for _, tool := range []string{"echo", "get-sum"} {
			if strings.Contains(r.body, `"name":"`+tool+`"`) {
				scopes[tool] += inOrder(r.header.Get("Gatehouse-Scope")) + ";"
			}
		}
	}
	if scopes["echo"] != "notes:read;" || scopes["get-sum"] != "notes:read notes:write;" {
		t.Errorf("the server received the scopes %q", scopes)
	}
}

// checkEnd ends the session, whose id at the client is bound to the person.
func checkEnd(t *testing.T, session *mcp.ClientSession, server *process, wire *recorder) {
	bound := session.ID()
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
	if n := wire.answered(http.MethodDelete, http.StatusOK); n != 1 {
		t.Errorf("%d sessions were ended, want one", n)
	}
	_, id, _ := strings.Cut(server.Stdout(), "Session initialized with ID: ")
	id, _, _ = strings.Cut(id, "\n")
	if id == "" || id == bound || !strings.HasPrefix(bound, id) {
		t.Errorf("the session of the server is %q, that of the client %q", id, bound)
	}
	for _, r := range wire.requests() {
		if got := r.header.Get("Mcp-Session-Id"); got != "" && got != id {
			t.Errorf("%s was sent with the session %q, want %q", r.body, got, id)
		}
	}
}

// checkWire expects requests of one person without any part of a token.
func checkWire(t *testing.T, wire *recorder) {
	t.Helper()
	requests := wire.requests()
	if len(requests) < 5 {
		t.Fatalf("%d requests were recorded", len(requests))
	}
	who := requests[0].header.Get("Gatehouse-Subject")
	for _, r := range requests {
		if got := r.header.Get("Gatehouse-Subject"); got == "" || got != who {
			t.Errorf("%s comes from %q, the first from %q", r, got, who)
		}
		if text := r.String(); r.header["Authorization"] != nil || strings.Contains(text, "eyJ") || strings.Contains(text, "Bearer") {
			t.Errorf("a credential reached the server: %s", text)
		}
	}
}

// say calls a tool and returns its text.
func say(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any) string {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return textOf(result)
}

func textOf(result *mcp.CallToolResult) string {
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			return text.Text
		}
	}
	return ""
}
