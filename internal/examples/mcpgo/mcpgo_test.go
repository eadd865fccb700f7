package mcpgo

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// notesServer is a server of mcp-go behind a guard with a policy for each tool. mcp-go accepts any
// well-formed session id from any client. The guard binds each id to the user for whom it was
// issued.
//
// The key for sessions is the same in every process that serves the resource.
func notesServer(resource, issuer string, key []byte) (http.Handler, error) {
	sessions, err := middleware.NewHandles(key)
	if err != nil {
		return nil, err
	}
	guard, err := middleware.New(middleware.Config{
		Resource:             resource,
		AuthorizationServers: []string{issuer},
		Scopes:               []string{"notes:read", "notes:write"},
		Policy: middleware.Policy{
			Tools: map[string][]string{
				"whoami":     {}, // any token
				"list_notes": {"notes:read"},
				"add_note":   {"notes:write"},
			},
			Implies: map[string][]string{"notes:admin": {"notes:read", "notes:write"}},
		},
		Sessions:   sessions,
		EndStreams: true,
	})
	if err != nil {
		return nil, err
	}
	notes := server.NewMCPServer("notes", "1.0.0")
	notes.AddTool(mcp.NewTool("whoami", mcp.WithDescription("Says who is calling")), whoami)
	notes.AddTool(mcp.NewTool("list_notes", mcp.WithDescription("Lists your notes")), listNotes)
	notes.AddTool(mcp.NewTool("add_note", mcp.WithDescription("Adds a note")), addNote)
	notes.AddTool(mcp.NewTool("drop_notes", mcp.WithDescription("Is in no policy")), addNote)

	// The guard checks Host, and accepts the name of the resource behind a proxy.
	endpoint := server.NewStreamableHTTPServer(notes, server.WithDisableLocalhostProtection(true))

	mux := http.NewServeMux()
	mux.Handle("/mcp", guard.Protect(endpoint))
	for _, path := range guard.MetadataPaths() {
		mux.Handle(path, guard.Metadata())
	}
	return mux, nil
}

// whoami finds the token in its context: mcp-go passes the context of the request to the tools and
// needs no HTTPContextFunc for it. The header that it passes contains no token.
func whoami(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	token, ok := middleware.TokenFrom(ctx)
	if !ok {
		return nil, errors.New("not behind the guard")
	}
	return mcp.NewToolResultText(fmt.Sprintf("%s with %v; the header holds %q", token.Principal(), token.Scopes, request.Header["Authorization"])), nil
}

func listNotes(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	token, ok := middleware.TokenFrom(ctx)
	if !ok {
		return nil, errors.New("not behind the guard")
	}
	if token.HasScope("notes:write") { // granted, or implied by what was granted
		return mcp.NewToolResultText("milk (you may add to it)"), nil
	}
	return mcp.NewToolResultText("milk"), nil
}

func addNote(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText("added"), nil
}

// newKey draws a key of sessions.
func newKey(t *testing.T) []byte {
	t.Helper()
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	return key
}

// start serves the example and returns the URL of the resource.
func start(t *testing.T, issuer string) string {
	t.Helper()
	listener := httptest.NewUnstartedServer(nil)
	resource := "http://" + listener.Listener.Addr().String() + "/mcp"
	handler, err := notesServer(resource, issuer, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	listener.Config.Handler = handler
	listener.Start()
	t.Cleanup(func() {
		listener.CloseClientConnections()
		listener.Close()
	})
	return resource
}

// bearer is a client that sends a token with every request. It keeps the last refusal.
type bearer struct {
	token   string
	refused *http.Response
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && res.StatusCode >= http.StatusBadRequest {
		b.refused = res
	}
	return res, err
}

// legacy is the last revision of the protocol with sessions.
const legacy = "2025-11-25"

// connect initializes a client of mcp-go. Without a version it speaks the newest, which
// has no sessions.
func connect(t *testing.T, resource, version string, b *bearer, options ...transport.StreamableHTTPCOption) (*client.Client, error) {
	t.Helper()
	options = append(options, transport.WithHTTPBasicClient(&http.Client{Transport: b}))
	wire, err := transport.NewStreamableHTTP(resource, options...)
	if err != nil {
		t.Fatal(err)
	}
	c := client.NewClient(wire, client.WithProtocolVersion(version))
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	var hello mcp.InitializeRequest
	hello.Params.ClientInfo = mcp.Implementation{Name: "client", Version: "1.0.0"}
	_, err = c.Initialize(t.Context(), hello)
	return c, err
}

// use calls a tool and returns its text.
func use(t *testing.T, c *client.Client, tool string) (string, error) {
	t.Helper()
	var request mcp.CallToolRequest
	request.Params.Name = tool
	result, err := c.CallTool(t.Context(), request)
	if err != nil {
		return "", err
	}
	if len(result.Content) != 1 || result.IsError {
		t.Fatalf("%s: %+v", tool, result)
	}
	text, ok := result.Content[0].(mcp.TextContent)
	if !ok {
		t.Fatalf("%s: %+v", tool, result.Content[0])
	}
	return text.Text, nil
}

// eachRevision runs a test with the newest revision of the protocol and with sessions.
func eachRevision(t *testing.T, test func(t *testing.T, version string)) {
	t.Helper()
	for _, version := range []string{"", legacy} {
		t.Run(cmp.Or(version, "newest"), func(t *testing.T) { test(t, version) })
	}
}

func TestToolsSeeWhoCalls(t *testing.T) {
	eachRevision(t, func(t *testing.T, version string) {
		issuer := middlewaretest.NewIssuer(t)
		resource := start(t, issuer.URL())
		c, err := connect(t, resource, version, &bearer{token: issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": "notes:read"})})
		if err != nil {
			t.Fatal(err)
		}
		if sessions := c.GetSessionId() != ""; sessions != (version == legacy) {
			t.Errorf("session %q", c.GetSessionId())
		}
		want := issuer.URL() + "|reader with [notes:read]; the header holds []"
		if got, err := use(t, c, "whoami"); err != nil || got != want {
			t.Errorf("whoami says %q, %v; want %q", got, err, want)
		}
	})
}

// TestToolsNeedTheirScopes: a call that the token does not cover is refused before it reaches
// mcp-go, with one challenge that names all scopes that it needs.
func TestToolsNeedTheirScopes(t *testing.T) {
	tests := []struct{ scope, tool, want, challenge string }{
		{"notes:read", "list_notes", "milk", ""},
		{"notes:read notes:write", "add_note", "added", ""},
		{"notes:admin", "list_notes", "milk (you may add to it)", ""},
		{"notes:read", "add_note", "", "notes:write"},
		{"notes:write", "list_notes", "", "notes:read"},
		{"notes:admin", "drop_notes", "", ""},
	}
	eachRevision(t, func(t *testing.T, version string) {
		issuer := middlewaretest.NewIssuer(t)
		resource := start(t, issuer.URL())
		for _, test := range tests {
			b := &bearer{token: issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": test.scope})}
			c, err := connect(t, resource, version, b)
			if err != nil {
				t.Fatal(err)
			}
			b.refused = nil
			got, err := use(t, c, test.tool)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("%s with %s: %q, %v", test.tool, test.scope, got, err)
			}
			if test.want != "" {
				continue
			}
			if b.refused == nil || b.refused.StatusCode != http.StatusForbidden {
				t.Errorf("%s with %s: %+v, want 403", test.tool, test.scope, b.refused)
				continue
			}
			checkChallenge(t, b.refused.Header["Www-Authenticate"], test.challenge)
		}
	})
}

// checkChallenge expects one complete challenge for a scope, or none where no token would help.
func checkChallenge(t *testing.T, header []string, scope string) {
	t.Helper()
	challenges, err := metadata.ParseChallenges(header)
	if scope == "" && len(challenges) == 0 && err == nil {
		return
	}
	if err != nil || len(challenges) != 1 {
		t.Errorf("%q, %v, want one challenge", header, err)
		return
	}
	for name, want := range map[string]string{"error": "insufficient_scope", "scope": scope} {
		if got, _ := challenges[0].Get(name); got != want {
			t.Errorf("%q: %s is %q, want %q", header, name, got, want)
		}
	}
	if where, _ := challenges[0].Get("resource_metadata"); where == "" {
		t.Errorf("%q: no resource_metadata", header)
	}
}

// TestListShowsWhatCanBeHad: the list has the tools that the token covers, and those that the
// client can get a token for, with the missing scopes; it has no tool that is allowed to no
// client.
func TestListShowsWhatCanBeHad(t *testing.T) {
	eachRevision(t, func(t *testing.T, version string) {
		issuer := middlewaretest.NewIssuer(t)
		resource := start(t, issuer.URL())
		c, err := connect(t, resource, version, &bearer{token: issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": "notes:read"})})
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(list.Meta.AdditionalFields[middleware.MissingScopesKey])
		if len(list.Tools) != 3 || got != "map[add_note:[notes:write]]" {
			t.Errorf("%v %s", list.Tools, got)
		}
	})
}

// Messages of a client.
const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	ping       = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
)

// newRequest returns a request as a client with sessions sends it.
func newRequest(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", legacy)
	return r
}

// TestSessionBelongsToItsPerson: the session id of one user is refused with the valid token of
// another, although mcp-go would accept it.
func TestSessionBelongsToItsPerson(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	resource := start(t, issuer.URL())
	as := func(person string) *bearer {
		return &bearer{token: issuer.Mint(middlewaretest.Claims{"aud": resource, "sub": person, "scope": "notes:read"})}
	}
	owner, err := connect(t, resource, legacy, as("reader"))
	if err != nil {
		t.Fatal(err)
	}
	id := owner.GetSessionId()

	// request speaks in a session without having opened it, as a thief would.
	request := func(b *bearer, method, session string) *http.Response {
		t.Helper()
		r := newRequest(t, method, resource, ping)
		r.Header.Set("Mcp-Session-Id", session)
		res, err := b.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res
	}
	for _, method := range []string{"POST", "DELETE", "GET"} {
		if res := request(as("stranger"), method, id); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s by a stranger: %s", method, res.Status)
		}
	}
	unbound := id[:strings.LastIndexByte(id, '.')] // what mcp-go gave out
	if res := request(as("reader"), "POST", unbound); res.StatusCode != http.StatusNotFound {
		t.Errorf("an id that the guard did not bind: %s", res.Status)
	}
	if res := request(as("reader"), "POST", id); res.StatusCode != http.StatusOK {
		t.Errorf("the owner with another token: %s", res.Status)
	}
	if got, err := use(t, owner, "list_notes"); err != nil || got != "milk" {
		t.Errorf("the owner: %q, %v", got, err)
	}

	// The client of mcp-go learns that it has to start a session of its own.
	thief, err := transport.NewStreamableHTTP(resource, transport.WithSession(id), transport.WithHTTPBasicClient(&http.Client{Transport: as("stranger")}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = thief.SendRequest(t.Context(), transport.JSONRPCRequest{JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(1), Method: string(mcp.MethodPing)})
	if !errors.Is(err, transport.ErrSessionTerminated) {
		t.Errorf("the client of a stranger: %v", err)
	}
}

// TestStreamEnds: a stream ends with the token that opened it, which is accepted for ten seconds
// after its expiry.
func TestStreamEnds(t *testing.T) {
	t.Parallel() // it waits
	issuer := middlewaretest.NewIssuer(t)
	resource := start(t, issuer.URL())
	b := &bearer{token: issuer.Mint(middlewaretest.Claims{"aud": resource, "exp": time.Now().Add(-6 * time.Second).Unix()})}
	c, err := connect(t, resource, legacy, b)
	if err != nil {
		t.Fatal(err)
	}
	r := newRequest(t, "GET", resource, "")
	r.Header.Set("Mcp-Session-Id", c.GetSessionId())
	res, err := (&http.Client{Transport: b, Timeout: 20 * time.Second}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %s", res.Status)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Errorf("the stream did not end by itself: %v", err)
	}
}

// TestBehindProxy: on loopback the guard accepts the host of the resource, as a reverse proxy on
// the same machine sends it, and no other host.
func TestBehindProxy(t *testing.T) {
	const resource = "https://notes.example.com/mcp"
	issuer := middlewaretest.NewIssuer(t)
	handler, err := notesServer(resource, issuer.URL(), newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(handler)
	defer listener.Close()
	b := &bearer{token: issuer.Mint(middlewaretest.Claims{"aud": resource})}
	for host, want := range map[string]int{
		"notes.example.com":    http.StatusOK,
		"127.0.0.1":            http.StatusOK,
		"rebinder.example.org": http.StatusForbidden,
	} {
		r := newRequest(t, "POST", listener.URL+"/mcp", initialize)
		r.Host = host
		res, err := b.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("Host %s: %s, want %d", host, res.Status, want)
		}
	}
}

func TestBadTokensDoNotConnect(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	resource := start(t, issuer.URL())
	b := &bearer{}
	_, err := connect(t, resource, "", b)
	var required *transport.AuthorizationRequiredError
	if !errors.As(err, &required) || b.refused.StatusCode != http.StatusUnauthorized {
		t.Fatalf("without a token: %v", err)
	}
	if want, err := metadata.ResourceMetadataURL(resource); err != nil || required.ResourceMetadataURL != want {
		t.Errorf("the client is led to %q, want %q, %v", required.ResourceMetadataURL, want, err)
	}
	for _, broken := range issuer.Broken(resource) {
		b := &bearer{token: broken.Token}
		if _, err := connect(t, resource, "", b); err == nil || !slices.Contains([]int{http.StatusUnauthorized, http.StatusBadRequest}, b.refused.StatusCode) {
			t.Errorf("%s: %v", broken.Name, err)
		}
	}
}
