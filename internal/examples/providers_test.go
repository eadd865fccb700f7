package examples

import (
	"fmt"

	"gatehouse.example/middleware"
)

// opaqueTokens is a guard's configuration for tokens of GitHub.
func opaqueTokens(secret string) middleware.Config {
	return middleware.Config{
		Resource: "https://notes.example.com/mcp",

		Issuers: []middleware.Issuer{
			{URL: "https://github.com", Profile: middleware.GitHub, InsecureNoAudience: true, Audiences: []string{"Iv1.8a61f9b3a7aba766"}},
		},
		Introspection: map[string]middleware.Introspection{
			"https://github.com": {ClientID: "Iv1.8a61f9b3a7aba766", ClientSecret: secret, Opaque: true},
		},
	}
}

// scopeMap is an issuer whose roles grant scopes.
func scopeMap() middleware.Config {
	return middleware.Config{
		Resource: "https://notes.example.com/mcp",
		Issuers: []middleware.Issuer{
			{URL: "https://login.example.com/realms/staff", Profile: middleware.Keycloak, ScopeMap: []middleware.ScopeRule{
				{Claim: []string{"realm_access", "roles"}, Value: "notes-admin", Scopes: []string{"notes:write"}},
				{Claim: []string{"resource_access", "notes", "roles"}, Value: "writer", Scopes: []string{"notes:write"}},
			}},
		},
	}
}

func Example_providers() {
	for _, config := range []middleware.Config{opaqueTokens("a secret"), scopeMap()} {
		_, err := middleware.New(config)
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
}
