package middleware_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// profilePayloads returns a good payload for each profile, and a function that returns the token of a
// payload that a guard for all of them accepts, else nil.
func profilePayloads(t testing.TB) (goods []string, accepts func(testing.TB, string) *middleware.Token) {
	key := jose.JSONWebKey{Key: middlewaretest.NewKey(t, jose.EdDSA), KeyID: "one", Algorithm: "EdDSA"}
	keys, now := middleware.FixedKeys(keySetOf(t, key)), time.Now().Unix()
	var issuers []middleware.Issuer
	for _, d := range wardrobe[1:] {
		url := profiles[d.profile] // the evidence of version 1.0 of Entra is that of 2.0
		if strings.HasSuffix(d.path, tenant+"/") {
			continue
		}
		issuers = append(issuers, middleware.Issuer{URL: url, Profile: d.profile, Keys: keys, Algorithms: []string{"EdDSA"}})
		goods = append(goods, fmt.Sprintf(`{"iss":%q,"sub":"reader",%q:"client","aud":%q,%q:"a b","iat":%d,"exp":%d,%s`,
			url, nameOr(d.names, "client_id"), resource, nameOr(d.names, "scope"), now, now+3600, marshal(t, d.more)[1:]))
	}
	guard, err := middleware.New(middleware.Config{Resource: resource, Issuers: issuers, CachedTokens: -1})
	if err != nil {
		t.Fatal(err)
	}
	headers := []claims{{"typ": "JWT"}, {"typ": "at+jwt"}, nil}
	return goods, func(t testing.TB, payload string) *middleware.Token {
		for _, header := range headers {
			if token, err := guard.Verify(t.Context(), signWith(t, key, header, []byte(payload))); err == nil {
				return token
			}
		}
		return nil
	}
}

// FuzzProfileClaims checks that a token that a profile accepts has the claims that encoding/json
// reads, each name once, and the evidence of the profile.
func FuzzProfileClaims(f *testing.F) {
	goods, accepts := profilePayloads(f)
	for n, good := range goods {
		if accepts(f, good) == nil {
			f.Fatal(good)
		}
		for _, change := range []string{``, `,"typ":"ID"`, `,"t\u0079p":"Bearer"`, `,"azp":"x"`, `,"azp":null`, `,"nonce":null`,
			`,"scp":["a"]`, `,"aud":[]`, `,"exp":1e10`, `,"TYP":"Bearer"`, `,"jti":"\ud800"`} {
			f.Add(uint(n), change, uint(len(good)-1), uint(0))
			f.Add(uint(n), change, uint(1), uint(3))
		}
	}
	f.Fuzz(func(t *testing.T, n uint, change string, at, cut uint) {
		good := goods[n%uint(len(goods))]
		from := int(at % uint(len(good)+1))
		payload := good[:from] + change + good[min(from+int(cut%16), len(good)):]
		if token := accepts(t, payload); token != nil {
			asProfile(t, payload, token)
		}
	})
}

// asProfile compares a token with the claims of its profile as encoding/json reads them.
func asProfile(t *testing.T, payload string, token *middleware.Token) {
	t.Helper()
	var m map[string]any
	general := json.NewDecoder(strings.NewReader(payload))
	general.UseNumber() // of any size
	if err := general.Decode(&m); err != nil || general.More() {
		t.Fatalf("%q is accepted: %v", payload, err)
	}
	text := func(name string) string { s, _ := m[name].(string); return s }
	client, scope, evidence := "azp", "scope", text("typ") == "Bearer"
	switch token.Issuer {
	case profiles[middleware.Auth0]:
		evidence = m["gty"] != nil || m["scope"] != nil || m["permissions"] != nil || m["client_id"] != nil
		if m["azp"] == nil || m["azp"] == "" {
			client = "client_id"
		}
	case profiles[middleware.Okta]:
		client, scope, evidence = "cid", "scp", true
	case profiles[middleware.Entra]:
		scope, evidence = "scp", text("tid") == tenant && text("ver") == "2.0" && (m["scp"] != nil || m["roles"] != nil)
	case profiles[middleware.Cognito]:
		client, evidence = "client_id", text("token_use") == "access"
	}
	var scopes []string
	if s, ok := m[scope].(string); ok {
		scopes = slices.DeleteFunc(strings.Split(s, " "), func(s string) bool { return !metadata.ValidScope(s) })
	} else {
		scopes = token.Scopes // arrays are compared in TestScopeClaims
	}
	number, _ := m["exp"].(json.Number)
	exp, _ := number.Float64()
	_, marked := m["at_hash"]
	switch {
	case !evidence || marked, token.ClientID != text(client) || token.ClientID == "", token.Subject != text("sub") || token.Subject == "",
		token.Issuer != text("iss"), token.ID != text("jti"), !slices.ContainsFunc(token.Audience, names), !slices.Equal(token.Scopes, scopes),
		token.Expiry.Unix() != int64(exp):
		t.Fatalf("%q is read as %+v", payload, token)
	}
}
