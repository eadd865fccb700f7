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
