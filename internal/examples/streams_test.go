package examples

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// patience bounds every wait for something that takes milliseconds.
const patience = 20 * time.Second

// sdkEndpoint is a server of the official Go SDK whose streams can be resumed.
func sdkEndpoint(server *mcp.Server) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		DisableLocalhostProtection: true, EventStore: mcp.NewMemoryEventStore(nil),
	})
}

// guarded puts a guard before a handler.
func guarded(issuer string, next http.Handler, change func(*middleware.Config)) func(resource string) (http.Handler, error) {
	return func(resource string) (http.Handler, error) {
		guard, err := middleware.New(guardConfig(resource, issuer, change))
		if err != nil {
			return nil, err
		}
		return guard.Protect(next), nil
	}
}

// gated puts a gateway before a handler that listens by itself.
func gated(t *testing.T, issuer string, next http.Handler, change func(*middleware.Config)) func(resource string) (http.Handler, error) {
	server := httptest.NewServer(next)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return func(resource string) (http.Handler, error) {
		return gateway.New(gateway.Config{Guard: guardConfig(resource, issuer, change), Upstream: server.URL + "/mcp"})
	}
}

func guardConfig(resource, issuer string, change func(*middleware.Config)) middleware.Config {
	config := middleware.Config{Resource: resource, AuthorizationServers: []string{issuer}}
	if change != nil {
		change(&config)
	}
	return config
}

// opened opens a stream. Fields of the header come in pairs.
func opened(t *testing.T, url, token string, fields ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	res, err := (&http.Client{Transport: &http.Transport{ResponseHeaderTimeout: patience}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// held is a server that notices the end of its first stream only when the test releases it.
type held struct {
	next     http.Handler
	letGo    func()
	gone     chan struct{}
	once     sync.Once
	mu       sync.Mutex
	conflict int
}

func newHeld(next http.Handler) *held {
	h := &held{next: next, gone: make(chan struct{})}
	h.letGo = sync.OnceFunc(func() { close(h.gone) })
	return h
}

func (h *held) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		h.once.Do(func() { r = h.hold(r) })
		w = &conflicts{w, h}
	}
	h.next.ServeHTTP(w, r)
}

func (h *held) hold(r *http.Request) *http.Request {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	go func() {
		<-h.gone
		cancel()
	}()
	return r.WithContext(ctx)
}

func (h *held) conflicts() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.conflict
}

// conflicts lets the first stream go when a second one was refused because of it.
type conflicts struct {
	http.ResponseWriter
	held *held
}

func (c *conflicts) WriteHeader(status int) {
	if status == http.StatusConflict {
		c.held.mu.Lock()
		c.held.conflict++
		c.held.mu.Unlock()
		defer c.held.letGo()
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *conflicts) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// TestStreamOpensAgainBehindTheGateway: a client opens the stream of a session again after its
// token has expired, while the upstream still has the old stream and answers 409. The client does
// not receive the 409.
func TestStreamOpensAgainBehindTheGateway(t *testing.T) {
	t.Parallel() // it waits
	issuer := middlewaretest.NewIssuer(t)
	server := newHeld(sdkEndpoint(newNotes()))
	t.Cleanup(server.letGo)
	expiry := time.Now().Add(time.Hour).Truncate(time.Second)
	url := start(t, "/mcp", gated(t, issuer.URL(), server, func(c *middleware.Config) {
		c.EndStreams = true
		c.Now = func() time.Time { return expiry.Add(9 * time.Second) } // a second before it is accepted no more
	}))
	ending := issuer.Mint(middlewaretest.Claims{"aud": url, "exp": expiry.Unix()})
	next := issuer.Mint(middlewaretest.Claims{"aud": url, "exp": expiry.Add(time.Hour).Unix()})
	res, body := posted(t, url, next, "", initialize)
	session := res.Header.Get("Mcp-Session-Id")
	if session == "" {
		t.Fatalf("no session: %s %s", res.Status, body)
	}
	fields := []string{"Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-06-18"}
	first := opened(t, url, ending, fields...)
	if _, err := io.ReadAll(first.Body); first.StatusCode != http.StatusOK || err != nil {
		t.Fatalf("the first stream: %s, %v", first.Status, err)
	}
	if again := opened(t, url, next, fields...); again.StatusCode != http.StatusOK || server.conflicts() == 0 {
		t.Errorf("the stream that is opened again: %s after %d conflicts at the upstream", again.Status, server.conflicts())
	}
	// two streams at a time are a conflict of the client's own
	before := server.conflicts()
	if second := opened(t, url, next, fields...); second.StatusCode != http.StatusConflict || server.conflicts()-before != 12 {
		t.Errorf("a second stream: %s after %d conflicts at the upstream", second.Status, server.conflicts()-before)
	}
}

// TestStreamOpensAgainBehindTheGuard: a client receives the end of a stream only when the
// handler has released it, however long that takes after the token has expired.
func TestStreamOpensAgainBehindTheGuard(t *testing.T) {
	t.Parallel() // it waits
	issuer := middlewaretest.NewIssuer(t)
	endpoint := sdkEndpoint(newNotes())
	expired, release := make(chan struct{}), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letGo)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Hold") != "" {
			ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
			go func(ending context.Context) {
				<-ending.Done()
				close(expired)
				<-release
				cancel()
			}(r.Context())
			r = r.WithContext(ctx)
		}
		endpoint.ServeHTTP(w, r)
	})
	expiry := time.Now().Add(time.Hour).Truncate(time.Second)
	url := start(t, "/mcp", guarded(issuer.URL(), handler, func(c *middleware.Config) {
		c.EndStreams = true
		c.Now = func() time.Time { return expiry.Add(9 * time.Second) } // a second before it is accepted no more
	}))
	next := issuer.Mint(middlewaretest.Claims{"aud": url, "exp": expiry.Add(time.Hour).Unix()})
	res, _ := posted(t, url, next, "", initialize)
	session := res.Header.Get("Mcp-Session-Id")
	fields := []string{"Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-06-18"}
	first := opened(t, url, issuer.Mint(middlewaretest.Claims{"aud": url, "exp": expiry.Unix()}), append(fields, "X-Hold", "1")...)
	ended := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(first.Body)
		ended <- err
	}()
	<-expired
	for range 3 { // an end would have got here by now
		if res, _ := posted(t, url, next, session, ping); res.StatusCode != http.StatusOK {
			t.Errorf("ping: %s", res.Status)
		}
	}
	select {
	case err := <-ended:
		t.Errorf("the client sees the end while the handler holds the stream: %v", err)
	default:
	}
	letGo()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if again := opened(t, url, next, fields...); again.StatusCode != http.StatusOK {
		t.Errorf("the stream that is opened again: %s", again.Status)
	}
}

// newSlow returns a server with a tool that interrupts its stream before the answer, so that the
// client has to resume it.
func newSlow() *mcp.Server {
	server := newNotes()
	type in struct{}
	mcp.AddTool(server, &mcp.Tool{Name: "slow", Description: "Breaks off"}, func(_ context.Context, r *mcp.CallToolRequest, _ in) (*mcp.CallToolResult, any, error) {
		r.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: time.Millisecond})
		return says("resumed"), nil, nil
	})
	return server
}

// TestOfficialClientResumes: the official client resumes a broken stream with an event id that
// is bound to its user.
func TestOfficialClientResumes(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for name, ends := range map[string]bool{"streams end": true, "streams stay": false} {
		change := func(c *middleware.Config) {
			c.EndStreams, c.Policy = ends, middleware.Policy{Tools: map[string][]string{"*": nil}}
		}
		for where, build := range map[string]func(string) (http.Handler, error){
			"guard":   guarded(issuer.URL(), sdkEndpoint(newSlow()), change),
			"gateway": gated(t, issuer.URL(), sdkEndpoint(newSlow()), change),
		} {
			url := start(t, "/mcp", build)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1.0.0"}, nil)
			session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
				Endpoint: url, HTTPClient: &http.Client{Transport: &bearer{token: issuer.Mint(middlewaretest.Claims{"aud": url})}},
			}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			if err != nil {
				t.Fatalf("%s, %s: %v", where, name, err)
			}
			result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "slow"})
			if err != nil || result.IsError {
				t.Errorf("%s, %s: %+v, %v", where, name, result, err)
			}
			_ = session.Close()
			cancel()
		}
	}
}

// TestEventsBelongToTheirPerson: the id of an event resumes the stream for the user who received
// it and for no other, although the server itself would replay it to any.
func TestEventsBelongToTheirPerson(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	url := start(t, "/mcp", guarded(issuer.URL(), sdkEndpoint(newNotes()), nil))
	as := func(subject string) string {
		return issuer.Mint(middlewaretest.Claims{"aud": url, "sub": subject})
	}
	newer := strings.Replace(initialize, "2025-06-18", "2025-11-25", 1)
	res, _ := posted(t, url, as("reader"), "", newer)
	session := res.Header.Get("Mcp-Session-Id")
	_, stream := posted(t, url, as("reader"), session, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	_, id, _ := strings.Cut(stream, "id: ")
	id, _, _ = strings.Cut(id, "\n")
	raw := id[:max(0, strings.LastIndexByte(id, '.'))]
	if raw == "" {
		t.Fatalf("the stream has no id: %s", stream)
	}
	res, _ = posted(t, url, as("writer"), "", newer)
	others := res.Header.Get("Mcp-Session-Id")
	for _, tt := range []struct {
		name, subject, session, id string
		status                     int
	}{
		{"the person", "reader", session, id, http.StatusOK},
		{"another person in their own session", "writer", others, id, http.StatusBadRequest},
		{"another person with the id of the server", "writer", others, raw, http.StatusBadRequest},
		{"the person with the id of the server", "reader", session, raw, http.StatusBadRequest},
		{"the session of another person", "writer", session, id, http.StatusNotFound},
	} {
		if res := opened(t, url, as(tt.subject), "Mcp-Session-Id", tt.session, "Last-Event-ID", tt.id, "MCP-Protocol-Version", "2025-11-25"); res.StatusCode != tt.status {
			body, _ := io.ReadAll(res.Body)
			t.Errorf("%s: %s %s", tt.name, res.Status, body)
		}
	}
}

// TestOldTransportIsRefusedAtOnce: the transport of 2024-11-05 is refused at once with a reason,
// with a policy and without one.
func TestOldTransportIsRefusedAtOnce(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	old := mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return newNotes() }, &mcp.SSEOptions{DisableLocalhostProtection: true})
	policy := func(c *middleware.Config) { c.Policy.Tools = map[string][]string{"*": nil} }
	ends := func(c *middleware.Config) { c.EndStreams = true }
	for name, build := range map[string]func(string) (http.Handler, error){
		"guard": guarded(issuer.URL(), old, nil), "guard with a policy": guarded(issuer.URL(), old, policy), "guard that ends streams": guarded(issuer.URL(), old, ends),
		"gateway": gated(t, issuer.URL(), old, ends), "gateway with a policy": gated(t, issuer.URL(), old, policy),
	} {
		url := start(t, "/mcp", build)
		token := issuer.Mint(middlewaretest.Claims{"aud": url})
		res := opened(t, url, token)
		body, err := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusNotImplemented || err != nil || !strings.Contains(string(body), "2024-11-05") || !strings.Contains(string(body), "Streamable HTTP") {
			t.Errorf("%s: %s %s, %v", name, res.Status, body, err)
		}
		client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1.0.0"}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if _, err := client.Connect(ctx, &mcp.SSEClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: &bearer{token: token}}}, nil); err == nil || ctx.Err() != nil {
			t.Errorf("%s: the official client connects: %v", name, err)
		}
		cancel()
		answer, text := posted(t, url+"?sessionid=ABC", token, "", ping)
		var fault struct {
			ID    int
			Error struct{ Code int }
		}
		if err := json.Unmarshal([]byte(text), &fault); err != nil || answer.StatusCode != http.StatusBadRequest || fault.ID != 2 || fault.Error.Code != -32600 {
			t.Errorf("%s: a message: %s %s", name, answer.Status, text)
		}
	}
}
