package dcr_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

// FuzzDigest: whatever a client states, the digest is over the bytes of encoding/json. Decisions that are on
// record name digests, so the bytes never change.
func FuzzDigest(f *testing.F) {
	f.Add(`{"id":"a","source":"registered","metadata":{"redirect_uris":["b","a"],"client_name":"<\u2028>","jwks":{"keys":[ ]},"scope":"x"},"localized":{"z":"1","a":"&"}}`)
	f.Add(`{"auth_methods":["none","private_key_jwt"],"localized":{},"metadata":{"grant_types":[],"redirect_uris":["a"],"jwks":null,"tos_uri":"https://example.com/?a&b"}}`)
	f.Add(`{}`)
	f.Fuzz(func(t *testing.T, text string) {
		var c storage.Client
		if json.Unmarshal([]byte(text), &c) != nil {
			return
		}
		sorted := func(list []string) []string { return slices.Sorted(slices.Values(list)) }
		m := c.Metadata
		var keys bytes.Buffer
		if json.Compact(&keys, m.JWKS) != nil {
			keys.Reset()
		}
		encoded, err := json.Marshal([]any{
			"gatehouse client digest 1", c.ID, c.Source, sorted(m.RedirectURIs), m.ClientName, c.Localized,
			m.ClientURI, m.LogoURI, m.TOSURI, m.PolicyURI, m.Scope, sorted(m.GrantTypes),
			sorted(dcr.AuthMethods(c)), m.TokenEndpointAuthSigningAlg, m.JWKSURI, keys.String(),
		})
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(encoded)
		if got := dcr.Digest(c); got != base64.RawURLEncoding.EncodeToString(sum[:]) {
			t.Errorf("the digest %s is not that of %s", got, encoded)
		}
	})
}

func TestDigest(t *testing.T) {
	r := newReader(t, nil)
	base := map[string]any{"redirect_uris": []string{"http://127.0.0.1/a", "http://127.0.0.1/b"}, "scope": "notes:read"}
	seen := map[string]string{}
	digest := func(change map[string]any) string {
		members := maps.Clone(base)
		maps.Copy(members, change)
		r.clock.advance(24 * time.Hour)
		return dcr.Digest(r.resolve(t, r.publish("client.example.com", members)))
	}
	same := digest(nil)
	key := func(x string) map[string]any {
		return map[string]any{"keys": []any{map[string]any{"kty": "OKP", "crv": "Ed25519", "x": x}}}
	}
	one, two := key("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"), key("__________________________________________8")
	for name, change := range map[string]map[string]any{
		"a name":           {"client_name": "Other"},
		"a localised name": {"client_name#de": "Anders"},
		"a redirect URI":   {"redirect_uris": []string{"http://127.0.0.1/a", "http://127.0.0.1/c"}},
		"one less":         {"redirect_uris": []string{"http://127.0.0.1/a"}},
		"a page":           {"client_uri": r.web.URL("client.example.com", "/about")},
		"a logo":           {"logo_uri": r.web.URL("client.example.com", "/about")},
		"terms":            {"tos_uri": "https://example.org/tos"},
		"a policy":         {"policy_uri": "https://example.org/tos"},
		"keys":             {"jwks": one},
		"other keys":       {"jwks": two},
		"keys elsewhere":   {"jwks_uri": "https://example.org/jwks.json"},
		"a method":         {"jwks": one, "token_endpoint_auth_method": "private_key_jwt"},
		"a method more":    {"jwks": one, "token_endpoint_auth_methods_supported": []string{"private_key_jwt"}},
		"an algorithm":     {"jwks": one, "token_endpoint_auth_method": "private_key_jwt", "token_endpoint_auth_signing_alg": "EdDSA"},
		"scope":            {"scope": "notes:read notes:write"},
		"grant types":      {"grant_types": []string{"authorization_code"}},
	} {
		got := digest(change)
		if got == same || seen[got] != "" || len(got) != 43 {
			t.Errorf("%s: digest %q is that of %q", name, got, seen[got])
		}
		seen[got] = name
	}
	for name, change := range map[string]map[string]any{
		"another order": {"redirect_uris": []string{"http://127.0.0.1/b", "http://127.0.0.1/a"}, "grant_types": []string{"refresh_token", "authorization_code"}},
		"a contact":     {"contacts": []string{"a@example.com"}},
		"a version":     {"software_version": "2"},
		"another":       {"x": 1},
		"nothing":       nil,
	} {
		if digest(change) != same {
			t.Errorf("%s: another digest", name)
		}
	}
	c := storage.Client{ID: "a", Source: storage.ClientRegistered}
	d := c
	d.Source = storage.ClientConfigured
	if dcr.Digest(c) == dcr.Digest(d) {
		t.Error("sources are the same")
	}
	c.LastUsed, c.Disabled, c.Secret = start, true, storage.HashSecret("s")
	d.Source = storage.ClientRegistered
	if dcr.Digest(c) != dcr.Digest(d) {
		t.Error("an irrelevant property changes the digest")
	}
}
