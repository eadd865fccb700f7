package gateway_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/gateway"
)

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// identity returns the headers with the identity of the caller.
func identity(header http.Header) map[string][]string {
	out := map[string][]string{}
	for name, values := range header {
		if strings.HasPrefix(name, "Gatehouse") {
			out[name] = values
		}
	}
	return out
}

func TestIdentityHeaders(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL)
	for _, tt := range []struct {
		token                  claims
		subject, client, scope string
	}{
		{claims{}, "reader", "client", "notes:read"},
		{claims{"scope": "notes:read notes:write"}, "reader", "client", "notes:read notes:write"},
		{claims{"scope": nil}, "reader", "client", ""},
		{claims{"sub": "Zoë Ångström"}, "Zo%C3%AB%20%C3%85ngstr%C3%B6m", "client", "notes:read"},
		{claims{"sub": " a\tb ", "client_id": "https://app.example.com/client.json?a=b%20c"}, "%20a%09b%20", "https://app.example.com/client.json?a=b%2520c", "notes:read"},
		{claims{"sub": "a\r\nGatehouse-Subject: b\x00"}, "a%0D%0AGatehouse-Subject:%20b%00", "client", "notes:read"},
		{claims{"sub": "100%", "scope": "notes:read 100%"}, "100%25", "client", "notes:read 100%25"},
		{claims{"sub": "reader, writer"}, "reader,%20writer", "client", "notes:read"},
	} {
		do(t, g.request(t, "POST", "/mcp", "{}", "Authorization", "Bearer "+g.token(t, tt.token)))
		got := up.taken()
		want := map[string][]string{"Gatehouse-Subject": {tt.subject}, "Gatehouse-Issuer": {g.issuer.URL()}, "Gatehouse-Client": {tt.client}, "Gatehouse-Scope": {tt.scope}}
		if len(got) != 1 || !maps.EqualFunc(identity(got[0].header), want, slices.Equal) {
			t.Errorf("%v: %+v, want %v", tt.token, got, want)
		}
	}
}

func TestIdentityNone(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL, func(c *gateway.Config) { c.Identity = gateway.IdentityNone })
	do(t, g.request(t, "POST", "/mcp", "{}", "Gatehouse-Subject", "admin"))
	if got := identity(up.taken()[0].header); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// keys fetches the keys for assertions, as an upstream does.
func keys(t testing.TB, g *gate) jose.JSONWebKeySet {
	t.Helper()
	a := do(t, g.request(t, "GET", gateway.PathKeys, "", "Authorization", ""))
	var set jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(a.body), &set); err != nil || a.status != http.StatusOK || len(set.Keys) != 1 || !set.Keys[0].IsPublic() || strings.Contains(a.body, `"d"`) {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return set
}

// verified verifies an assertion with the published keys and returns its claims.
func verified(t testing.TB, g *gate, text string) gateway.Assertion {
	t.Helper()
	jws, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	header := jws.Signatures[0].Protected
	set := keys(t, g)
	found := set.Key(header.KeyID)
	if len(found) != 1 || header.ExtraHeaders["typ"] != gateway.AssertionType {
		t.Fatalf("%+v", header)
	}
	payload, err := jws.Verify(found[0])
	var says gateway.Assertion
	if err != nil || json.Unmarshal(payload, &says) != nil {
		t.Fatalf("%s: %v", payload, err)
	}
	return says
}

func TestAssertion(t *testing.T) {
	up := newUpstream(t)
	now := time.Now().Add(-time.Second)
	key := newKey(t)
	assertions := func(c *gateway.Config) {
		c.Identity, c.AssertionKey = gateway.IdentityAssertion, key
		c.Guard.Now = func() time.Time { return now }
	}
	g := newGate(t, up.URL+"/server", assertions)
	ids := map[string]bool{}
	for range 2 {
		token := g.token(t, claims{"sub": "Zoë\n", "scope": "notes:read notes:write", "iat": now.Unix()})
		do(t, g.request(t, "POST", "/mcp/x", "{}", "Gatehouse-Assertion", "forged", "Gatehouse-Subject", "forged", "Authorization", "Bearer "+token))
		got := identity(up.taken()[0].header)
		if len(got) != 1 || len(got[gateway.HeaderAssertion]) != 1 {
			t.Fatalf("%v", got)
		}
		says := verified(t, g, got[gateway.HeaderAssertion][0])
		ids[says.ID] = true
		says.ID = ""
		want := gateway.Assertion{
			Issuer: resource, Audience: up.URL + "/server", Subject: "Zoë\n", TokenIssuer: g.issuer.URL(), ClientID: "client",
			Scope: "notes:read notes:write", IssuedAt: now.Unix(), Expiry: now.Add(time.Minute).Unix(),
		}
		if says != want {
			t.Errorf("%+v, want %+v", says, want)
		}
	}
	if len(ids) != 2 || ids[""] {
		t.Errorf("ids: %v", ids)
	}

	// A configured key has the same id in all gateways, so that they can share it.
	other := newGate(t, up.URL+"/server", assertions)
	if a, b := keys(t, g), keys(t, other); a.Keys[0].KeyID != b.Keys[0].KeyID {
		t.Errorf("%s and %s", a.Keys[0].KeyID, b.Keys[0].KeyID)
	}
	// The audience of a gateway that forwards nothing is the resource.
	alone := newGate(t, "", assertions, func(c *gateway.Config) { c.VerifyOnly = true })
	a := do(t, alone.request(t, "GET", "/verify", "", "Authorization", "Bearer "+alone.token(t, claims{"iat": now.Unix()})))
	if says := verified(t, alone, a.header.Get(gateway.HeaderAssertion)); says.Audience != resource || says.Subject != "reader" {
		t.Errorf("%+v", says)
	}
}

// A key that is not on P-256 would need another algorithm.
func TestAssertionKeyOfAnotherKind(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	config := gateway.Config{Upstream: "http://127.0.0.1:9000", Identity: gateway.IdentityAssertion, AssertionKey: key}
	config.Guard.Resource, config.Guard.AuthorizationServers = resource, []string{"https://auth.example.com"}
	if _, err := gateway.New(config); err == nil || !strings.Contains(err.Error(), "P-256") {
		t.Errorf("%v", err)
	}
}
