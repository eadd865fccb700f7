//go:build e2e

package e2e

import (
	"context"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.example/doctor"
	"gatehouse.example/storage/redis/redistest"
)

// TestDoctorAtTypeScriptSDK: what the doctor finds at the example of the official TypeScript SDK with
// authorization. Its authorization server asks nobody.
func TestDoctorAtTypeScriptSDK(t *testing.T) {
	node, sdk := typescript(t)
	_, port, _ := strings.Cut(redistest.FreeAddress(t), ":")
	_, other, _ := strings.Cut(redistest.FreeAddress(t), ":")
	preload, err := filepath.Abs(filepath.Join("testdata", "loopback.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(sdk, "node_modules", "@modelcontextprotocol", "sdk", "dist", "esm", "examples", "server", "simpleStreamableHttp.js")
	cmd := exec.Command(node, "--import", preload, script, "--oauth")
	cmd.Env = append(cleanEnvironment(), "MCP_PORT="+port, "MCP_AUTH_PORT="+other)
	startForeign(t, "http://localhost:"+port, cmd)
	report := examined(t, "http://localhost:"+port+"/mcp", doctor.Options{SignIn: comesBack})
	compareFindings(t, "typescript-sdk", report)
	compareFindings(t, "typescript-sdk-server", examinedAlone(t, "http://localhost:"+other+"/", doctor.Options{Register: true}))
}

// TestDoctorAtGoSDK: what the doctor finds at the example of the official Go SDK with authorization, and
// at panva's oidc-provider, which is its authorization server.
func TestDoctorAtGoSDK(t *testing.T) {
	p := startPanva(t, "http://127.0.0.1/callback", map[string]any{"application_type": "native", "token_endpoint_auth_method": "none", "client_secret": nil})
	browser := newBrowser(t)
	with := func(ctx context.Context, at string) error {
		u, err := url.Parse(at)
		if err != nil {
			return err
		}
		return comesBack(ctx, p.visit(browser, at, u.Query().Get("redirect_uri"), "ada").String())
	}
	compareFindings(t, "go-sdk", examined(t, startGoSDK(t, p.issuer), doctor.Options{SignIn: with, ClientID: "gatehouse"}))
	compareFindings(t, "oidc-provider", examinedAlone(t, p.issuer, doctor.Options{ClientID: "gatehouse"}))
}

// startGoSDK builds and runs the example of the module that go.mod names. Its settings are variables,
// which are set when it is built.
func startGoSDK(t *testing.T, issuer string) string {
	t.Helper()
	_, port, _ := strings.Cut(redistest.FreeAddress(t), ":")
	var set []string
	for name, value := range map[string]string{
		"authorizationServer": issuer, "introspectionEndpoint": issuer + "/token/introspection", "clientID": "notes", "clientSecret": "secret",
	} {
		set = append(set, "-X main."+name+"="+value)
	}
	program := filepath.Join(t.TempDir(), "example")
	command := exec.Command("go", "build", "-o", program, "-ldflags", strings.Join(set, " "), "github.com/modelcontextprotocol/go-sdk/examples/auth/server")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, "-port", port)
	cmd.Env = cleanEnvironment()
	startForeign(t, "http://localhost:"+port, cmd)
	return "http://localhost:" + port + "/mcp"
}

// TestDoctorAtGateway: the doctor finds nothing above a note at our gateway before the reference server
// of the protocol, also with a sign-in. Even the notes are kept.
func TestDoctorAtGateway(t *testing.T) {
	gate, _, _ := startEverything(t)
	report := examined(t, gate.URL+"/mcp", doctor.Options{SignIn: signsIn(t)})
	wantHealthy(t, report)
	compareFindings(t, "gateway", report)
}
