package middleware_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// dressed is a profile, and how tokens of RFC 9068 become tokens of it.
type dressed struct {
	profile middleware.Profile
	typ     string
	path    string            // of the issuer
	names   map[string]string // of claims
	more    claims
	// accepts are the tokens that are broken for RFC 9068 and good for the profile.
	accepts []string
}

var wardrobe = []dressed{
	{profile: middleware.RFC9068, typ: "at+jwt"},
	{profile: middleware.Keycloak, typ: "JWT", names: map[string]string{"client_id": "azp"}, more: claims{"typ": "Bearer"},
		accepts: []string{"typ: JWT"}},
	{profile: middleware.Auth0, typ: "JWT", names: map[string]string{"client_id": "azp"}, more: claims{"gty": "client-credentials"},
		accepts: []string{"typ: JWT"}},
	{profile: middleware.Okta, names: map[string]string{"client_id": "cid", "scope": "scp"}, more: claims{"ver": 1, "uid": "u"},
		accepts: []string{"typ: absent", "typ: JWT", "scope: an array"}},
	{profile: middleware.Entra, typ: "JWT", path: "/" + tenant + "/v2.0", names: map[string]string{"client_id": "azp", "scope": "scp"},
		more: claims{"tid": tenant, "ver": "2.0", "roles": []string{"reader"}, "azpacr": "1"}, accepts: []string{"typ: JWT", "scope: an array"}},
	{profile: middleware.Entra, typ: "JWT", path: "/" + tenant + "/", names: map[string]string{"client_id": "appid", "scope": "scp"},
		more: claims{"tid": tenant, "ver": "1.0", "roles": []string{"reader"}, "idtyp": "app"}, accepts: []string{"typ: JWT", "scope: an array"}},
	{profile: middleware.Cognito, more: claims{"token_use": "access"}, accepts: []string{"typ: absent"}},
}

// dress makes an issuer mint tokens of a profile, and returns the configuration for it.
func (d dressed) dress(issuer *middlewaretest.Issuer) middleware.Issuer {
	issuer.SetKeys(rsaKey())
	issuer.SetForm(middlewaretest.Form{Type: d.typ, Claims: func(c middlewaretest.Claims) middlewaretest.Claims {
		for from, to := range d.names {
			if value, ok := c[from]; ok {
				delete(c, from)
				c[to] = value
			}
		}
		if c["iss"] == issuer.URL() {
			c["iss"] = issuer.URL() + d.path
		}
		return with(d.more, c)
	}})
	return middleware.Issuer{URL: issuer.URL() + d.path, Profile: d.profile, Keys: middleware.KeysAt(issuer.URL() + jwkPath)}
}

// TestBrokenTokensOfProfiles runs the table of broken tokens in the form of each profile.
func TestBrokenTokensOfProfiles(t *testing.T) {
	for _, d := range wardrobe {
		t.Run(d.profile.String()+d.path, func(t *testing.T) {
			issuer := middlewaretest.NewIssuer(t)
			guard := guardOf(t, d.dress(issuer))
			wantVerdict(t, guard, issuer.Mint(claims{"aud": resource, "scope": "notes:read"}), nil)
			broken := issuer.Broken(resource)
			if len(broken) < 80 {
				t.Fatalf("only %d broken tokens", len(broken))
			}
			for _, one := range broken {
				_, err := guard.Verify(t.Context(), one.Token)
				if accepted := err == nil; accepted != slices.Contains(d.accepts, one.Name) {
					t.Errorf("%s: %v", one.Name, err)
				}
			}
		})
	}
}

// TestEveryLetterOfProfilesCounts changes letters of a token of a profile, with and without it in
// the cache.
func TestEveryLetterOfProfilesCounts(t *testing.T) {
	for _, d := range wardrobe {
		issuer := middlewaretest.NewIssuer(t)
		config := d.dress(issuer)
		one := jose.JSONWebKey{Key: middlewaretest.NewKey(t, jose.EdDSA), KeyID: "one", Algorithm: "EdDSA"}
		issuer.SetKeys(one)
		config.Algorithms, config.Keys = []string{"EdDSA"}, middleware.FixedKeys(keySetOf(t, one))
		guard := guardOf(t, config)
		good := issuer.Mint(claims{"aud": resource})
		wantVerdict(t, guard, good, nil)
		for i := range len(good) {
			for _, with := range []string{"A", "0", "_", "", good[i:i+1] + "A"} {
				if changed := good[:i] + with + good[i+1:]; changed != good {
					wantVerdict(t, guard, changed, middleware.ErrToken)
				}
			}
		}
		wantVerdict(t, guard, good, nil)
	}
}

// TestClaimsOfProfilesAreText checks that claims that are not valid text are refused, as are
// names that occur twice.
func TestClaimsOfProfilesAreText(t *testing.T) {
	for _, d := range wardrobe {
		issuer := middlewaretest.NewIssuer(t)
		guard := guardOf(t, d.dress(issuer))
		good := string(marshal(t, with(
			claims{"iss": issuer.URL() + d.path, "aud": resource, "sub": "SUB", "iat": 1e9, "exp": 4e9}, d.more,
			claims{nameOr(d.names, "client_id"): "c"})))
		wantVerdict(t, guard, issuer.MintRaw(good), nil)
		for name, text := range notText {
			for where, changed := range map[string]string{
				"the subject": strings.Replace(good, `"SUB"`, text, 1), "another": good[:len(good)-1] + `,"x":{"y":[` + text + `]}}`,
			} {
				if _, err := guard.Verify(t.Context(), issuer.MintRaw(changed)); err == nil {
					t.Errorf("%s: %s in %s is accepted", d.profile, name, where)
				}
			}
		}
		for _, more := range []string{`"sub":"SUB"`, `"x":1,"x":1`, `"s\u0075b":"other"`, `"x":{"y":1,"y":1}`} {
			wantVerdict(t, guard, issuer.MintRaw(good[:len(good)-1]+","+more+"}"), middleware.ErrToken)
		}
	}
}

// nameOr returns the name of a claim in a profile.
func nameOr(names map[string]string, name string) string {
	if other, ok := names[name]; ok {
		return other
	}
	return name
}
