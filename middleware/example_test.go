package middleware_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"gatehouse.example/middleware"
)

func Example() {
	guard, err := middleware.New(middleware.Config{
		Resource:             "https://notes.example.com/mcp",
		AuthorizationServers: []string{"https://auth.example.com"},
		Scopes:               []string{"notes:read", "notes:write"},
	})
	if err != nil {
		log.Fatal(err)
	}
	notes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token, ok := middleware.TokenFrom(r.Context()); ok {
			fmt.Fprintf(w, "Hello, %s", token.Subject)
		}
	})
	mux := http.NewServeMux()
	mux.Handle("/mcp", guard.Protect(guard.RequireScope("notes:read")(notes)))
	for _, path := range guard.MetadataPaths() {
		mux.Handle(path, guard.Metadata())
	}

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("POST", "https://notes.example.com/mcp", nil))
	fmt.Println(w.Code, w.Header().Get("WWW-Authenticate"))
	// Output:
	// 401 Bearer scope="notes:read notes:write", resource_metadata="https://notes.example.com/.well-known/oauth-protected-resource/mcp"
}
