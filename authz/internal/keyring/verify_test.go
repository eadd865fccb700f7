package keyring_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/authz/internal/keyring"
)

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	store := newEmptyStore(t)
	ring := open(t, config(store, ""))
	f := activeKey(t, store)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	typ := map[jose.HeaderKey]any{"typ": "at+jwt"}
	good := claim(t, "", nil)
	header := func(extra map[jose.HeaderKey]any) string { return f.sign(jose.ES256, f.key, extra, good) }
	payload := func(p string) string { return f.sign(jose.ES256, f.key, typ, p) }
	if _, err := ring.Verify(payload(good)); err != nil {
		t.Fatalf("the forger cannot make a good token: %v", err)
	}
	public, err := f.key.Public().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"at+jwt","kid":"`+f.key.KeyID+`"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(good)) + "."
	sibling := open(t, config(newEmptyStore(t), "EdDSA"))
	for name, token := range map[string]string{
		"empty":                       "",
		"garbage":                     "hello",
		"dots":                        "..",
		"four parts":                  payload(good) + ".x",
		"too long":                    payload(claim(t, "pad", strings.Repeat("a", 9000))),
		"no type":                     header(nil),
		"an ID token":                 header(map[jose.HeaderKey]any{"typ": "JWT"}),
		"another type":                header(map[jose.HeaderKey]any{"typ": "logout+jwt"}),
		"a type in capitals":          header(map[jose.HeaderKey]any{"typ": "AT+JWT"}),
		"a type that is no string":    header(map[jose.HeaderKey]any{"typ": 1}),
		"a critical extension":        header(map[jose.HeaderKey]any{"typ": "at+jwt", "crit": []string{"x"}, "x": true}),
		"unsigned":                    unsigned,
		"another key, our kid":        f.sign(jose.ES256, jose.JSONWebKey{Key: stranger, KeyID: f.key.KeyID}, typ, good),
		"another key, its own kid":    f.sign(jose.ES256, jose.JSONWebKey{Key: stranger, KeyID: "other"}, typ, good),
		"another key, in the header":  f.sign(jose.ES256, stranger, map[jose.HeaderKey]any{"typ": "at+jwt", "jwk": jose.JSONWebKey{Key: stranger.Public()}}, good),
		"another key, at an address":  f.sign(jose.ES256, stranger, map[jose.HeaderKey]any{"typ": "at+jwt", "jku": "https://attacker.example/jwks.json", "kid": f.key.KeyID}, good),
		"the public key as a secret":  f.sign(jose.HS256, jose.JSONWebKey{Key: public, KeyID: f.key.KeyID}, typ, good),
		"no kid":                      f.sign(jose.ES256, f.key.Key, typ, good),
		"of another server":           sign(t, sibling),
		"not JSON":                    payload("hello"),
		"an array":                    payload("[]"),
		"null":                        payload("null"),
		"no claims":                   payload("{}"),
		"another issuer":              payload(claim(t, "iss", "https://auth.example.com/")),
		"issuer in capitals":          payload(claim(t, "iss", "https://AUTH.example.com")),
		"no issuer":                   payload(claim(t, "iss", nil)),
		"no audience":                 payload(claim(t, "aud", nil)),
		"an audience of nobody":       payload(claim(t, "aud", []string{})),
		"an empty audience":           payload(claim(t, "aud", "")),
		"one empty audience":          payload(claim(t, "aud", []string{resource, ""})),
		"an audience that is a count": payload(claim(t, "aud", 1)),
		"no grant":                    payload(claim(t, "gid", nil)),
		"expired":                     payload(claim(t, "exp", start.Unix())),
		"expired long ago":            payload(claim(t, "exp", -1)),
		"without an end":              payload(claim(t, "exp", nil)),
		"an end that is a word":       payload(claim(t, "exp", "tomorrow")),
	} {
		if c, err := ring.Verify(token); !errors.Is(err, keyring.ErrToken) || c.GrantID != "" {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	if _, err := ring.Verify(payload(claim(t, "exp", start.Unix()+1))); err != nil {
		t.Errorf("a second before its end: %v", err)
	}
}

// TestOnlyGoodTokensAreRemembered: a token that is refused is not remembered as verified, also if its
// signature is right: somebody with old tokens would push out those that are asked about.
func TestOnlyGoodTokensAreRemembered(t *testing.T) {
	t.Parallel()
	store := newEmptyStore(t)
	ring := open(t, config(store, ""))
	f := activeKey(t, store)
	typ := map[jose.HeaderKey]any{"typ": "at+jwt"}
	for name, test := range map[string]struct {
		token string
		want  int
	}{
		"expired":        {f.sign(jose.ES256, f.key, typ, claim(t, "exp", start.Unix())), 0},
		"another issuer": {f.sign(jose.ES256, f.key, typ, claim(t, "iss", "https://other.example.com")), 0},
		"good":           {sign(t, ring), 1},
	} {
		before := ring.Remembered()
		for range 2 {
			_, err := ring.Verify(test.token)
			if got := ring.Remembered() - before; (err == nil) != (test.want == 1) || got != test.want {
				t.Errorf("%s: %d are remembered, %v", name, got, err)
			}
		}
	}
}

// TestOneSpelling: only one encoding of a token is accepted. Base64 has spare bits, and Go's
// decoder skips line breaks.
func TestOneSpelling(t *testing.T) {
	t.Parallel()
	ring := open(t, config(newEmptyStore(t), ""))
	token := sign(t, ring)
	parts := strings.Split(token, ".")
	respelled := []string{token + "\n", "\n" + token, token + "=", token + "==", strings.Replace(token, ".", ".\r\n", 1), strings.Replace(token, ".", "\n.", 1)}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i, part := range parts {
		last := strings.IndexByte(alphabet, part[len(part)-1])
		for bit := range 6 {
			other := slices.Clone(parts)
			other[i] = part[:len(part)-1] + string(alphabet[last^1<<bit])
			respelled = append(respelled, strings.Join(other, "."))
		}
	}
	for _, other := range respelled {
		if _, err := ring.Verify(other); err == nil {
			t.Errorf("it verifies spelled as %q", strings.Replace(other, parts[1], "…", 1))
		}
	}
}

// privateJWK is the example key of RFC 7517 appendix A.2.
const privateJWK = `{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","d":"870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE"}`

// FuzzVerify: only the token itself is accepted, and no other string.
func FuzzVerify(f *testing.F) {
	ring := open(f, config(newEmptyStore(f), ""))
	token := sign(f, ring)
	f.Add(0, "", 0)
	f.Add(len(token), "\n", 0)
	f.Add(10, "A", 1)
	f.Add(len(token)-1, "B", 1)
	f.Add(strings.IndexByte(token, '.'), "..", 1)
	f.Add(0, token+".", 0)
	f.Fuzz(func(t *testing.T, at int, insert string, remove int) {
		if at < 0 || at > len(token) || remove < 0 || remove > len(token)-at {
			return
		}
		mutated := token[:at] + insert + token[at+remove:]
		claims, err := ring.Verify(mutated)
		if (err == nil) != (mutated == token) {
			t.Errorf("%q: %+v, %v", mutated, claims, err)
		}
		if err != nil && !errors.Is(err, keyring.ErrToken) {
			t.Errorf("%q: %v is no ErrToken", mutated, err)
		}
	})
}
