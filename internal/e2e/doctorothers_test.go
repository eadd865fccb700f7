//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

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

// TestDoctorAtGoSDK: what the doctor finds at a server with the handlers of the example of the official
// Go SDK, and panva's oidc-provider as its authorization server.
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

// startGoSDK serves the example of the Go SDK, which verifies tokens by asking. At this path they are
// opaque: the provider tells nothing about others.
func startGoSDK(t *testing.T, issuer string) string {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	mux.Handle("/.well-known/oauth-protected-resource", auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: server.URL + "/opaque", AuthorizationServers: []string{issuer}, ScopesSupported: []string{"notes:read", "notes:write"},
	}))
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		return mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1"}, nil)
	}, nil)
	verify := func(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return asks(ctx, issuer, token)
	}
	mux.Handle("/opaque", auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{
		Scopes: []string{"notes:read"}, ResourceMetadataURL: server.URL + "/.well-known/oauth-protected-resource",
	})(handler))
	return server.URL + "/opaque"
}

// asks asks the provider about a token (RFC 7662).
func asks(ctx context.Context, issuer, token string) (*auth.TokenInfo, error) {
	form := url.Values{"token": {token}, "client_id": {"gatehouse"}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, issuer+"/token/introspection", strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var told struct {
		Active bool
		Scope  string
		Exp    int64
	}
	if err := json.NewDecoder(answer.Body).Decode(&told); err != nil || !told.Active {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{Scopes: strings.Fields(told.Scope), Expiration: time.Unix(told.Exp, 0), UserID: "somebody"}, nil
}

// TestDoctorAtGateway: the doctor finds nothing above a note at our gateway before the reference server
// of the protocol, also with a sign-in.
func TestDoctorAtGateway(t *testing.T) {
	gate, _, _ := startEverything(t)
	report := examined(t, gate.URL+"/mcp", doctor.Options{SignIn: signsIn(t)})
	wantHealthy(t, report)
	if !slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return true }) {
		t.Log("nothing found")
	}
}
