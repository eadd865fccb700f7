package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// The beginning of a body of known length reaches the client before the server writes the rest.
func TestBeginningsOfBodiesArrive(t *testing.T) {
	rest := make(chan bool)
	g := newGate(t, serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "8")
		_, _ = io.WriteString(w, "one\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-rest:
		case <-r.Context().Done():
			return
		}
		_, _ = io.WriteString(w, "two\n")
	}))
	res := openRequest(t, g.request(t, "GET", "/mcp", ""))
	got := lines(res.Body)
	if first := soon(t, "the beginning", got); first != "one" || res.ContentLength != 8 {
		t.Fatalf("%q of %d bytes", first, res.ContentLength)
	}
	close(rest)
	if last := soon(t, "the rest", got); last != "two" {
		t.Errorf("%q", last)
	}
}

// An answer has its own bytes only, whatever was in the buffers before.
func TestBuffersKeepAnswersApart(t *testing.T) {
	g := newGate(t, serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscan(r.URL.Query().Get("n"), &n)
		if n%3 == 0 {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		_, _ = io.WriteString(w, strings.Repeat("data: "+fmt.Sprintf("%06d", n)+"\n\n", n))
	}))
	var all sync.WaitGroup
	for worker := range 4 {
		token := g.token(t, nil)
		all.Go(func() {
			for n := worker; n < 6000; n += 400 {
				r, _ := http.NewRequest("GET", fmt.Sprintf("%s/mcp?n=%d", g.server.URL, n), nil)
				r.Header.Set("Authorization", "Bearer "+token)
				res, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					continue
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				if want := strings.Repeat(fmt.Sprintf("data: %06d\n\n", n), n); err != nil || string(body) != want {
					t.Errorf("%d: %d bytes, want %d, or others; %v", n, len(body), len(want), err)
				}
			}
		})
	}
	all.Wait()
}
