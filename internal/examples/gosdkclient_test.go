package examples

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// bearer is a client that sends a token with every request. It keeps the last refusal.
type bearer struct {
	token string

	mu      sync.Mutex
	refused *http.Response
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	token := b.token
	b.mu.Unlock()
	r = r.Clone(r.Context())
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && res.StatusCode >= http.StatusBadRequest {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.refused = res
	}
	return res, err
}

// use changes the token, as a client does after a step-up.
func (b *bearer) use(token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.token, b.refused = token, nil
}

// refusal returns the last response with an error status, nil if there was none.
func (b *bearer) refusal() *http.Response {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

func connect(t *testing.T, resource string, b *bearer) (*mcp.ClientSession, error) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1.0.0"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: resource, HTTPClient: &http.Client{Transport: b}, MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	if err == nil {
		t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

// use calls a tool and returns its text.
func use(t *testing.T, session *mcp.ClientSession, tool string) (string, error) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
	if err != nil {
		return "", err
	}
	if result.IsError || len(result.Content) != 1 {
		t.Fatalf("%s: %+v", tool, result)
	}
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("%s: %+v", tool, result.Content[0])
	}
	return text.Text, nil
}

// Messages of a client.
const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	ping       = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
)

// protocolHeader sets what a client of the protocol sends with every request.
func protocolHeader(r *http.Request, token string) {
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
}

// post sends a message, in a session unless that is empty.
func post(t *testing.T, resource, session, token, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", resource, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	protocolHeader(r, token)
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res
}
