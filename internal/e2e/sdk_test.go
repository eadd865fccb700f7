package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// startPair runs both commands for each other: the server issues tokens for the demo.
func startPair(t *testing.T, args ...string) (authz, demo *process) {
	t.Helper()
	address := freeAddress(t)
	resource := "http://" + address + "/mcp"
	authz = startAuthz(t, nil, append([]string{"--dev-resource", resource}, args...)...)
	return authz, startDemo(t, nil, "--listen", address, "--issuer", authz.URL)
}

// grants records the grant types that a client asked the token endpoint for.
type grants struct {
	mu   sync.Mutex
	seen []string
}

func (g *grants) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/token") && r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		raw, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		if form, err := url.ParseQuery(string(raw)); err == nil {
			g.mu.Lock()
			g.seen = append(g.seen, form.Get("grant_type"))
			g.mu.Unlock()
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

func (g *grants) count(grantType string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(g.seen), func(seen string) bool { return seen != grantType }))
}

// sdkHandler is the official SDK's authorization code handler, with a person who allows.
func sdkHandler(t *testing.T, watched *grants) auth.OAuthHandler {
	t.Helper()
	browser := newBrowser(t)
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Go SDK", RedirectURIs: []string{"http://127.0.0.1:3142/callback"},
			GrantTypes: []string{"authorization_code", "refresh_token"}, TokenEndpointAuthMethod: "none",
		}},
		RedirectURL:         "http://127.0.0.1:3142/callback",
		RequestRefreshToken: true,
		AuthorizationCodeFetcher: func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			answer := allow(t, browser, args.URL).Query()
			return &auth.AuthorizationResult{Code: answer.Get("code"), State: answer.Get("state"), Iss: answer.Get("iss")}, nil
		},
		Client: &http.Client{Transport: watched, Timeout: patience},
	})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// The official client does everything on its own: 401, resource metadata, server
// metadata, registration, sign-in and consent, token, calls, refresh. Its library
// refreshes a token that has less than ten seconds left, so each call does.
func TestSDKClientConnectsAndRefreshes(t *testing.T) {
	_, demo := startPair(t, "--access-token-ttl", "9s")
	watched := &grants{}
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: demo.URL + "/mcp", OAuthHandler: sdkHandler(t, watched),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if got := session.InitializeResult().ProtocolVersion; got != "2026-07-28" {
		t.Errorf("the client speaks revision %s, want the stateless one", got)
	}
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	if want := []string{"add_note", "list_notes", "whoami"}; !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Errorf("tools are %v, want %v", names, want)
	}
	call(t, session, "add_note", map[string]any{"text": "milk"})
	before := watched.count("refresh_token")
	if notes := call(t, session, "list_notes", map[string]any{}); !strings.Contains(notes, "milk") {
		t.Errorf("list_notes = %s, want the note", notes)
	}
	if after := watched.count("refresh_token"); after <= before {
		t.Errorf("refreshed %d times before the last call and %d after, want one more", before, after)
	}
	if n := watched.count("authorization_code"); n != 1 {
		t.Errorf("the person was asked %d times, want once", n)
	}
}

// call calls a tool and returns its structured result as JSON.
func call(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any) string {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	text, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if result.IsError {
		t.Fatalf("%s: %s", tool, text)
	}
	return string(text)
}

// A client of the era with sessions connects to the same endpoint.
func TestSessionEra(t *testing.T) {
	authz, demo := startPair(t)
	token := newFlow(t, authz, demo.URL+"/mcp").tokens(t)["access_token"].(string)
	post := func(session, body string) *http.Response {
		req, err := http.NewRequest(http.MethodPost, demo.URL+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
			req.Header.Set("Mcp-Protocol-Version", "2025-06-18")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	hello := post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}`)
	session := hello.Header.Get("Mcp-Session-Id")
	if hello.StatusCode != http.StatusOK || session == "" {
		t.Fatalf("initialize: %s, session %q", hello.Status, session)
	}
	if resp := post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); resp.StatusCode != http.StatusAccepted {
		t.Fatalf("initialized: %s", resp.Status)
	}
	resp := post(session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"whoami","arguments":{}}}`)
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), authz.URL) {
		t.Fatalf("whoami: %s %v\n%s", resp.Status, err, body)
	}
}
