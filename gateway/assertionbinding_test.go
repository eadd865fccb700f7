package gateway_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gatehouse.example/gateway"
)

// bound is a change of a configuration for assertions that are bound to requests.
func bound(t testing.TB) func(*gateway.Config) {
	key := newKey(t)
	return func(c *gateway.Config) {
		c.Identity, c.AssertionKey, c.AssertionBinding = gateway.IdentityAssertion, key, gateway.BoundToRequest
	}
}

// An assertion names the request as the upstream gets it.
func TestAssertionsAreBoundToRequests(t *testing.T) {
	up := newUpstream(t)
	reads := func(c *gateway.Config) {
		c.Guard.Policy.Tools = map[string][]string{"list_notes": {"notes:read"}}
	}
	message := call("tools/call", map[string]any{"name": "list_notes"})
	for name, g := range map[string]*gate{"streams": newGate(t, up.URL+"/server", bound(t)), "messages": newGate(t, up.URL+"/server", bound(t), reads)} {
		for _, tt := range []struct{ method, path, body string }{
			{"POST", "/mcp", message}, {"POST", "/mcp/a%20b;c?d=%41&d", message}, {"POST", "/mcp?", message}, {"GET", "/mcp?a=b;c", ""}, {"DELETE", "/mcp/x", ""},
		} {
			if a := do(t, g.request(t, tt.method, tt.path, tt.body)); a.status != http.StatusOK {
				t.Fatalf("%s: %s %s: %+v", name, tt.method, tt.path, a)
			}
			got := up.taken()[0]
			says := verified(t, g, got.header.Get(gateway.HeaderAssertion))
			digest := sha256.Sum256(got.body)
			want := [3]string{got.method, got.uri, base64.RawURLEncoding.EncodeToString(digest[:])}
			if is := [3]string{says.RequestMethod, says.RequestTarget, says.RequestBody}; is != want || string(got.body) != tt.body {
				t.Errorf("%s: %s %s: %q, want %q", name, tt.method, tt.path, is, want)
			}
		}
	}
}

// A body that cannot be signed is refused: one that is too large, however it is sent.
func TestBoundBodiesAreBounded(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL, bound(t), func(c *gateway.Config) { c.Guard.MaxBody = 64 })
	for size, want := range map[int]int{64: http.StatusOK, 65: http.StatusRequestEntityTooLarge} {
		for _, streamed := range []bool{false, true} {
			r := g.request(t, "POST", "/mcp", strings.Repeat("x", size))
			if streamed {
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", size))), -1
			}
			a := do(t, r)
			if got := up.taken(); a.status != want || (len(got) == 1) != (want == http.StatusOK) {
				t.Errorf("%d bytes, streamed %t: %d %s, %d requests", size, streamed, a.status, a.body, len(got))
			} else if len(got) == 1 && got[0].length != int64(size) {
				t.Errorf("%d bytes, streamed %t: they arrive with length %d", size, streamed, got[0].length)
			}
			if want == http.StatusRequestEntityTooLarge {
				describes(t, a, want)
				if !strings.Contains(a.body, "more than 64 bytes") {
					t.Error(a.body)
				}
			}
		}
	}
}

// endless is a body that counts what is read of it, and ends after a MiB.
type endless struct{ read int }

// Read implements io.Reader.
func (e *endless) Read(p []byte) (int, error) {
	if e.read > 1<<20 {
		return 0, io.EOF
	}
	e.read += len(p)
	return len(p), nil
}

// No more of a body that is too large is read than shows that it is.
func TestBoundBodiesAreNotReadToTheirEnd(t *testing.T) {
	g := newGate(t, newUpstream(t).URL, bound(t), func(c *gateway.Config) { c.Guard.MaxBody = 64 })
	body := &endless{}
	r := httptest.NewRequest("POST", resource, body)
	r.Header.Set("Authorization", "Bearer "+g.token(t, nil))
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge || body.read > 64<<10 {
		t.Errorf("%d after %d bytes", w.Code, body.read)
	}
	for _, most := range []int{0, math.MaxInt} {
		up := newUpstream(t)
		g = newGate(t, up.URL, bound(t), func(c *gateway.Config) { c.Guard.MaxBody = most })
		if a := do(t, g.request(t, "POST", "/mcp", strings.Repeat("x", 1<<20))); a.status != http.StatusOK || up.taken()[0].length != 1<<20 {
			t.Errorf("a MiB with the limit %d: %d %s", most, a.status, a.body)
		}
	}
}

// Half a body is not signed and not forwarded.
func TestBoundBodiesArriveAsAWhole(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL, bound(t), func(c *gateway.Config) { c.BodyTime = 50 * time.Millisecond })
	conn, err := net.Dial("tcp", g.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: notes.example.com\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{", g.token(t, nil))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := up.taken(); res.StatusCode != http.StatusRequestTimeout || len(got) > 0 {
		t.Errorf("%s: %+v", res.Status, got)
	}
}

// Nothing gives away an assertion that is bound to no request.
func TestNoAssertionWithoutRequest(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL, bound(t))
	a := do(t, g.request(t, "GET", "/verify", ""))
	describes(t, a, http.StatusNotFound)
	if a.header.Get(gateway.HeaderAssertion) != "" {
		t.Errorf("%+v", a)
	}
	for says, change := range map[string]func(*gateway.Config){
		"must be an assertion": func(c *gateway.Config) { c.Identity = gateway.IdentityHeaders },
		"forwards nothing":     func(c *gateway.Config) { c.VerifyOnly, c.Upstream = true, "" },
		"is not known":         func(c *gateway.Config) { c.AssertionBinding = "body" },
	} {
		config := gateway.Config{Upstream: up.URL}
		config.Guard.Resource, config.Guard.AuthorizationServers = resource, []string{"https://auth.example.com"}
		bound(t)(&config)
		change(&config)
		if _, err := gateway.New(config); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "assertion binding") {
			t.Errorf("%s: %v", says, err)
		}
	}
}
