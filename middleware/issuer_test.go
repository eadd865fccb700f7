package middleware_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestIssuersStandAlone checks that what is loosened for one issuer is not loosened for another,
// also for a header that the guard remembers from the first.
func TestIssuersStandAlone(t *testing.T) {
	key := rsaKey()
	key384 := jose.JSONWebKey{Key: key.Key, KeyID: "one", Algorithm: "RS384"}
	set := middleware.FixedKeys(keySetOf(t, jose.JSONWebKey{Key: key.Key, KeyID: "one"}))
	const strict, loose = "https://strict.example.com", "https://loose.example.com"
	guard, err := middleware.New(middleware.Config{Resource: resource, CachedTokens: -1, Issuers: []middleware.Issuer{
		{URL: strict, Keys: set},
		{URL: loose, Keys: set, Type: "JWT", Algorithms: []string{"RS256", "RS384"}, Audiences: []string{"api://notes"}, Leeway: time.Minute, ScopeClaim: "scope"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	mint := func(issuer string, key jose.JSONWebKey, typ string, changes claims) string {
		now := time.Now()
		payload := with(claims{"iss": issuer, "sub": "reader", "client_id": "editor", "aud": resource, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()}, changes)
		return signWith(t, key, claims{"typ": typ}, marshal(t, payload))
	}
	wantVerdict(t, guard, mint(strict, key, "at+jwt", nil), nil)
	for range 2 { // from the second on, the headers are known
		for name, loosened := range map[string]struct {
			key     jose.JSONWebKey
			typ     string
			changes claims
		}{
			"type":      {key, "JWT", nil},
			"algorithm": {key384, "JWT", nil},
			"audience":  {key, "JWT", claims{"aud": "api://notes"}},
			"leeway":    {key, "JWT", claims{"exp": time.Now().Add(-30 * time.Second).Unix()}},
			"list":      {key, "JWT", claims{"scope": []string{"a"}}},
		} {
			wantVerdict(t, guard, mint(loose, loosened.key, loosened.typ, loosened.changes), nil)
			for _, typ := range []string{loosened.typ, "at+jwt"} {
				if _, err := guard.Verify(t.Context(), mint(strict, loosened.key, typ, loosened.changes)); (err == nil) != (name == "type" && typ == "at+jwt") {
					t.Errorf("%s, %s at the strict issuer: %v", name, typ, err)
				}
			}
		}
		wantVerdict(t, guard, mint(loose, key, "at+jwt", nil), middleware.ErrToken) // the strict issuer's header
	}
}

// TestLooseType checks that a configured type does not let ID tokens and logout tokens in.
func TestLooseType(t *testing.T) {
	loose := issuerOf(t, middleware.RFC9068, "https://auth.example.com")
	loose.Type, loose.ClientClaim = "JWT", "azp"
	guard := guardOf(t, loose)
	s := shape{header: claims{"typ": "JWT"}, payload: claims{"sub": "reader", "azp": "editor"}}
	wantVerdict(t, guard, tokenOf(t, s, loose.URL), nil)
	for _, changes := range []claims{{"aud": []string{resource, "editor"}}, {"nonce": "n"}, {"at_hash": "h"}, {"c_hash": "h"},
		{"events": claims{}}, {"azp": nil}, {"azp": 7}} {
		wantVerdict(t, guard, tokenOf(t, s, loose.URL, changes), middleware.ErrToken)
	}
	for _, typ := range []string{"at+jwt", "jwtx", "application/", "logout+jwt", "application/application/JWT"} {
		wantVerdict(t, guard, tokenOf(t, shape{header: claims{"typ": typ}, payload: s.payload}, loose.URL), middleware.ErrToken)
	}
	wantVerdict(t, guard, tokenOf(t, shape{payload: s.payload}, loose.URL), middleware.ErrToken)
	wantVerdict(t, guard, tokenOf(t, shape{header: claims{"typ": "APPLICATION/jwt"}, payload: s.payload}, loose.URL), nil)
}

// TestScopeClaims checks how scopes are read: separated by spaces, or one in each string.
func TestScopeClaims(t *testing.T) {
	configured := issuerOf(t, middleware.Auth0, profiles[middleware.Auth0])
	configured.ScopeClaim = "https://notes.example.com/permissions"
	guard := guardOf(t, configured)
	s := shapes["Auth0"]
	for _, tt := range []struct {
		value any
		want  []string
	}{
		{"a b", []string{"a", "b"}}, {"", nil}, {" a  b", []string{"a", "b"}}, {[]string{"a", "b"}, []string{"a", "b"}}, {[]string{}, nil}, {nil, nil},
		{[]string{"a b", "c"}, []string{"c"}}, {[]string{"", " ", "\"", "c\n", "d"}, []string{"d"}},
	} {
		token := wantVerdict(t, guard, tokenOf(t, s, configured.URL, claims{configured.ScopeClaim: tt.value}), nil)
		if !slices.Equal(token.Scopes, tt.want) {
			t.Errorf("%#v has the scopes %q, want %q", tt.value, token.Scopes, tt.want)
		}
	}
	for _, value := range []any{7, true, claims{"a": "b"}, []any{"a", 7}, []any{[]string{"a"}}} {
		wantVerdict(t, guard, tokenOf(t, s, configured.URL, claims{configured.ScopeClaim: value}), middleware.ErrToken)
	}
}

// TestTenants checks that a template accepts the tokens of the named tenants, each with the keys
// of its own.
func TestTenants(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	keys := map[string]jose.JSONWebKey{tenant: rsaKey(), otherTenant: {Key: middlewaretest.NewKey(t, jose.RS256), KeyID: "one", Algorithm: "RS256"}}
	for id, key := range keys {
		url := issuer.URL() + "/" + id + "/v2.0"
		issuer.SetDocument("/"+id+"/v2.0/.well-known/openid-configuration", metadata.AuthorizationServer{Issuer: url, JWKSURI: url + "/keys"})
		issuer.SetDocument("/"+id+"/v2.0/keys", json.RawMessage(keySetOf(t, key)))
	}
	guard, err := middleware.New(middleware.Config{Resource: resource, AuthorizationServers: []string{issuer.URL() + "/" + tenant + "/v2.0"},
		Issuers: []middleware.Issuer{{URL: issuer.URL() + "/{tenantid}/v2.0", Profile: middleware.Entra, Tenants: []string{tenant, otherTenant}}}})
	if err != nil {
		t.Fatal(err)
	}
	mint := func(in, says, key string) string {
		now := time.Now()
		payload := with(entraClaims, claims{"iss": issuer.URL() + "/" + in + "/v2.0", "aud": resource, "tid": says, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()})
		return signWith(t, keys[key], claims{"typ": "JWT"}, marshal(t, payload))
	}
	third := strings.Replace(tenant, "3", "4", 1)
	wantVerdict(t, guard, mint(tenant, tenant, tenant), nil)
	wantVerdict(t, guard, mint(otherTenant, otherTenant, otherTenant), nil)
	for _, wrong := range []string{mint(tenant, otherTenant, tenant), mint(tenant, tenant, otherTenant), mint(third, third, tenant), mint(third, tenant, tenant),
		mint("{tenantid}", tenant, tenant), mint("{tenantid}", "{tenantid}", tenant), mint("common", tenant, tenant), mint(strings.ToUpper(tenant), tenant, tenant)} {
		wantVerdict(t, guard, wrong, middleware.ErrToken)
	}
}

// TestTokensWithoutAnAudience checks that such a token is accepted from the named clients alone,
// and that the names of clients are no audiences.
func TestTokensWithoutAnAudience(t *testing.T) {
	s, url := shapes["Cognito"], profiles[middleware.Cognito]
	configured := issuerOf(t, middleware.Cognito, url)
	configured.InsecureNoAudience, configured.Audiences = true, []string{"editor"}
	guard := guardOf(t, configured)
	if token := wantVerdict(t, guard, tokenOf(t, s, url, claims{"aud": nil}), nil); len(token.Audience) != 0 {
		t.Errorf("the audience is %q", token.Audience)
	}
	wantVerdict(t, guard, tokenOf(t, s, url), nil)
	for _, changes := range []claims{{"aud": nil, "client_id": "other"}, {"aud": "editor"}, {"aud": []string{}}, {"aud": ""}, {"aud": json.RawMessage("null")},
		{"aud": "https://other.example.org"}, {"aud": nil, "client_id": nil}, {"aud": nil, "token_use": "id"}} {
		wantVerdict(t, guard, tokenOf(t, s, url, changes), middleware.ErrToken)
	}
}

// TestIssuerWithASlash checks an issuer whose URL ends in a slash: it is announced as it is, and
// its metadata is found without the slash (RFC 8414 section 3.1).
func TestIssuerWithASlash(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	issuer.SetKeys(rsaKey())
	issuer.SetDocument(asPath, nil)
	url := issuer.URL() + "/"
	issuer.SetDocument("/.well-known/openid-configuration", metadata.AuthorizationServer{Issuer: url, JWKSURI: issuer.URL() + jwkPath})
	guard := guardOf(t, middleware.Issuer{URL: url, Profile: middleware.Auth0})
	wantVerdict(t, guard, tokenOf(t, shapes["Auth0"], url), nil)
	wantVerdict(t, guard, tokenOf(t, shapes["Auth0"], issuer.URL()), middleware.ErrToken)
	wantAnnounced(t, guard, url)
}

// wantAnnounced checks the authorization servers in the metadata of the resource.
func wantAnnounced(t *testing.T, guard *middleware.Guard, want ...string) {
	t.Helper()
	w := httptest.NewRecorder()
	guard.Metadata().ServeHTTP(w, httptest.NewRequest(http.MethodGet, metaURL, nil))
	doc, err := metadata.ParseResource(w.Body.Bytes(), resource)
	if err != nil || !slices.Equal(doc.AuthorizationServers, want) {
		t.Errorf("the metadata names %q, %v; want %q", doc.AuthorizationServers, err, want)
	}
}

// TestAnnouncedIssuers checks which issuers the metadata names, and that all are accepted.
func TestAnnouncedIssuers(t *testing.T) {
	const first, second = "https://first.example.com", "https://second.example.com"
	issuers := []middleware.Issuer{issuerOf(t, middleware.Okta, first), issuerOf(t, middleware.Keycloak, second)}
	for _, tt := range []struct{ servers, want []string }{
		{nil, []string{first, second}}, {[]string{second}, []string{second}}, {[]string{"https://third.example.com"}, []string{"https://third.example.com"}},
	} {
		guard, err := middleware.New(middleware.Config{Resource: resource, AuthorizationServers: tt.servers, Issuers: issuers})
		if err != nil {
			t.Fatal(err)
		}
		wantAnnounced(t, guard, tt.want...)
		wantVerdict(t, guard, tokenOf(t, shapes["Okta"], first), nil)
		wantVerdict(t, guard, tokenOf(t, shapes["Keycloak"], second), nil)
		wantVerdict(t, guard, tokenOf(t, shapes["Keycloak"], first), middleware.ErrToken)
	}
}

// TestOpaqueTokensBesideProfiles checks that no token of an issuer with a profile is looked up at
// the issuer of opaque tokens, whatever its claims.
func TestOpaqueTokensBesideProfiles(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	url := profiles[middleware.Keycloak]
	guard := newGuard(t, issuer, introspects(issuer, opaque), func(c *middleware.Config) {
		c.Issuers = []middleware.Issuer{issuerOf(t, middleware.Keycloak, url)}
	})
	wantVerdict(t, guard, tokenOf(t, shapes["Keycloak"], url), nil)
	for _, changes := range []claims{{"typ": "ID"}, {"scope": []string{"a"}}, {"client_id": 7, "typ": "ID"}, {"exp": "soon"}, {"aud": "https://other.example.org"}} {
		wantVerdict(t, guard, tokenOf(t, shapes["Keycloak"], url, changes), middleware.ErrToken)
	}
	wantQuestions(t, issuer, 0)
	wantVerdict(t, guard, issuer.MintOpaque(claims{"aud": resource}), nil)
	wantQuestions(t, issuer, 1)
}

// TestStrictIssuerBesideProfiles checks that tokens of RFC 9068 are judged as ever beside an
// issuer with a profile, in any spelling of their JSON.
func TestStrictIssuerBesideProfiles(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Issuers = []middleware.Issuer{issuerOf(t, middleware.Okta, profiles[middleware.Okta])}
	})
	for _, extra := range []claims{nil, {"nested": claims{"a": []int{1}}}, {"name": "Zoë"}} {
		wantVerdict(t, guard, issuer.Mint(with(claims{"aud": resource}, extra)), nil)
		for _, changes := range []claims{{"aud": "https://other.example.org"}, {"client_id": nil, "cid": "c"}, {"iss": "https://other.example.org"},
			{"scope": []string{"a"}}, {"iss": nil}} {
			all := with(claims{"aud": resource}, extra)
			maps.Copy(all, changes)
			wantVerdict(t, guard, issuer.Mint(all), middleware.ErrToken)
		}
	}
	for _, broken := range issuer.Broken(resource) {
		wantVerdict(t, guard, broken.Token, middleware.ErrToken)
	}
}
