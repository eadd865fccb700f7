package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"gatehouse.example/gateway"
)

// TestOnlyStreamsAreAskedForAgain checks that requests that may change something, and requests
// that are not for a stream, are sent once, and that a refused request for a stream is repeated.
func TestOnlyStreamsAreAskedForAgain(t *testing.T) {
	sent := 0
	g := newGate(t, "http://127.0.0.1:1", func(c *gateway.Config) {
		c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			sent++
			status := http.StatusConflict
			if sent == 3 {
				status = http.StatusOK
			}
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
		})
	})
	for _, tt := range []struct {
		method, body, accept string
		status, sent         int
	}{
		{"GET", "", "text/event-stream", 200, 3},
		{"GET", "", "application/json, Text/Event-Stream;q=0.9", 200, 3},
		{"GET", "", "", 409, 1},
		{"GET", "", "text/html", 409, 1},
		{"GET", "{}", "text/event-stream", 409, 1},
		{"POST", "{}", "text/event-stream", 409, 1},
		{"DELETE", "", "text/event-stream", 409, 1},
	} {
		sent = 0
		w := httptest.NewRecorder()
		r := g.request(t, tt.method, "/mcp", tt.body, "Accept", tt.accept)
		r.Host = "notes.example.com"
		g.ServeHTTP(w, r)
		if w.Code != tt.status || sent != tt.sent {
			t.Errorf("%s %q for %q: %d after %d requests", tt.method, tt.body, tt.accept, w.Code, sent)
		}
	}
}

// TestEachRepetitionHasItsOwnAssertion: servers that count each assertion once, as docs/gateway.md says, get another
// one with each repetition of a request for a stream, about the same caller and the same request.
func TestEachRepetitionHasItsOwnAssertion(t *testing.T) {
	for _, binding := range []gateway.AssertionBinding{gateway.BoundToCaller, gateway.BoundToRequest} {
		var sent []string
		g := newGate(t, "http://127.0.0.1:1", func(c *gateway.Config) {
			c.Identity, c.AssertionBinding, c.AssertionKey = gateway.IdentityAssertion, binding, newKey(t)
			c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				sent = append(sent, r.Header.Get(gateway.HeaderAssertion))
				status := http.StatusConflict
				if len(sent) == 3 {
					status = http.StatusOK
				}
				return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
			})
		})
		w, r := httptest.NewRecorder(), g.request(t, "GET", "/mcp", "", "Accept", "text/event-stream")
		r.Host = "notes.example.com"
		if g.ServeHTTP(w, r); w.Code != http.StatusOK || len(sent) != 3 {
			t.Fatalf("%s: %d after %d requests", binding, w.Code, len(sent))
		}
		ids, first := map[string]bool{}, verified(t, g, sent[0])
		for _, text := range sent {
			says := verified(t, g, text)
			ids[says.ID] = true
			if says.ID, says.IssuedAt, says.Expiry = first.ID, first.IssuedAt, first.Expiry; says != first {
				t.Errorf("%s: %+v after %+v", binding, says, first)
			}
		}
		if len(ids) != len(sent) {
			t.Errorf("%s: %d requests had %d assertions", binding, len(sent), len(ids))
		}
	}
}
