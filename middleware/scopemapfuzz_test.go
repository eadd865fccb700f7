package middleware_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// FuzzScopeMap checks that the scope of a rule is granted only if encoding/json finds the role where
// the rule says, and never because of the token's own scopes.
func FuzzScopeMap(f *testing.F) {
	key := jose.JSONWebKey{Key: middlewaretest.NewKey(f, jose.EdDSA), KeyID: "one", Algorithm: "EdDSA"}
	const issuer = "https://auth.example.com"
	guard, err := middleware.New(middleware.Config{Resource: resource, CachedTokens: -1, Issuers: []middleware.Issuer{{URL: issuer, Keys: middleware.FixedKeys(keySetOf(f, key)),
		ScopeMap: []middleware.ScopeRule{{Claim: []string{"a", "b"}, Value: "r", Scopes: []string{"s"}}}}}})
	if err != nil {
		f.Fatal(err)
	}
	base := string(marshal(f, claims{"iss": issuer, "aud": resource, "sub": "reader", "client_id": "client", "iat": 1000000000, "exp": 4000000000}))
	for _, more := range []string{`"a":{"b":["r"]}`, `"a":{"b":"r"}`, `"a":{"b":{"r":{}}}`, `"a":{"b":{"r":null}}`, `"a":{"b":[["r"]]}`, `"a":{"B":["r"]}`, `"a":{"b":["R",null,"\u0072"]}`,
		`"scope":"s","a":{"b":[]}`, `"scope":"s t"`, `"a":null`, `"a":[{"b":"r"}]`, `"a.b":"r"`, `"a":{"b":"r"},"a":{}`, `"a":{"b":"r","b":0}`, `"\u0061":{"b":"r"}`} {
		f.Add(more)
	}
	f.Fuzz(func(t *testing.T, more string) {
		payload := strings.TrimSuffix(base, "}") + "," + more + "}"
		token, err := guard.Verify(t.Context(), signWith(t, key, claims{"typ": "at+jwt"}, []byte(payload)))
		if err != nil {
			if !errors.Is(err, middleware.ErrToken) {
				t.Fatal(err)
			}
			return
		}
		var general map[string]any
		reader := json.NewDecoder(strings.NewReader(payload))
		reader.UseNumber() // of any size
		if err := reader.Decode(&general); err != nil || reader.More() {
			t.Fatalf("%q is accepted: %v", more, err)
		}
		a, _ := general["a"].(map[string]any)
		role := false
		switch b := a["b"].(type) {
		case string:
			role = b == "r"
		case []any:
			role = slices.Contains(b, any("r"))
		case map[string]any:
			_, role = b["r"].(map[string]any)
		}
		if token.HasScope("s") != role {
			t.Fatalf("%q: role %t, scopes %q", more, role, token.Scopes)
		}
	})
}
