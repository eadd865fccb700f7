package metadata_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"gatehouse.example/metadata"
)

func serverDocument() metadata.AuthorizationServer {
	return metadata.AuthorizationServer{
		Issuer:                            "https://auth.example.com",
		AuthorizationEndpoint:             "https://auth.example.com/authorize",
		TokenEndpoint:                     "https://auth.example.com/token",
		JWKSURI:                           "https://auth.example.com/jwks.json",
		RegistrationEndpoint:              "https://auth.example.com/register",
		ScopesSupported:                   []string{"notes:read", "offline_access"},
		ResponseTypesSupported:            []string{"code"},
		GrantTypesSupported:               []string{"authorization_code", "refresh_token"},
		TokenEndpointAuthMethodsSupported: []string{"none", "client_secret_basic"},
		RevocationEndpoint:                "https://auth.example.com/revoke",
		RevocationEndpointAuthMethods:     []string{"none"},
		IntrospectionEndpoint:             "https://auth.example.com/introspect",
		IntrospectionEndpointAuthMethods:  []string{"client_secret_basic"},
		CodeChallengeMethodsSupported:     []string{"S256"},
		AuthorizationResponseIssParameter: true,
		ProtectedResources:                []string{"https://notes.example.com/mcp"},
	}
}

func TestResourceValidate(t *testing.T) {
	for name, change := range map[string]func(*metadata.Resource){
		"as it is":                 func(*metadata.Resource) {},
		"only what is required":    func(m *metadata.Resource) { m.ScopesSupported, m.BearerMethodsSupported = nil, nil },
		"an origin":                func(m *metadata.Resource) { m.Resource = "https://notes.example.com" },
		"an origin with its slash": func(m *metadata.Resource) { m.Resource = "https://notes.example.com/" },
		"loopback":                 func(m *metadata.Resource) { m.Resource = "http://127.0.0.1:8081/mcp" },
		"two issuers": func(m *metadata.Resource) {
			m.AuthorizationServers = append(m.AuthorizationServers, "http://[::1]:8080")
		},
		"documentation": func(m *metadata.Resource) { m.ResourceDocumentation = "https://notes.example.com/docs" },
	} {
		doc := resourceDocument()
		if change(&doc); doc.Validate() != nil {
			t.Errorf("%s: %v", name, doc.Validate())
		}
	}
	for name, change := range map[string]func(*metadata.Resource){
		"resource: it is empty":                    func(m *metadata.Resource) { m.Resource = "" },
		"resource: it must be abs":                 func(m *metadata.Resource) { m.Resource = "/mcp" },
		"resource: it must not have":               func(m *metadata.Resource) { m.Resource += "#" },
		"form, https://notes.example.com/mcp":      func(m *metadata.Resource) { m.Resource = "https://NOTES.example.com/mcp" },
		"form, https://notes.example.com/mcp ":     func(m *metadata.Resource) { m.Resource = "https://notes.example.com:443/mcp" },
		"resource: it must be https":               func(m *metadata.Resource) { m.Resource = "http://notes.example.com/mcp" },
		"resource: it must not have dot segments":  func(m *metadata.Resource) { m.Resource = "https://notes.example.com/a/../mcp" },
		"resource: it must not have dot segments ": func(m *metadata.Resource) { m.Resource = "https://notes.example.com/a/%2e%2e/mcp" },
		"name at least one":                        func(m *metadata.Resource) { m.AuthorizationServers = nil },
		"name at least one ":                       func(m *metadata.Resource) { m.AuthorizationServers = []string{} },
		"authorization_servers: it must not end":   func(m *metadata.Resource) { m.AuthorizationServers[0] += "/" },
		"authorization_servers: it must be https":  func(m *metadata.Resource) { m.AuthorizationServers[0] = "http://auth.example.com" },
		"listed twice": func(m *metadata.Resource) {
			m.AuthorizationServers = append(m.AuthorizationServers, m.AuthorizationServers...)
		},
		"listed twice ":           func(m *metadata.Resource) { m.ScopesSupported = []string{"a", "a"} },
		"leave an empty list out": func(m *metadata.Resource) { m.ScopesSupported = []string{} },
		"offline_access is not":   func(m *metadata.Resource) { m.ScopesSupported = []string{"offline_access"} },
		`"a b" is not a scope`:    func(m *metadata.Resource) { m.ScopesSupported = []string{"a b"} },
		`is not a scope`:          func(m *metadata.Resource) { m.ScopesSupported = []string{"a\"b"} },
		`only "header"`:           func(m *metadata.Resource) { m.BearerMethodsSupported = []string{"header", "query"} },
		`only "header" `:          func(m *metadata.Resource) { m.BearerMethodsSupported = []string{"body"} },
		"resource_documentation":  func(m *metadata.Resource) { m.ResourceDocumentation = "javascript:alert(1)" },
		"jwks_uri":                func(m *metadata.Resource) { m.JWKSURI = "http://notes.example.com/jwks.json" },
	} {
		doc := resourceDocument()
		change(&doc)
		if err := doc.Validate(); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (metadata.Resource{}).Validate(); err == nil {
		t.Error("the zero value passes")
	}
}

func TestAuthorizationServerValidate(t *testing.T) {
	for name, change := range map[string]func(*metadata.AuthorizationServer){
		"as it is":            func(*metadata.AuthorizationServer) {},
		"loopback":            func(m *metadata.AuthorizationServer) { m.Issuer = "http://127.0.0.1:8080" },
		"default grant types": func(m *metadata.AuthorizationServer) { m.GrantTypesSupported = nil },
		"no code grant": func(m *metadata.AuthorizationServer) {
			*m = metadata.AuthorizationServer{Issuer: m.Issuer, TokenEndpoint: m.TokenEndpoint, ResponseTypesSupported: []string{"none"}, GrantTypesSupported: []string{"client_credentials"}}
		},
	} {
		doc := serverDocument()
		if change(&doc); doc.Validate() != nil {
			t.Errorf("%s: %v", name, doc.Validate())
		}
	}
	type server = metadata.AuthorizationServer
	for want, change := range map[string]func(*server){
		"issuer: it is empty":                        func(m *server) { m.Issuer = "" },
		"issuer: it must not end":                    func(m *server) { m.Issuer += "/" },
		"issuer: it must be https":                   func(m *server) { m.Issuer = "http://auth.example.com" },
		"issuer: it must not have a":                 func(m *server) { m.Issuer += "?a=b" },
		"authorization_endpoint: ":                   func(m *server) { m.AuthorizationEndpoint = "javascript:alert(1)" },
		"token_endpoint: ":                           func(m *server) { m.TokenEndpoint = "http://auth.example.com/token" },
		"jwks_uri: ":                                 func(m *server) { m.JWKSURI = "file:///jwks.json" },
		"registration_endpoint: ":                    func(m *server) { m.RegistrationEndpoint = "/register" },
		"revocation_endpoint: ":                      func(m *server) { m.RevocationEndpoint += "#" },
		"introspection_endpoint: ":                   func(m *server) { m.IntrospectionEndpoint = "https://u:p@auth.example.com/introspect" },
		"service_documentation: ":                    func(m *server) { m.ServiceDocumentation = "data:text/html,x" },
		"response_types_supported is missing":        func(m *server) { m.ResponseTypesSupported = nil },
		`needs "code"`:                               func(m *server) { m.ResponseTypesSupported = []string{"token"} },
		`needs "S256"`:                               func(m *server) { m.CodeChallengeMethodsSupported = nil },
		`needs "S256" `:                              func(m *server) { m.CodeChallengeMethodsSupported = []string{"s256"} },
		`"plain" protects nothing`:                   func(m *server) { m.CodeChallengeMethodsSupported = []string{"S256", "plain"} },
		"needs authorization_endpoint":               func(m *server) { m.AuthorizationEndpoint = "" },
		"and token_endpoint":                         func(m *server) { m.TokenEndpoint = "" },
		"needs authorization_endpoint ":              func(m *server) { m.TokenEndpoint, m.GrantTypesSupported = "", nil },
		"scopes_supported: ":                         func(m *server) { m.ScopesSupported = []string{"a\\b"} },
		"grant_types_supported: leave an empty list": func(m *server) { m.GrantTypesSupported = []string{} },
		"response_modes_supported: ":                 func(m *server) { m.ResponseModesSupported = []string{"query", "query"} },
		"token_endpoint_auth_methods_supported: ":    func(m *server) { m.TokenEndpointAuthMethodsSupported = []string{""} },
		"token_endpoint_auth_signing_alg_values_supported: it must be present":       func(m *server) { m.TokenEndpointAuthMethodsSupported = []string{"private_key_jwt"} },
		"token_endpoint_auth_signing_alg_values_supported: it must be present ":      func(m *server) { m.TokenEndpointAuthSigningAlgs = []string{"ES256"} },
		"revocation_endpoint_auth_signing_alg_values_supported: it must be present":  func(m *server) { m.RevocationEndpointAuthMethods = []string{"private_key_jwt"} },
		"revocation_endpoint_auth_signing_alg_values_supported: it must be present ": func(m *server) { m.RevocationEndpointAuthSigningAlgs = []string{"ES256"} },
		`"none" MUST NOT be used`: func(m *server) {
			m.TokenEndpointAuthMethodsSupported, m.TokenEndpointAuthSigningAlgs = []string{"private_key_jwt"}, []string{"ES256", "none"}
		},
		"there is no revocation_endpoint":    func(m *server) { m.RevocationEndpoint = "" },
		"there is no introspection_endpoint": func(m *server) { m.IntrospectionEndpoint = "" },
		"protected_resources: ":              func(m *server) { m.ProtectedResources = []string{"https://notes.example.com/mcp#"} },
	} {
		doc := serverDocument()
		change(&doc)
		if err := doc.Validate(); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := (server{}).Validate(); err == nil {
		t.Error("the zero value passes")
	}
}

func TestParseAuthorizationServer(t *testing.T) {
	const issuer = "https://auth.example.com"
	data, err := json.Marshal(serverDocument())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := metadata.ParseAuthorizationServer(data, issuer)
	if err != nil || doc.JWKSURI != "https://auth.example.com/jwks.json" || doc.Validate() != nil {
		t.Fatalf("ParseAuthorizationServer = %+v, %v", doc, err)
	}
	foreign := `{"issuer":"https://auth.example.com","jwks_uri":"https://auth.example.com/k","subject_types_supported":["public"],"Issuer":"https://evil.example.org"}`
	if doc, err := metadata.ParseAuthorizationServer([]byte(foreign), issuer); err != nil || doc.JWKSURI == "" || doc.Issuer != issuer {
		t.Errorf("a document with unknown members: %+v, %v", doc, err)
	}
	for _, bad := range []string{
		``, `{}`, `null`, `[]`, `"x"`, `{"issuer":null}`, `{"issuer":["https://auth.example.com"]}`, `{"ISSUER":"https://auth.example.com"}`,
		`{"issuer":"https://auth.example.com/"}`, `{"issuer":"https://AUTH.example.com"}`, `{"issuer":"https://auth.example.com:443"}`, `{"issuer":"https://evil.example.org"}`,
		`{"issuer":"https://evil.example.org","issuer":"https://auth.example.com"}`, `{"issuer":"https://auth.example.com","issuer":"https://auth.example.com"}`,
		`{"issuer":"https://auth.example.com"} {}`, `{"issuer":"https://auth.example.com"`, `{"issuer":"https://auth.example.com","jwks_uri":7}`,
		`{"issuer":"https://auth.example.com","x":"` + strings.Repeat("a", 64<<10) + `"}`,
	} {
		if doc, err := metadata.ParseAuthorizationServer([]byte(bad), issuer); err == nil || doc.Issuer != "" {
			t.Errorf("ParseAuthorizationServer(%.80s) = %+v, %v", bad, doc, err)
		}
	}
	if _, err := metadata.ParseAuthorizationServer([]byte(`{"issuer":""}`), ""); !errors.Is(err, metadata.ErrMismatch) {
		t.Errorf("an empty issuer matches: %v", err)
	}
}

func TestParseResource(t *testing.T) {
	const resource = "https://notes.example.com/mcp"
	data, err := json.Marshal(resourceDocument())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := metadata.ParseResource(data, resource)
	if err != nil || len(doc.AuthorizationServers) != 1 || doc.Validate() != nil {
		t.Fatalf("ParseResource = %+v, %v", doc, err)
	}
	for _, bad := range []string{
		``, `{}`, `null`, `{"resource":"https://notes.example.com"}`, `{"resource":"https://notes.example.com/mcp/"}`, `{"Resource":"https://notes.example.com/mcp"}`,
		`{"resource":"https://notes.example.com/mcp","authorization_servers":"https://auth.example.com"}`,
		`{"resource":"https://notes.example.com/mcp","resource":"https://notes.example.com/mcp"}`,
	} {
		if doc, err := metadata.ParseResource([]byte(bad), resource); err == nil || doc.Resource != "" {
			t.Errorf("ParseResource(%s) = %+v, %v", bad, doc, err)
		}
	}
	if _, err := metadata.ParseResource([]byte(`{"resource":"https://notes.example.com"}`), resource); !errors.Is(err, metadata.ErrMismatch) {
		t.Errorf("another resource: %v", err)
	}
}

func TestValidScope(t *testing.T) {
	for _, s := range []string{"a", "notes:read", "https://example.com/scope", "!#[]~", "offline_access"} {
		if !metadata.ValidScope(s) {
			t.Errorf("%q is refused", s)
		}
	}
	for _, s := range []string{"", " ", "a b", "a\"", "a\\b", "a\n", "\x7f", "é"} {
		if metadata.ValidScope(s) {
			t.Errorf("%q passes", s)
		}
	}
}

func TestClientPublic(t *testing.T) {
	for method, want := range map[string]bool{"none": true, "client_secret_basic": false, "client_secret_post": false, "": false} {
		if got := (metadata.Client{TokenEndpointAuthMethod: method}).Public(); got != want {
			t.Errorf("%q: public %v", method, got)
		}
	}
}

// FuzzParseAuthorizationServer: every accepted document names the issuer, and is equal after a
// round trip.
func FuzzParseAuthorizationServer(f *testing.F) {
	const issuer = "https://auth.example.com"
	f.Add([]byte(`{"issuer":"https://auth.example.com","jwks_uri":"https://auth.example.com/jwks.json"}`))
	f.Add([]byte(`{"Issuer":"x","issuer":"https://auth.example.com"}`))
	f.Add([]byte(`{"issuer":"https:\/\/auth.example.com","scopes_supported":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := metadata.ParseAuthorizationServer(data, issuer)
		if err != nil {
			return
		}
		again, err := json.Marshal(doc)
		if err != nil || doc.Issuer != issuer {
			t.Fatalf("%s gives %+v, %v", data, doc, err)
		}
		if len(again) <= 64<<10 {
			if _, err := metadata.ParseAuthorizationServer(again, issuer); err != nil {
				t.Fatalf("%s gives %s, which is refused: %v", data, again, err)
			}
		}
	})
}
