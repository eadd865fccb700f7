package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// open opens the stream of a session.
func (c *caller) open(t *testing.T, lastID string) *http.Response {
	t.Helper()
	r := c.request(t, http.MethodGet, "")
	r.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	stream, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Body.Close() })
	if stream.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %s", stream.Status)
	}
	return stream
}

// A stream ends with the token that opened it. It begins with an event that has an id, and a
// client that sends the id resumes with another token.
func TestStreamsEndWithTheirToken(t *testing.T) {
	const accepted = 5*time.Minute + 10*time.Second // a token of the issuer, and how far clocks may be apart
	ahead := func() time.Time { return time.Now().Add(accepted - 2*time.Second) }
	d := newDemoWith(t, plainDesk(), func(c *middleware.Config) { c.Now = ahead })
	c := d.as("reader", "")
	c.initialize(t)
	last := ""
	for range 2 {
		stream := c.open(t, last)
		ended := time.AfterFunc(patience, func() { stream.Body.Close() })
		body, err := io.ReadAll(stream.Body)
		if !ended.Stop() || err != nil {
			t.Fatalf("the stream goes on: %v", err)
		}
		_, rest, ok := strings.Cut(string(body), "id: ")
		id, _, _ := strings.Cut(rest, "\n")
		if !ok || id == "" || id == last {
			t.Errorf("the stream is %q, want an id that is not %q", body, last)
		}
		last = id
		c.token = d.as("reader", "").token
	}
}

// Events after the first one are forwarded at once.
func TestStreamsAreNotHeldBack(t *testing.T) {
	c := newDemo(t).as("reader", "")
	c.initialize(t)
	stream := c.open(t, "")
	defer time.AfterFunc(patience, func() { stream.Body.Close() }).Stop()
	lines := bufio.NewScanner(stream.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "id: ") {
			return
		}
	}
	t.Errorf("the stream ended without an id: %v", lines.Err())
}

// bearer adds a token to every request.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// The official client resumes its stream each time, and does not take the ends for failures: a
// session lives longer than any of its tokens.
func TestOfficialClientOutlivesItsStreams(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	server := httptest.NewUnstartedServer(nil)
	s := settings{Resource: "http://" + server.Listener.Addr().String() + "/mcp", Issuer: issuer.URL()}
	next := newTestHandler(t, s, plainDesk(), nil)
	var streams atomic.Int32
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			streams.Add(1)
			ctx, cancel := context.WithTimeout(r.Context(), 10*time.Millisecond)
			defer cancel()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
	server.Start()
	t.Cleanup(server.Close)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	token := issuer.Mint(middlewaretest.Claims{"aud": s.Resource})
	transport := &mcp.StreamableClientTransport{Endpoint: s.Resource, HTTPClient: &http.Client{Transport: bearer{token}}, MaxRetries: 1}
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for deadline := time.Now().Add(patience); streams.Load() < 4; time.Sleep(10 * time.Millisecond) {
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "whoami"}); err != nil || time.Now().After(deadline) {
			t.Fatalf("after %d streams: %v", streams.Load(), err)
		}
	}
}
