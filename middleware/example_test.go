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

// An issuer whose access tokens are not those of RFC 9068, and one whose keys are known.
func ExampleIssuer() {
	const keys = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"one","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
	guard, err := middleware.New(middleware.Config{
		Resource: "https://notes.example.com/mcp",
		Issuers: []middleware.Issuer{
			{URL: "https://login.example.com/realms/staff", Profile: middleware.Keycloak},
			{URL: "https://partner.example.org", Keys: middleware.FixedKeys([]byte(keys))},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	w := httptest.NewRecorder()
	guard.Metadata().ServeHTTP(w, httptest.NewRequest("GET", guard.MetadataPaths()[0], nil))
	fmt.Println(w.Body)
	// Output:
	// {"resource":"https://notes.example.com/mcp","authorization_servers":["https://login.example.com/realms/staff","https://partner.example.org"],"bearer_methods_supported":["header"]}
}
