package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

// A gateway in front of a server without authorization.
func ExampleNew() {
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	gate, err := gateway.New(gateway.Config{
		Guard: middleware.Config{
			Resource:             "https://notes.example.com/mcp",
			AuthorizationServers: []string{"https://auth.example.com"},
			Scopes:               []string{"notes:read"},
			Policy:               middleware.Policy{Tools: map[string][]string{"list_notes": {"notes:read"}}},
		},
		Upstream: upstream.URL + "/mcp",
	})
	if err != nil {
		panic(err)
	}
	for _, path := range []string{"/mcp", "/.well-known/oauth-protected-resource/mcp", "/healthz"} {
		w := httptest.NewRecorder()
		gate.ServeHTTP(w, httptest.NewRequest("GET", "https://notes.example.com"+path, nil))
		fmt.Println(path, w.Code)
	}
	// Output:
	// /mcp 401
	// /.well-known/oauth-protected-resource/mcp 200
	// /healthz 200
}
