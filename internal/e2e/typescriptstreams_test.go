//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestTypeScriptResumesThroughTheGateway: client and server of the official TypeScript SDK
// resume a broken stream, get what the policy allows, and a client of the old transport is refused
// at once.
func TestTypeScriptResumesThroughTheGateway(t *testing.T) {
	t.Parallel()
	node, sdk := typescript(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, filepath.Join("testdata", "streams.mjs"))
	cmd.Env = append(cleanEnvironment(), "TYPESCRIPT_SDK="+sdk)
	var complaints lockedBuffer
	cmd.Stderr = &complaints
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		_ = cmd.Wait()
		t.Fatalf("the server does not start:\n%s", complaints.String())
	}
	issuer := middlewaretest.NewIssuer(t)
	front := httptest.NewUnstartedServer(nil)
	url := "http://" + front.Listener.Addr().String() + "/mcp"
	front.Config.Handler, err = gateway.New(gateway.Config{
		Guard: middleware.Config{
			Resource: url, AuthorizationServers: []string{issuer.URL()}, EndStreams: true,
			Policy: middleware.Policy{Tools: map[string][]string{"slow": nil}},
		},
		Upstream: "http://127.0.0.1:" + lines.Text() + "/mcp",
	})
	if err != nil {
		t.Fatal(err)
	}
	front.Start()
	defer front.Close()
	defer front.CloseClientConnections()
	where, _ := json.Marshal(map[string]string{"url": url, "token": issuer.Mint(middlewaretest.Claims{"aud": url})})
	fmt.Fprintf(in, "%s\n", where)
	var got []string
	for lines.Scan() {
		got = append(got, lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the client: %v\n%s", err, complaints.String())
	}
	want := []string{`{"tools":["slow"]}`, `{"slow":"resumed"}`, `{"resumed":true}`, `{"old":501}`}
	if !slices.Equal(got, want) {
		t.Errorf("the client reports\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
