//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
	"gatehouse.example/storage/redis/redistest"
)

// required are the sets of scenarios that the official suite requires of a server, each with two
// tools of the SDK's fixture that the set does not use: one is not covered by the token, for the
// other there is no token.
var required = []struct {
	revision      string
	stateless     bool
	marked, never string
	checks        int // at least so many pass
}{
	{"2025-11-25", false, "test_logging_tool", "test_missing_capability", 80},
	{"2026-07-28", true, "test_tool_with_logging", "test_sampling", 160},
}

// The official SDK's fixture server passes the same checks of the official suite behind a guard
// that reads every message, filters lists and binds sessions, and behind the gateway, as directly.
func TestRequiredSetsBehindTheGuard(t *testing.T) {
	t.Parallel()
	for _, set := range required {
		t.Run(set.revision, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			direct := runRequired(t, set.revision, startFixture(t, set.stateless))
			t.Run("guard", func(t *testing.T) {
				var seen operations
				behind := guardFixture(t, startFixture(t, set.stateless), policyOf(set.marked, set.never), &seen)
				samePasses(t, direct, runRequired(t, set.revision, behind), set.checks)
				seen.include(t, "tools/list", "tools/call", "resources/read", "prompts/get", "completion/complete")
				checkFiltered(t, behind, set.marked, set.never)
			})
			t.Run("gateway", func(t *testing.T) {
				behind := gateFixture(t, startFixture(t, set.stateless), scopesOf(t, set.marked, set.never)...)
				samePasses(t, direct, runRequired(t, set.revision, behind), set.checks)
				checkFiltered(t, behind, set.marked, set.never)
			})
			t.Run("gateway that reads nothing", func(t *testing.T) {
				behind := gateFixture(t, startFixture(t, set.stateless))
				samePasses(t, direct, runRequired(t, set.revision, behind), set.checks)
			})
		})
	}
}

const fixtureUse, fixtureMore, fixtureNever = "fixture:use", "fixture:more", "fixture:never"

// policyOf names everything in the fixture. A token with fixture:use covers all but two tools.
func policyOf(marked, never string) middleware.Policy {
	use := map[string][]string{"*": {fixtureUse}}
	return middleware.Policy{
		Methods: use, Prompts: use, Resources: use,
		Tools: map[string][]string{"*": {fixtureUse}, marked: {fixtureMore}, never: {fixtureNever}},
	}
}

// scopesOf returns policyOf as flags of the gateway.
func scopesOf(t *testing.T, marked, never string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scopes.yaml")
	text := fmt.Sprintf("methods:\n  '*': %[1]s\nprompts:\n  '*': %[1]s\nresources:\n  '*': %[1]s\ntools:\n  '*': %[1]s\n  %[2]s: %[3]s\n  %[4]s: %[5]s\n"+
		"scopes-supported: %[1]s %[3]s\n", fixtureUse, marked, fixtureMore, never, fixtureNever)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--scopes", file}
}

// startFixture runs the server of the official SDK for the suite.
func startFixture(t *testing.T, stateless bool) *process {
	t.Helper()
	address := redistest.FreeAddress(t)
	binary := buildPackage(t, "everything-server", "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	return startForeign(t, "http://"+address, exec.Command(binary, "-http", address, "-stateless="+strconv.FormatBool(stateless)))
}

// guardFixture puts a guard in front of a server, and a proxy in front of the guard that adds a
// token that covers most of it.
func guardFixture(t *testing.T, upstream *process, policy middleware.Policy, seen *operations) *process {
	t.Helper()
	issuer := middlewaretest.NewIssuer(t)
	server := httptest.NewUnstartedServer(nil)
	t.Cleanup(server.Close)
	resource := "http://" + server.Listener.Addr().String() + "/mcp"
	sessions, err := middleware.NewHandles([]byte(rand.Text() + rand.Text()))
	if err != nil {
		t.Fatal(err)
	}
	guard, err := middleware.New(middleware.Config{
		Resource: resource, AuthorizationServers: []string{issuer.URL()}, Scopes: []string{fixtureUse, fixtureMore},
		Policy: policy, Sessions: sessions, EndStreams: true, Observe: seen.note,
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = guard.Protect(forward(t, upstream.URL, func(*httputil.ProxyRequest) {}))
	server.Start()
	return withToken(t, server.URL, issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": fixtureUse}))
}

// gateFixture is guardFixture with the gateway.
func gateFixture(t *testing.T, upstream *process, args ...string) *process {
	t.Helper()
	issuer := middlewaretest.NewIssuer(t)
	gate := startGateway(t, issuer.URL(), upstream.URL, args...)
	return withToken(t, gate.URL, issuer.Mint(middlewaretest.Claims{"aud": gate.URL + "/mcp", "scope": fixtureUse}))
}

// withToken returns a proxy that adds a token to all requests, because the suite cannot send one.
func withToken(t *testing.T, upstream, token string) *process {
	t.Helper()
	server := httptest.NewServer(forward(t, upstream, func(r *httputil.ProxyRequest) {
		r.Out.Host = r.In.Host // some scenarios forge it
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}))
	t.Cleanup(server.Close)
	return &process{URL: server.URL}
}

// forward is a reverse proxy that passes streams on without buffering. It dials the server by its
// own name, unless change sets another.
func forward(t *testing.T, upstream string, change func(*httputil.ProxyRequest)) http.Handler {
	t.Helper()
	target, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // clients that hang up in the middle of a stream
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			change(r)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Otherwise the first byte of the answer closes the body of the request, which may not
		// have been read to its end: then the transport gives up on the upstream.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		proxy.ServeHTTP(w, r)
	})
}

// tally counts the results of a check, which may be made more than once.
type tally struct {
	passes int
	faults []string
}

// runRequired runs a required set and returns the results of each check.
func runRequired(t *testing.T, revision string, server *process) map[string]tally {
	t.Helper()
	results := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	args := append(conformance(t), "server", "--url", server.URL+"/mcp", "--requirements", revision, "-o", results)
	if output, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Errorf("the required set failed: %v\n%s", err, output)
	}
	tallies := map[string]tally{}
	for _, c := range checksIn(t, results) {
		name := c.Scenario + "/" + c.ID
		became := tallies[name]
		if c.Status == "SUCCESS" {
			became.passes++
		} else {
			became.faults = append(became.faults, c.Status+" "+c.ErrorMessage)
		}
		tallies[name] = became
	}
	return tallies
}

// samePasses expects that the checks have the same results as directly, and that there were some.
func samePasses(t *testing.T, direct, behind map[string]tally, atLeast int) {
	t.Helper()
	all := 0
	for _, check := range slices.Sorted(maps.Keys(direct)) {
		all += direct[check].passes
		if direct[check].passes != behind[check].passes {
			t.Errorf("%s passes %d times directly and %d times behind: %q", check, direct[check].passes, behind[check].passes, behind[check].faults)
		}
	}
	if all < atLeast {
		t.Errorf("%d checks pass directly, want at least %d", all, atLeast)
	}
	t.Logf("%d checks pass directly and behind", all)
}

// checkFiltered lists the tools: one names the scopes that are missing, and one is hidden.
func checkFiltered(t *testing.T, server *process, marked, never string) {
	t.Helper()
	session := connect(t, server, nil, "")
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, tool := range list.Tools {
		names[tool.Name] = true
	}
	if names[never] || !names[marked] || len(names) < 10 {
		t.Errorf("%s is among the %d tools %v, or %s is not", never, len(names), names, marked)
	}
	missing, _ := list.Meta[middleware.MissingScopesKey].(map[string]any)
	if got, ok := missing[marked].([]any); !ok || !slices.Equal(got, []any{fixtureMore}) {
		t.Errorf("%v is missing for %s, want %s", missing[marked], marked, fixtureMore)
	}
	for _, tool := range []string{marked, never} {
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}}); err == nil {
			t.Errorf("%s can be called", tool)
		}
	}
}

// operations counts the operations that a guard has recognised.
type operations struct {
	mu    sync.Mutex
	times map[string]int
}

func (o *operations) note(_ *http.Request, e middleware.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.times == nil {
		o.times = map[string]int{}
	}
	o.times[e.Operation.Method]++
}

func (o *operations) include(t *testing.T, methods ...string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, method := range methods {
		if o.times[method] == 0 {
			t.Errorf("the guard has read no %s: %v", method, o.times)
		}
	}
}
