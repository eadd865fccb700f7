package examples

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// sdkServer puts a guard around a server of the official Go SDK. The guard is outermost: it
// verifies the token, applies the policy for each tool, and answers with complete challenges
// before the SDK reads the request. Behind it, auth.RequireBearerToken passes the identity of the
// caller to the SDK, which then binds each session to its user and passes TokenInfo to the tools.
func sdkServer(resource, issuer string, server *mcp.Server) (http.Handler, error) {
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
		EndStreams: true,
	})
	if err != nil {
		return nil, err
	}
	endpoint := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		DisableLocalhostProtection: true, // the guard checks Host, and accepts the name of the resource behind a proxy
	})

	mux := http.NewServeMux()
	mux.Handle("/mcp", guard.Protect(knownToSDK(endpoint)))
	for _, path := range guard.MetadataPaths() {
		mux.Handle(path, guard.Metadata())
	}
	return mux, nil
}

// knownToSDK passes the verified token of the guard to the SDK. The SDK reads an Authorization
// header before it calls a verifier, and passes all headers to the tools. The guard has removed
// the token so that no tool can forward it; a placeholder takes its place.
func knownToSDK(next http.Handler) http.Handler {
	verify := func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		token, ok := middleware.TokenFrom(ctx)
		if !ok {
			return nil, auth.ErrInvalidToken // not behind the guard
		}
		return tokenInfo(token), nil
	}
	known := auth.RequireBearerToken(verify, bearerOptions(""))(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer verified") // the guard replaced this header
		known.ServeHTTP(w, r)
	})
}

// tokenInfo converts a token to the type of the SDK.
func tokenInfo(token *middleware.Token) *auth.TokenInfo {
	return &auth.TokenInfo{
		UserID:     token.Principal(), // unique among all issuers
		Scopes:     token.Scopes,
		Expiration: token.Expiry,
		Extra:      map[string]any{"token": token},
	}
}

// bearerOptions returns options that leave the decision about expiry to the guard, which tolerates
// clock differences itself.
func bearerOptions(metadataURL string) *auth.RequireBearerTokenOptions {
	return &auth.RequireBearerTokenOptions{ClockSkew: time.Minute, ResourceMetadataURL: metadataURL}
}

// verifiedBySDK uses a guard as the verifier of the SDK's own middleware, without Protect. The
// guard checks issuer, audience, expiry and signature. The other functions of Protect are missing:
//
//   - challenges have the URL of the metadata only, no error code and no scopes;
//   - there are no scopes for single operations, no filtered lists and no hierarchies;
//   - while the issuer is down the answer is 500; with 503 a client would keep its token;
//   - the token itself is passed to the tools, in the header.
//
// Use it where a server of the SDK exists and only the verifier can be changed.
func verifiedBySDK(guard *middleware.Guard, metadataURL string, next http.Handler) http.Handler {
	var verify auth.TokenVerifier = func(ctx context.Context, raw string, _ *http.Request) (*auth.TokenInfo, error) {
		token, err := guard.Verify(ctx, raw)
		switch {
		case errors.Is(err, middleware.ErrToken):
			return nil, auth.ErrInvalidToken // the SDK shows the text of an error to the client
		case err != nil:
			return nil, middleware.ErrUnavailable
		}
		return tokenInfo(token), nil
	}
	return auth.RequireBearerToken(verify, bearerOptions(metadataURL))(next)
}

// newNotes returns a server with tools. They do not check scopes: the guard only passes calls that
// the token covers.
func newNotes() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "whoami", Description: "Says who is calling"}, whoami)
	mcp.AddTool(server, &mcp.Tool{Name: "list_notes", Description: "Lists your notes"}, listTool)
	mcp.AddTool(server, &mcp.Tool{Name: "add_note", Description: "Adds a note"}, addTool)
	mcp.AddTool(server, &mcp.Tool{Name: "drop_notes", Description: "Is in no policy"}, addTool)
	return server
}

type nothing struct{}

// tokenOf returns the token of the request that called a tool. middleware.TokenFrom does not work
// in a tool of this SDK: the context of a tool, and so the token in it, is that of the request
// that opened the session.
func tokenOf(req *mcp.CallToolRequest) (*middleware.Token, error) {
	if req.Extra == nil || req.Extra.TokenInfo == nil {
		return nil, errors.New("not behind the guard")
	}
	token, ok := req.Extra.TokenInfo.Extra["token"].(*middleware.Token)
	if !ok {
		return nil, errors.New("not behind the guard")
	}
	return token, nil
}

func whoami(_ context.Context, req *mcp.CallToolRequest, _ nothing) (*mcp.CallToolResult, nothing, error) {
	token, err := tokenOf(req)
	if err != nil {
		return nil, nothing{}, err
	}
	return says(fmt.Sprintf("%s with %v; the header holds %q", token.Principal(), token.Scopes, req.Extra.Header["Authorization"])), nothing{}, nil
}

func listTool(_ context.Context, req *mcp.CallToolRequest, _ nothing) (*mcp.CallToolResult, nothing, error) {
	token, err := tokenOf(req)
	if err != nil {
		return nil, nothing{}, err
	}
	if token.HasScope("notes:write") { // granted, or implied by what was granted
		return says("milk (you may add to it)"), nothing{}, nil
	}
	return says("milk"), nothing{}, nil
}

func addTool(context.Context, *mcp.CallToolRequest, nothing) (*mcp.CallToolResult, nothing, error) {
	return says("added"), nothing{}, nil
}

func says(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// TestOfficialGoSDK: a tool gets the identity of the caller, also after the client got another
// token, and a bad token opens no session.
func TestOfficialGoSDK(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	resource := start(t, "/mcp", func(resource string) (http.Handler, error) {
		return sdkServer(resource, issuer.URL(), newNotes())
	})
	b := &bearer{}
	b.use(issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": "notes:read"}))
	session, err := connect(t, resource, b)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := use(t, session, "list_notes"); err != nil || got != "milk" {
		t.Errorf("list_notes says %q, %v", got, err)
	}
	b.use(issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": "notes:read notes:write"}))
	want := fmt.Sprintf("%s|reader with [notes:read notes:write]; the header holds %q", issuer.URL(), []string{"Bearer verified"})
	if got, err := use(t, session, "whoami"); err != nil || got != want {
		t.Errorf("whoami says %q, %v; want %q", got, err, want)
	}
	if got, err := use(t, session, "list_notes"); err != nil || got != "milk (you may add to it)" {
		t.Errorf("list_notes says %q, %v", got, err)
	}
	for name, token := range map[string]string{
		"no token":         "",
		"another audience": issuer.Mint(middlewaretest.Claims{"aud": "https://other.example.org/mcp"}),
		"placeholder":      "verified",
	} {
		if _, err := connect(t, resource, &bearer{token: token}); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOfficialGoSDKScopes: a call that the token does not cover is refused before it reaches the
// SDK, with one challenge that names all scopes that it needs.
func TestOfficialGoSDKScopes(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	server := newNotes()
	var mu sync.Mutex
	received := 0
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "tools/call" {
				mu.Lock()
				defer mu.Unlock()
				received++
			}
			return next(ctx, method, req)
		}
	})
	resource := start(t, "/mcp", func(resource string) (http.Handler, error) { return sdkServer(resource, issuer.URL(), server) })
	want := 0
	for _, test := range []struct{ scope, tool, says, needs string }{
		{"notes:read", "list_notes", "milk", ""},
		{"notes:write", "add_note", "added", ""},
		{"notes:admin", "list_notes", "milk (you may add to it)", ""},
		{"notes:admin", "add_note", "added", ""},
		{"notes:write", "list_notes", "", "notes:read"},
		{"notes:read", "add_note", "", "notes:write"},
		{"", "add_note", "", "notes:write"},
		{"notes:admin", "drop_notes", "", ""},
	} {
		b := &bearer{token: issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": test.scope})}
		session, err := connect(t, resource, b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := use(t, session, test.tool)
		if got != test.says || (err == nil) != (test.says != "") {
			t.Errorf("%s with %q: %q, %v", test.tool, test.scope, got, err)
		}
		switch refusal := b.refusal(); {
		case test.says != "":
			want++
		case refusal == nil:
			t.Errorf("%s with %q: no refusal", test.tool, test.scope)
		case test.needs != "":
			checkInsufficient(t, refusal, test.needs)
		case refusal.StatusCode != http.StatusForbidden || refusal.Header.Get("WWW-Authenticate") != "":
			t.Errorf("%s with %q: %s %v, want 403 and no challenge", test.tool, test.scope, refusal.Status, refusal.Header)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if received != want {
		t.Errorf("the SDK received %d calls, want %d", received, want)
	}
}

// TestOfficialGoSDKVerifier: with a guard as its verifier, the SDK refuses the same tokens as
// Protect, with shorter challenges.
func TestOfficialGoSDKVerifier(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	serve := func(resource string) (http.Handler, error) {
		guard, err := middleware.New(middleware.Config{Resource: resource, AuthorizationServers: []string{issuer.URL()}})
		if err != nil {
			return nil, err
		}
		where, err := metadata.ResourceMetadataURL(resource)
		if err != nil {
			return nil, err
		}
		server := newNotes()
		endpoint := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
		return verifiedBySDK(guard, where, endpoint), nil
	}
	resource := start(t, "/mcp", serve)
	for _, broken := range issuer.Broken(resource) {
		res, body := call(t, "POST", resource, broken.Token)
		if res.StatusCode != http.StatusUnauthorized || !strings.Contains(res.Header.Get("WWW-Authenticate"), "resource_metadata=") || strings.TrimSpace(body) == "" {
			t.Errorf("%s: %s %v %s", broken.Name, res.Status, res.Header, body)
		}
	}
	good := issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": "notes:read"})
	session, err := connect(t, resource, &bearer{token: good})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%s|reader with [notes:read]; the header holds %q", issuer.URL(), []string{"Bearer " + good})
	if got, err := use(t, session, "whoami"); err != nil || got != want {
		t.Errorf("whoami says %q, %v; want %q", got, err, want)
	}
	issuer.SetDown(true)
	other := start(t, "/mcp", serve) // its guard has no keys
	token := issuer.Mint(middlewaretest.Claims{"aud": other})
	if res, body := call(t, "POST", other, token); res.StatusCode != http.StatusInternalServerError || strings.Contains(body, issuer.URL()) {
		t.Errorf("while the issuer is down: %s %s", res.Status, body)
	}
}

// behind serves a handler on loopback under the name of another host, as behind a reverse proxy on
// the same machine, and returns the status of a ping with a Host.
func behind(t *testing.T, handler http.Handler, token, host string) int {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/mcp", strings.NewReader(ping))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	protocolHeader(r, token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// TestOfficialGoSDKBehindProxy: on loopback the guard accepts the host of the resource, and no
// other host.
func TestOfficialGoSDKBehindProxy(t *testing.T) {
	const resource = "https://notes.example.com/mcp"
	issuer := middlewaretest.NewIssuer(t)
	handler, err := sdkServer(resource, issuer.URL(), newNotes())
	if err != nil {
		t.Fatal(err)
	}
	token := issuer.Mint(middlewaretest.Claims{"aud": resource})
	for host, want := range map[string]int{
		"notes.example.com":    http.StatusOK,
		"127.0.0.1":            http.StatusOK,
		"rebinder.example.org": http.StatusForbidden,
	} {
		if got := behind(t, handler, token, host); got != want {
			t.Errorf("Host %s: %d, want %d", host, got, want)
		}
	}
}

// TestOfficialGoSDKStreamEnds: a stream ends with the token that opened it, which is accepted for
// ten seconds after its expiry.
func TestOfficialGoSDKStreamEnds(t *testing.T) {
	t.Parallel() // it waits
	issuer := middlewaretest.NewIssuer(t)
	resource := start(t, "/mcp", func(resource string) (http.Handler, error) {
		return sdkServer(resource, issuer.URL(), newNotes())
	})
	claims := middlewaretest.Claims{"aud": resource, "exp": time.Now().Add(-6 * time.Second).Unix()}
	token := issuer.Mint(claims)
	opened := post(t, resource, "", token, initialize)
	r, err := http.NewRequestWithContext(t.Context(), "GET", resource, nil)
	if err != nil {
		t.Fatal(err)
	}
	protocolHeader(r, token)
	r.Header.Set("Mcp-Session-Id", opened.Header.Get("Mcp-Session-Id"))
	res, err := (&http.Client{Timeout: 20 * time.Second}).Do(r)
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

// TestSessionBelongsToItsPerson: the session id of one user is refused with the valid token of
// another.
func TestSessionBelongsToItsPerson(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	resource := start(t, "/mcp", func(resource string) (http.Handler, error) {
		return sdkServer(resource, issuer.URL(), newNotes())
	})
	as := func(subject string) string {
		return issuer.Mint(middlewaretest.Claims{"aud": resource, "sub": subject})
	}
	res := post(t, resource, "", as("reader"), initialize)
	id := res.Header.Get("Mcp-Session-Id")
	if res.StatusCode != http.StatusOK || id == "" {
		t.Fatalf("initialize: %s %v", res.Status, res.Header)
	}
	if res := post(t, resource, id, as("reader"), ping); res.StatusCode != http.StatusOK {
		t.Errorf("reader: %s", res.Status)
	}
	if res := post(t, resource, id, as("stranger"), ping); res.StatusCode != http.StatusNotFound {
		t.Errorf("stranger: %s", res.Status)
	}
}
