package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// Each request to the upstream is reported once with the status of its answer, 0 without one;
// requests that are refused, and those whose client left, are not.
func TestForwardedIsReported(t *testing.T) {
	const resource = "https://notes.example.com/mcp"
	leave, arrived := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/mcp/cut":
			panic(http.ErrAbortHandler)
		case "/mcp/slow":
			close(arrived)
			<-leave
		case "/mcp/bad":
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer upstream.Close()
	defer close(leave)
	issuer := middlewaretest.NewIssuer(t)
	var got []int
	g, err := gateway.New(gateway.Config{
		Guard:     middleware.Config{Resource: resource, AuthorizationServers: []string{issuer.URL()}},
		Upstream:  upstream.URL + "/mcp",
		Forwarded: func(status int, took time.Duration) { got = append(got, status) },
	})
	if err != nil {
		t.Fatal(err)
	}
	send := func(ctx context.Context, path, token string) {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, resource+path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		defer func() { _ = recover() }() // the proxy cuts off the answer to a client that left
		g.ServeHTTP(httptest.NewRecorder(), r)
	}
	token := issuer.Mint(middlewaretest.Claims{"aud": resource})
	for _, path := range []string{"", "/bad", "/cut"} {
		send(t.Context(), path, token)
	}
	send(t.Context(), "", "not a token")
	gone, left := context.WithCancel(t.Context())
	go func() {
		<-arrived
		left()
	}()
	send(gone, "/slow", token)
	if len(got) != 3 || got[0] != http.StatusOK || got[1] != http.StatusInternalServerError || got[2] != 0 {
		t.Errorf("reported %v", got)
	}
}
