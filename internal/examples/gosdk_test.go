package examples

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// sdkServer is a server of the official Go SDK. The guard is outermost: it checks the
// token and answers with complete challenges. auth.RequireBearerToken comes next, because
// only through it does the SDK learn who is calling. With that it pins each session to
// its person, and hands TokenInfo to the tools.
func sdkServer(resource, issuer string) (http.Handler, error) {
	guard, err := middleware.New(middleware.Config{
		Resource:             resource,
		AuthorizationServers: []string{issuer},
		Scopes:               []string{"notes:read"},
	})
	if err != nil {
		return nil, err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "whoami", Description: "Says who is calling"}, whoami)
	endpoint := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)

	mux := http.NewServeMux()
	mux.Handle("/mcp", guard.Protect(knownToSDK(endpoint)))
	for _, path := range guard.MetadataPaths() {
		mux.Handle(path, guard.Metadata())
	}
	return mux, nil
}

// knownToSDK tells the SDK what the guard verified. The SDK reads an Authorization header
// before it calls a verifier, and shows all headers to the tools. The guard has removed
// the token so that no tool can pass it on; a placeholder takes its place.
func knownToSDK(next http.Handler) http.Handler {
	verify := func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		token, ok := middleware.TokenFrom(ctx)
		if !ok {
			return nil, auth.ErrInvalidToken // not behind the guard
		}
		return &auth.TokenInfo{
			UserID:     token.Principal(), // unique among all issuers
			Scopes:     token.Scopes,
			Expiration: token.Expiry,
		}, nil
	}
	// The guard has judged the expiry already, with its own tolerance for clocks.
	options := &auth.RequireBearerTokenOptions{ClockSkew: time.Minute}
	known := auth.RequireBearerToken(verify, options)(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer verified")
		known.ServeHTTP(w, r)
	})
}

type nothing struct{}

func whoami(_ context.Context, req *mcp.CallToolRequest, _ nothing) (*mcp.CallToolResult, nothing, error) {
	text := fmt.Sprintf("%s with %v; the header holds %q", req.Extra.TokenInfo.UserID, req.Extra.TokenInfo.Scopes, req.Extra.Header["Authorization"])
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nothing{}, nil
}

// bearer is a client that sends a token.
type bearer string

func (token bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+string(token))
	}
	return http.DefaultTransport.RoundTrip(r)
}

func connect(t *testing.T, resource string, token bearer) (*mcp.ClientSession, error) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1.0.0"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: resource, HTTPClient: &http.Client{Transport: token}, MaxRetries: -1,
	}, nil)
	if err == nil {
		t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

func TestOfficialGoSDK(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	resource := start(t, "/mcp", func(resource string) (http.Handler, error) { return sdkServer(resource, issuer.URL()) })
	good := issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": "notes:read"})

	session, err := connect(t, resource, bearer(good))
	if err != nil {
		t.Fatal(err)
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "whoami"})
	if err != nil || result.IsError || len(result.Content) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	want := fmt.Sprintf("%s|reader with [notes:read]; the header holds %q", issuer.URL(), []string{"Bearer verified"})
	if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != want {
		t.Errorf("the tool says %+v, want %s", result.Content[0], want)
	}

	for name, token := range map[string]string{
		"no token":         "",
		"another audience": issuer.Mint(middlewaretest.Claims{"aud": "https://other.example.org/mcp"}),
		"placeholder":      "verified",
	} {
		if _, err := connect(t, resource, bearer(token)); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSessionBelongsToItsPerson: the session id of one person is of no use to another,
// although both have a good token.
func TestSessionBelongsToItsPerson(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	resource := start(t, "/mcp", func(resource string) (http.Handler, error) { return sdkServer(resource, issuer.URL()) })
	post := func(session, subject, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "POST", resource, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+issuer.Mint(middlewaretest.Claims{"aud": resource, "sub": subject}))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res
	}
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	res := post("", "reader", initialize)
	id := res.Header.Get("Mcp-Session-Id")
	if res.StatusCode != http.StatusOK || id == "" {
		t.Fatalf("initialize: %s %v", res.Status, res.Header)
	}
	if res := post(id, "reader", ping); res.StatusCode != http.StatusOK {
		t.Errorf("reader: %s", res.Status)
	}
	if res := post(id, "stranger", ping); res.StatusCode != http.StatusForbidden {
		t.Errorf("stranger: %s", res.Status)
	}
}
