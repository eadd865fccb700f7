package gateway_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/gateway"
)

// ids returns the ids of the published keys.
func ids(t testing.TB, keys http.Handler) []string {
	t.Helper()
	w := httptest.NewRecorder()
	keys.ServeHTTP(w, httptest.NewRequest("GET", gateway.PathKeys, nil))
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil || w.Code != http.StatusOK || strings.Contains(w.Body.String(), `"d"`) {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	var out []string
	for _, key := range set.Keys {
		if !key.IsPublic() || key.Use != "sig" || key.Algorithm != "ES256" {
			t.Errorf("%+v", key)
		}
		out = append(out, key.KeyID)
	}
	return out
}

// A key is published before it signs, and for as long as what it has signed is valid.
func TestAssertionKeysChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newKey(t), newKey(t)
		keys, err := gateway.NewAssertionKeys(a, b)
		if err != nil {
			t.Fatal(err)
		}
		both := ids(t, keys)
		if len(both) != 2 || both[0] == both[1] {
			t.Fatalf("%q", both)
		}
		if err := keys.Replace(b); err != nil {
			t.Fatal(err)
		}
		time.Sleep(gateway.AssertionLifetime + time.Second)
		if got := ids(t, keys); len(got) != 2 || got[0] != both[1] || got[1] != both[0] {
			t.Errorf("while an assertion of the old key is valid: %q", got)
		}
		time.Sleep(4 * time.Minute)
		if got := ids(t, keys); len(got) != 1 || got[0] != both[1] {
			t.Errorf("after that: %q", got)
		}
		if err := keys.Replace(a, b); err != nil {
			t.Fatal(err)
		}
		if got := ids(t, keys); len(got) != 2 || got[0] != both[0] {
			t.Errorf("a key that comes back: %q", got)
		}
		other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{"no key": keys.Replace(), "no key at all": keys.Replace(nil), "another curve": keys.Replace(b, other)} {
			if err == nil || !strings.Contains(err.Error(), "assertion key") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := ids(t, keys); len(got) != 2 || got[0] != both[0] {
			t.Errorf("after a mistake: %q", got)
		}
	})
}

// The first key signs, from the next request on, and an assertion of the old one is still verified.
func TestAssertionKeysSign(t *testing.T) {
	up := newUpstream(t)
	a, b := newKey(t), newKey(t)
	shared, err := gateway.NewAssertionKeys(a)
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(t, up.URL, func(c *gateway.Config) { c.Identity, c.AssertionKeys = gateway.IdentityAssertion, shared })
	signed := func() (kid, text string) {
		do(t, g.request(t, "POST", "/mcp", "{}"))
		text = up.taken()[0].header.Get(gateway.HeaderAssertion)
		jws, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.ES256})
		if err != nil {
			t.Fatal(err)
		}
		return jws.Signatures[0].Protected.KeyID, text
	}
	first, old := signed()
	if err := shared.Replace(b); err != nil {
		t.Fatal(err)
	}
	second, _ := signed()
	published := ids(t, g)
	if first == second || len(published) != 2 || published[0] != second || published[1] != first {
		t.Errorf("%s, then %s; %q is published", first, second, published)
	}
	jws, err := jose.ParseSignedCompact(old, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jws.Verify(&a.PublicKey); err != nil {
		t.Error(err)
	}
	config := gateway.Config{Upstream: up.URL, Identity: gateway.IdentityAssertion, AssertionKey: a, AssertionKeys: shared}
	config.Guard.Resource, config.Guard.AuthorizationServers = resource, []string{"https://auth.example.com"}
	if _, err := gateway.New(config); err == nil || !strings.Contains(err.Error(), "set AssertionKey or AssertionKeys") {
		t.Errorf("%v", err)
	}
}

// decoded returns the claims of an assertion, whose signature it does not verify.
func decoded(t testing.TB, text string) (says gateway.Assertion) {
	t.Helper()
	jws, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if err := json.Unmarshal(jws.UnsafePayloadWithoutVerification(), &says); err != nil {
		t.Fatal(err)
	}
	return says
}
