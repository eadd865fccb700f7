package middleware_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const (
	tenant      = "3b1f0c52-7d0e-4a6b-9a57-1c6f0e2d8a44"
	otherTenant = "c9a1d6e0-55b7-4f0f-8b1e-7f2a0d3c4b5e"
	app         = "7e4f8d1a-2c3b-4e5f-9a60-b1c2d3e4f506"
)

// profiles are the profiles and an issuer for each, whose URL has the form of theirs.
var profiles = map[middleware.Profile]string{
	middleware.RFC9068:  "https://auth.example.com",
	middleware.Keycloak: "https://login.example.com/realms/staff",
	middleware.Auth0:    "https://example.auth0.example.com/",
	middleware.Okta:     "https://example.okta.example.com/oauth2/default",
	middleware.Entra:    "https://login.example.com/" + tenant + "/v2.0",
	middleware.Cognito:  "https://cognito.example.com/eu-central-1_a1B2c3D4e",
}

// shape is a kind of token that providers issue.
type shape struct {
	header  claims
	payload claims // without iss, aud and times
	of      []middleware.Profile
	issuer  string // if it is not that of the profile
}

// shapes are access tokens as providers document them: "JSON Web Token (JWT) Profile for OAuth 2.0
// Access Tokens" (RFC 9068); "Securing Applications and Services Guide" of Keycloak; "Access Token
// Profiles" of Auth0; "OpenID Connect & OAuth 2.0 API, Access token" of Okta; "Access token claims
// reference" of Microsoft; "Understanding the access token" of Amazon Cognito.
var shapes = map[string]shape{
	// Auth0 has a setting for tokens of exactly this form.
	"RFC 9068": {header: claims{"typ": "at+jwt"}, of: []middleware.Profile{middleware.RFC9068, middleware.Auth0},
		payload: claims{"sub": "reader", "client_id": "editor", "scope": "notes:read notes:write", "jti": "a1"}},
	"Keycloak":                       {header: claims{"typ": "JWT"}, of: []middleware.Profile{middleware.Keycloak}, payload: keycloakClaims},
	"Keycloak, the type of RFC 9068": {header: claims{"typ": "at+jwt"}, of: []middleware.Profile{middleware.Keycloak}, payload: keycloakClaims},
	"Keycloak, a program": {header: claims{"typ": "JWT"}, of: []middleware.Profile{middleware.Keycloak}, payload: with(keycloakClaims, claims{
		"sub": "5b0c8a8e", "azp": "editor", "clientHost": "192.0.2.7", "preferred_username": "service-account-editor", "sid": nil})},
	"Auth0": {header: claims{"typ": "JWT"}, of: []middleware.Profile{middleware.Auth0}, payload: claims{
		"sub": "auth0|5f7c8ec7c33c6c004bbafe82", "azp": "editor", "scope": "openid notes:read notes:write", "permissions": []string{"notes:read"}}},
	"Auth0, a program": {header: claims{"typ": "JWT"}, of: []middleware.Profile{middleware.Auth0}, payload: claims{
		"sub": "editor@clients", "azp": "editor", "scope": "notes:read notes:write", "gty": "client-credentials"}},
	"Auth0, no type but a prefix": {header: claims{"typ": "application/JWT"}, of: []middleware.Profile{middleware.Auth0}, payload: claims{
		"sub": "auth0|1", "azp": "editor", "scope": "notes:read notes:write", "org_id": "org_9ybsU1dN2dKfDkBi"}},
	"Okta": {of: []middleware.Profile{middleware.Okta}, payload: claims{"ver": 1, "jti": "AT.0mP4JKAZX1iACIT4vbEDF7LpvDVjxypPMf0D7uX39RE", "sub": "reader@example.com",
		"cid": "editor", "uid": "00uid4BxXw6I6TV4m0g3", "auth_time": 1, "scp": []string{"notes:read", "notes:write"}}},
	"Okta, a program": {header: claims{"typ": "JWT"}, of: []middleware.Profile{middleware.Okta}, payload: claims{"ver": 1, "jti": "AT.1",
		"sub": "editor", "cid": "editor", "scp": []string{"notes:read", "notes:write"}}},
	"Entra 2.0": {header: claims{"typ": "JWT"}, of: []middleware.Profile{middleware.Entra}, payload: entraClaims},
	"Entra 2.0, a program": {header: claims{"typ": "JWT"}, of: []middleware.Profile{middleware.Entra}, payload: with(entraClaims, claims{
		"scp": nil, "roles": []string{"notes:read", "notes:write"}, "idtyp": "app", "azpacr": nil})},
	"Entra 2.0, a program without idtyp": {header: claims{"typ": "JWT"}, of: []middleware.Profile{middleware.Entra}, payload: with(entraClaims, claims{
		"scp": nil, "roles": []string{"notes:read", "notes:write"}, "azpacr": "2"})},
	"Entra 1.0": {header: claims{"typ": "JWT", "x5t": "nOo3ZDrODXEK1jKWhXslHR_KXEg"}, of: []middleware.Profile{middleware.Entra}, issuer: "https://sts.example.com/" + tenant + "/",
		payload: with(entraClaims, claims{"azp": nil, "azpacr": nil, "appid": app, "appidacr": "1", "ver": "1.0", "unique_name": "reader@example.com"})},
	"Cognito": {of: []middleware.Profile{middleware.Cognito}, payload: claims{"sub": "9b0d2c1e-1f1d-4c59-b6c5-3f0a6c6a2d10", "client_id": "editor", "token_use": "access",
		"scope": "notes:read notes:write", "username": "reader", "version": 2, "auth_time": 1, "jti": "c1", "origin_jti": "c0", "cognito:groups": []string{"staff"}}},
}

var (
	keycloakClaims = claims{"sub": "f3f7a1d2", "typ": "Bearer", "azp": "editor", "scope": "openid notes:read notes:write", "sid": "s1", "acr": "1", "jti": "onrtac:1",
		"allowed-origins": []string{"https://editor.example.com"}, "realm_access": claims{"roles": []string{"offline_access"}}, "preferred_username": "reader"}
	entraClaims = claims{"sub": "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ", "azp": app, "azpacr": "1", "scp": "notes:read notes:write", "tid": tenant, "ver": "2.0",
		"oid": "00000000-0000-0000-66f3-3332eca7ea81", "uti": "fqiBqXLPj0eQa82S-IYFAA", "rh": "0."}
)

// with returns claims with changes; a nil value removes one.
func with(all claims, changes ...claims) claims {
	out := make(claims)
	maps.Copy(out, all)
	for _, c := range changes {
		maps.Copy(out, c)
	}
	maps.DeleteFunc(out, func(_ string, value any) bool { return value == nil })
	return out
}

// rsaKey is the key of all tokens here: making one takes long.
var rsaKey = sync.OnceValue(func() jose.JSONWebKey {
	return jose.JSONWebKey{Key: middlewaretest.NewKey(new(testing.B), jose.RS256), KeyID: "one", Algorithm: "RS256", Use: "sig"}
})

// keySetOf returns the JWK set of public halves.
func keySetOf(t testing.TB, keys ...jose.JSONWebKey) []byte {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, key := range keys {
		set.Keys = append(set.Keys, key.Public())
	}
	return marshal(t, set)
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// signWith returns a token with a header and a payload. The header gets "alg" and "kid".
func signWith(t testing.TB, key jose.JSONWebKey, header claims, payload []byte) string {
	t.Helper()
	options := &jose.SignerOptions{ExtraHeaders: make(map[jose.HeaderKey]any)}
	for name, value := range header {
		options.ExtraHeaders[jose.HeaderKey(name)] = value
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	jws, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// tokenOf returns a token of a shape for the resource.
func tokenOf(t testing.TB, s shape, issuer string, changes ...claims) string {
	t.Helper()
	now := time.Now()
	base := claims{"iss": issuer, "aud": resource, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	return signWith(t, rsaKey(), s.header, marshal(t, with(with(base, s.payload), changes...)))
}

// issuerOf returns an issuer of a profile with a fixed key.
func issuerOf(t testing.TB, profile middleware.Profile, url string) middleware.Issuer {
	t.Helper()
	return middleware.Issuer{URL: url, Profile: profile, Keys: middleware.FixedKeys(keySetOf(t, rsaKey()))}
}

// guardOf returns a guard for issuers alone.
func guardOf(t testing.TB, issuers ...middleware.Issuer) *middleware.Guard {
	t.Helper()
	guard, err := middleware.New(middleware.Config{Resource: resource, Issuers: issuers})
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// TestProfiles checks that each kind of token is accepted by the profiles that it is listed for,
// with client and scopes, and refused by all others.
func TestProfiles(t *testing.T) {
	for name, s := range shapes {
		for profile, url := range profiles {
			if s.issuer != "" && profile == middleware.Entra {
				url = s.issuer
			}
			guard := guardOf(t, issuerOf(t, profile, url))
			token, err := guard.Verify(t.Context(), tokenOf(t, s, url))
			if accepted := err == nil; accepted != slices.Contains(s.of, profile) {
				t.Errorf("%s by %s: %v", name, profile, err)
			}
			if err != nil {
				continue
			}
			if client := token.ClientID; client != "editor" && client != app || token.Subject != s.payload["sub"] || token.Issuer != url {
				t.Errorf("%s by %s: %+v", name, profile, token)
			}
			if !token.HasScope("notes:read", "notes:write") || !slices.Equal(token.Audience, []string{resource}) {
				t.Errorf("%s by %s: scopes %q, audience %q", name, profile, token.Scopes, token.Audience)
			}
		}
	}
}

// otherTokens are tokens of providers that are not access tokens, as changes of an access token.
// Each is refused, although its audience is the resource and its client the same.
var otherTokens = map[string][]struct {
	name    string
	header  claims
	changes claims
}{
	"RFC 9068": {
		{"an ID token", claims{"typ": "JWT"}, claims{"scope": nil, "client_id": nil, "nonce": "n", "at_hash": "h"}},
		{"an ID token with a client", claims{"typ": "JWT"}, claims{"aud": "editor", "nonce": "n"}},
		{"a logout token", claims{"typ": "logout+jwt"}, claims{"events": claims{}, "sid": "s"}},
		{"no type", nil, nil},
	},
	"Keycloak": {
		{"an ID token", nil, claims{"typ": "ID", "at_hash": "h", "nonce": "n", "scope": nil}},
		{"an ID token with everything of the access token", nil, claims{"typ": "ID"}},
		{"a refresh token", nil, claims{"typ": "Refresh"}},
		{"an offline token", nil, claims{"typ": "Offline"}},
		{"a logout token", claims{"typ": "logout+jwt"}, claims{"typ": "Logout", "events": claims{"http://schemas.openid.net/event/backchannel-logout": claims{}}}},
		{"a logout token with another type", nil, claims{"events": claims{}}},
		{"a token bound to a key", nil, claims{"typ": "DPoP"}},
		{"no type of a claim", nil, claims{"typ": nil}},
		{"a type in other case", nil, claims{"typ": "bearer"}},
		{"a type that is no text", nil, claims{"typ": []string{"Bearer"}}},
		{"no client", nil, claims{"azp": nil, "client_id": "editor"}},
		{"scopes in an array", nil, claims{"scope": []string{"notes:read"}}},
	},
	"Auth0": {
		{"an ID token", nil, claims{"azp": nil, "scope": nil, "permissions": nil, "nonce": "n"}},
		{"an ID token of a shared audience", nil, claims{"azp": resource, "scope": nil, "permissions": nil}},
		{"an ID token with its client", nil, claims{"scope": nil, "permissions": nil}},
		{"a nonce", nil, claims{"nonce": "n"}},
		{"a nonce without a value", nil, claims{"nonce": json.RawMessage("null")}},
		{"a hash of an access token", nil, claims{"at_hash": "h"}},
		{"a hash of a code", nil, claims{"c_hash": "h"}},
		{"a client in the audience", nil, claims{"azp": "editor", "aud": []string{resource, "editor"}}},
		{"two clients", nil, claims{"client_id": "other"}},
		{"a logout token", nil, claims{"events": claims{}}},
		{"a logout token by its type", claims{"typ": "logout+jwt"}, nil},
		{"no type", nil, nil},
	},
	"Okta": {
		{"an ID token", nil, claims{"cid": nil, "scp": nil, "uid": nil, "amr": []string{"pwd"}, "idp": "00o", "at_hash": "h"}},
		{"an ID token with a claim of its client", nil, claims{"at_hash": "h"}},
		{"a nonce", nil, claims{"nonce": "n"}},
		{"a client in the audience", nil, claims{"aud": []string{resource, "editor"}}},
		{"no client", nil, claims{"cid": nil, "client_id": "editor"}},
		{"a token of the organisation", claims{"typ": "application/okta-internal-at+jwt"}, nil},
		{"an empty type", claims{"typ": ""}, nil},
		{"a logout token", claims{"typ": "logout+jwt"}, claims{"events": claims{}}},
		{"an authorization grant", claims{"typ": "oauth-id-jag+jwt"}, nil},
	},
	"Entra 2.0": {
		{"an ID token", nil, claims{"azp": nil, "azpacr": nil, "scp": nil, "nonce": "n"}},
		{"an ID token with roles", nil, claims{"azpacr": nil, "scp": nil, "roles": []string{"notes:read"}}},
		{"a nonce", nil, claims{"nonce": "n"}},
		{"a hash of an access token", nil, claims{"at_hash": "h"}},
		{"a hash of a code", nil, claims{"c_hash": "h"}},
		{"a token for Microsoft's own services", claims{"typ": "JWT", "nonce": "n"}, nil},
		{"another tenant", nil, claims{"tid": otherTenant}},
		{"no tenant", nil, claims{"tid": nil}},
		{"another version", nil, claims{"ver": "1.0"}},
		{"no version", nil, claims{"ver": nil}},
		{"the client of the other version", nil, claims{"azp": nil, "appid": app}},
		{"no scopes", nil, claims{"scp": nil}},
		{"empty scopes", nil, claims{"scp": ""}},
		{"a logout token", nil, claims{"events": claims{}}},
		{"no type", nil, nil},
	},
	"Cognito": {
		{"an ID token", nil, claims{"token_use": "id", "client_id": nil, "scope": nil, "at_hash": "h"}},
		{"an ID token with everything of the access token", nil, claims{"token_use": "id"}},
		{"a refresh token", nil, claims{"token_use": "refresh"}},
		{"no use", nil, claims{"token_use": nil}},
		{"no audience", nil, claims{"aud": nil}},
		{"a nonce", nil, claims{"nonce": "n"}},
		{"a type", claims{"typ": "JWT"}, nil},
		{"an empty type", claims{"typ": ""}, nil},
		{"a logout token", claims{"typ": "logout+jwt"}, claims{"events": claims{}}},
	},
}

// TestProfilesRefuseOtherTokens checks that no token of a provider but its access tokens passes.
func TestProfilesRefuseOtherTokens(t *testing.T) {
	for name, others := range otherTokens {
		s := shapes[name]
		url := profiles[s.of[0]]
		guard := guardOf(t, issuerOf(t, s.of[0], url))
		wantVerdict(t, guard, tokenOf(t, s, url), nil)
		for _, other := range others {
			changed := s
			if other.header != nil || strings.HasPrefix(other.name, "no type") && other.changes == nil {
				changed.header = other.header
			}
			if _, err := guard.Verify(t.Context(), tokenOf(t, changed, url, other.changes)); err == nil {
				t.Errorf("%s: %s is accepted", name, other.name)
			}
			wantVerdict(t, guard, tokenOf(t, changed, url, other.changes), middleware.ErrToken)
		}
	}
}

// TestProfileNames checks that profiles print as they are called.
func TestProfileNames(t *testing.T) {
	var names []string
	for profile := range middleware.Profile(len(profiles) + 3) {
		names = append(names, profile.String())
	}
	if got := strings.Join(names, " "); got != "RFC9068 Keycloak Auth0 Okta Entra Cognito Google GitHub Profile(8)" {
		t.Error(got)
	}
}
