package examples

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	"gatehouse.example/middleware"
)

// The examples in this file are snippets of docs/middleware.md, too.

// tenants guards the resources of several tenants.
func tenants(mux *http.ServeMux, handler http.Handler, proxies []netip.Prefix) error {
	issuers, err := middleware.NewIssuers(middleware.IssuersConfig{
		Issuers: []middleware.Issuer{{URL: "https://auth.example.com"}},
	})
	if err != nil {
		return err
	}
	all := middleware.GuardsConfig{TrustedProxies: proxies}
	for _, tenant := range []string{"north", "south"} {
		guard, err := middleware.New(middleware.Config{
			Resource:      "https://" + tenant + ".example.com/mcp",
			SharedIssuers: issuers,
			Scopes:        []string{"notes:read"},
		})
		if err != nil {
			return err
		}
		all.Guards = append(all.Guards, guard)
	}
	guards, err := middleware.NewGuards(all)
	if err != nil {
		return err
	}
	mux.Handle("/mcp", guards.Protect(handler))
	for _, path := range guards.MetadataPaths() {
		mux.Handle(path, guards.Metadata())
	}
	return nil
}

// byTenant is a ResourceFor for resources whose path has the tenant.
func byTenant(r *http.Request) (string, error) {
	tenant := r.PathValue("tenant")
	if tenant == "" {
		return "", errors.New("the path has no tenant")
	}
	return "https://mcp.example.com/" + tenant + "/mcp", nil
}

func Example_severalResources() {
	mux := http.NewServeMux()
	if err := tenants(mux, http.NotFoundHandler(), nil); err != nil {
		fmt.Println(err)
	}
	for _, host := range []string{"north", "south", "west"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("POST", "https://"+host+".example.com/mcp", nil))
		fmt.Println(w.Code, w.Header().Get("WWW-Authenticate"))
	}
	// Output:
	// 401 Bearer scope="notes:read", resource_metadata="https://north.example.com/.well-known/oauth-protected-resource/mcp"
	// 401 Bearer scope="notes:read", resource_metadata="https://south.example.com/.well-known/oauth-protected-resource/mcp"
	// 404
}

func Example_tenantInThePath() {
	var all middleware.GuardsConfig
	for _, tenant := range []string{"north", "south"} {
		guard, err := middleware.New(middleware.Config{
			Resource: "https://mcp.example.com/" + tenant + "/mcp", AuthorizationServers: []string{"https://auth.example.com"},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		all.Guards = append(all.Guards, guard)
	}
	all.ResourceFor = byTenant
	guards, err := middleware.NewGuards(all)
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/{tenant}/mcp", guards.Protect(http.NotFoundHandler()))
	for _, tenant := range []string{"north", "west"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("POST", "https://mcp.example.com/"+tenant+"/mcp", nil))
		fmt.Println(w.Code, w.Header().Get("WWW-Authenticate"))
	}
	// Output:
	// 401 Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/north/mcp"
	// 404
}

// team is the type of own claims of a provider.
type team struct {
	Name   string   `json:"team"`
	Groups []string `json:"groups"`
}

// greet is a handler that reads own claims.
func greet(w http.ResponseWriter, r *http.Request) {
	own, err := middleware.ClaimsFrom[team](r.Context())
	if err != nil {
		http.Error(w, "the token has claims of another form", http.StatusForbidden)
		return
	}
	_, _ = io.WriteString(w, own.Name)
}

// keyTable are the keys of programs, by key. A real one holds hashes.
type keyTable map[string]string

// Verify implements middleware.Verifier.
func (k keyTable) Verify(_ context.Context, token string) (middleware.Statement, error) {
	program, ok := k[token]
	if !ok {
		return middleware.Statement{}, middleware.ErrToken // 401; any other error is 503
	}
	return middleware.Statement{
		Subject: program, ClientID: program,
		Audience: []string{"https://notes.example.com/mcp"},
		Scopes:   []string{"notes:read"},
		Expiry:   time.Now().Add(time.Minute),
		Claims:   []byte(`{"team":"north"}`),
	}, nil
}

// withKeys is a configuration that accepts keys besides tokens.
func withKeys(keys keyTable) middleware.Config {
	return middleware.Config{
		Resource:             "https://notes.example.com/mcp",
		AuthorizationServers: []string{"https://auth.example.com"},
		TokenKinds: []middleware.TokenKind{
			{Issuer: "https://notes.example.com/keys", Prefix: "key_", Verifier: keys},
		},
	}
}

func Example_verifier() {
	guard, err := middleware.New(withKeys(keyTable{"key_1": "backup"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, token := range []string{"key_1", "key_2"} {
		r := httptest.NewRequest("POST", "https://notes.example.com/mcp", strings.NewReader(""))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		guard.Protect(http.HandlerFunc(greet)).ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 north
	// 401 {"error":"invalid_token","error_description":"The access token is not accepted."}
}
