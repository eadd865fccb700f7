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

	"gatehouse.example/storage/redis/redistest"
)

// startPair runs both commands for each other: the server issues tokens for the demo.
func startPair(t *testing.T, args ...string) (authz, demo *process) {
	t.Helper()
	address := redistest.FreeAddress(t)
	resource := "http://" + address + "/mcp"
	authz = startAuthz(t, nil, append([]string{"--dev-resource", resource}, args...)...)
	return authz, startDemo(t, nil, "--listen", address, "--issuer", authz.URL)
}

// grants records the grant types that a client asked the token endpoint for, the scopes
// that it asked a person for, and the challenges that it met with status 403.
type grants struct {
	mu      sync.Mutex
	seen    []string
	asked   []string
	refused []string
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
			g.note(&g.seen, form.Get("grant_type"))
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusForbidden {
		g.note(&g.refused, resp.Header.Get("WWW-Authenticate"))
	}
	return resp, err
}

func (g *grants) note(list *[]string, what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*list = append(*list, what)
}

func (g *grants) count(grantType string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(g.seen), func(seen string) bool { return seen != grantType }))
}

// sdkHandler is the official SDK's authorization code handler, with a person who allows.
// Of the scopes that it discovers it asks for those that wanted accepts.
func sdkHandler(t *testing.T, watched *grants, wanted func(scope string) bool) auth.OAuthHandler {
	t.Helper()
	browser := newBrowser(t)
	const redirect = "http://127.0.0.1:3142/callback"
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Go SDK", RedirectURIs: []string{redirect},
			GrantTypes: []string{"authorization_code", "refresh_token"}, TokenEndpointAuthMethod: "none",
		}},
		RedirectURL:         redirect,
		RequestRefreshToken: true,
		ScopeFilter: func(discovered []string) []string {
			return slices.DeleteFunc(slices.Clone(discovered), func(scope string) bool { return !wanted(scope) })
		},
		AuthorizationCodeFetcher: func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			if page, err := url.Parse(args.URL); err == nil {
				watched.note(&watched.asked, inOrder(page.Query().Get("scope")))
			}
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

// inOrder returns the same scopes in order. The client has them in any.
func inOrder(scope string) string {
	scopes := strings.Fields(scope)
	slices.Sort(scopes)
	return strings.Join(scopes, " ")
}

func everyScope(string) bool { return true }

// connect connects the official client in a revision of the protocol; "" leaves the
// choice to client and server.
func connect(t *testing.T, demo *process, handler auth.OAuthHandler, revision string) *mcp.ClientSession {
	t.Helper()
	return connectOver(t, http.DefaultTransport, demo, handler, revision, nil)
}

// connectOver is connect over a transport, with options of the client.
func connectOver(t *testing.T, over http.RoundTripper, demo *process, handler auth.OAuthHandler, revision string, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, options)
	transport := &mcp.StreamableClientTransport{Endpoint: demo.URL + "/mcp", OAuthHandler: handler, HTTPClient: &http.Client{Transport: over}}
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("closing the session: %v", err)
		}
	})
	return session
}

// The official client does everything on its own: 401, resource metadata, server
// metadata, registration, sign-in and consent, token, calls, refresh. Its library
// refreshes a token that has less than ten seconds left, so each call does.
func TestSDKClientConnectsAndRefreshes(t *testing.T) {
	for revision, speaks := range map[string]string{"": "2026-07-28", "2025-11-25": "2025-11-25", "2025-06-18": "2025-06-18"} {
		t.Run(speaks, func(t *testing.T) {
			_, demo := startPair(t, "--access-token-ttl", "9s")
			watched := &grants{}
			session := connect(t, demo, sdkHandler(t, watched, everyScope), revision)
			if got := session.InitializeResult().ProtocolVersion; got != speaks {
				t.Errorf("the client speaks revision %s, want %s", got, speaks)
			}
			if got, want := tools(t, session), []string{"add_note", "list_notes", "whoami"}; !slices.Equal(got, want) {
				t.Errorf("tools are %v, want %v", got, want)
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
		})
	}
}

// A client that asked for less steps up: the challenge of the refused tool names the scopes, the
// person allows those and the earlier ones, and the call succeeds.
func TestSDKClientStepsUp(t *testing.T) {
	_, demo := startPair(t)
	watched := &grants{}
	stepped := false
	handler := sdkHandler(t, watched, func(scope string) bool { return stepped || !strings.Contains(scope, "write") })
	session := connectOver(t, watched, demo, handler, "", nil)
	if got := whoami(t, session); !slices.Equal(got, []string{"notes:read"}) || len(watched.refused) > 0 {
		t.Fatalf("the first token covers %v, and %q was refused", got, watched.refused)
	}
	stepped = true
	call(t, session, "add_note", map[string]any{"text": "milk"})
	if len(watched.refused) != 1 || !strings.Contains(watched.refused[0], `error="insufficient_scope"`) || !strings.Contains(watched.refused[0], `scope="notes:write"`) {
		t.Errorf("the challenges are %q, want one for notes:write", watched.refused)
	}
	if want := []string{"notes:read offline_access", "notes:read notes:write offline_access"}; !slices.Equal(watched.asked, want) {
		t.Errorf("the person was asked for %q, want %q", watched.asked, want)
	}
	if got, want := whoami(t, session), []string{"notes:read", "notes:write"}; !slices.Equal(got, want) {
		t.Errorf("the second token covers %v, want %v", got, want)
	}
	if notes := call(t, session, "list_notes", map[string]any{}); !strings.Contains(notes, "milk") {
		t.Errorf("list_notes = %s, want the note", notes)
	}
}

// whoami returns the scopes of the token at the demo.
func whoami(t *testing.T, session *mcp.ClientSession) []string {
	t.Helper()
	var identity struct{ Scopes []string }
	if err := json.Unmarshal([]byte(call(t, session, "whoami", map[string]any{})), &identity); err != nil {
		t.Fatal(err)
	}
	slices.Sort(identity.Scopes)
	return identity.Scopes
}

// tools lists the names of the tools in their order.
func tools(t *testing.T, session *mcp.ClientSession) []string {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
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
