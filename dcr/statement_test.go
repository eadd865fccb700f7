package dcr_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/dcr"
)

const publisherName = "https://publisher.example.com"

// publisher signs trusted software statements.
var publisher = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

// trusting configures the publisher, with these keys, as a trusted issuer.
func trusting(keys ...any) func(*dcr.Config) {
	var set jose.JSONWebKeySet
	for i, key := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key, KeyID: fmt.Sprint("key-", i)})
	}
	return func(c *dcr.Config) {
		c.StatementIssuers = []dcr.StatementIssuer{{Issuer: publisherName, Keys: set}}
	}
}

type claims map[string]any

// statement signs claims of the publisher, changed by others.
func statement(t testing.TB, alg jose.SignatureAlgorithm, key any, kid string, changes claims) string {
	t.Helper()
	all := claims{"iss": publisherName, "iat": start.Unix(), "software_id": "notes"}
	maps.Copy(all, changes)
	payload, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return signedBytes(t, alg, key, kid, payload)
}

func signedBytes(t testing.TB, alg jose.SignatureAlgorithm, key any, kid string, payload []byte) string {
	t.Helper()
	options := &jose.SignerOptions{}
	if kid != "" {
		options = options.WithHeader("kid", kid)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestSoftwareStatement: the claims of a statement replace the members of the request, in every
// language, and the statement is returned unmodified.
func TestSoftwareStatement(t *testing.T) {
	f := newFixture(t, trusting(publisher.Public()))
	raw := statement(t, jose.EdDSA, publisher, "key-0", claims{
		"client_name": "Notes", "client_name#fr": "Carnets", "logo_uri": nil, "exp": start.Unix() + 60, "nbf": start.Unix(),
		"redirect_uris": []string{"https://notes.example.com/cb"}, "client_id": "admin", "client_id#de": "admin", "client_secret": "s",
		"registration_access_token": "t", "software_statement": "x", "scope": "notes:read",
	})
	a := f.post(t, with(`"client_name":"Bank","client_name#de":"Die Bank","client_name#fr":"La Banque","redirect_uris":["https://evil.example.org/"],`+
		`"client_uri":"https://client.example.com/","logo_uri":"https://client.example.com/l.png","tos_uri#de":"https://client.example.com/agb",`+
		`"token_endpoint_auth_method":"none","scope":"notes:write","software_statement":"`+raw+`"`))
	if a.status != http.StatusCreated {
		t.Fatalf("status %d: %s", a.status, a.raw)
	}
	assertMembers(t, a, f, `{"client_name":"Notes","client_name#fr":"Carnets","redirect_uris":["https://notes.example.com/cb"],`+
		`"client_uri":"https://client.example.com/","logo_uri":"https://client.example.com/l.png","tos_uri#de":"https://client.example.com/agb",`+
		`"token_endpoint_auth_method":"none","grant_types":["authorization_code"],"response_types":["code"],"scope":"notes:read",`+
		`"software_id":"notes","software_statement":"`+raw+`"}`)
	again := f.get(t, a.text("client_id"), "Bearer "+a.text("registration_access_token"))
	if again.text("software_statement") != raw {
		t.Errorf("read: %s", again.raw)
	}
	kept := f.put(t, a.text("client_id"), `{"client_id":"`+a.text("client_id")+`","software_statement":"`+raw+`"}`, "Bearer "+a.text("registration_access_token"))
	if kept.status != http.StatusOK || kept.text("client_id") != a.text("client_id") || kept.text("software_statement") != raw || kept.text("client_name") != "Notes" {
		t.Errorf("with the statement: %s", kept.raw)
	}
	without := f.put(t, a.text("client_id"), `{"client_id":"`+a.text("client_id")+`","redirect_uris":["https://other.example.com/"]}`, "Bearer "+a.text("registration_access_token"))
	if without.status != http.StatusOK || without.body["software_statement"] != nil || without.text("software_id") != "" {
		t.Errorf("without the statement: %s", without.raw)
	}
}

// TestStatementInOneLanguage: what a statement says in one language replaces the request in all of them,
// in whatever order it is read.
func TestStatementInOneLanguage(t *testing.T) {
	f := newFixture(t, trusting(publisher.Public()))
	raw := statement(t, jose.EdDSA, publisher, "key-0", claims{"client_name": nil, "client_name#fr": "Carnets"})
	for range 30 {
		a := f.post(t, with(`"client_name":"Bank","software_statement":"`+raw+`"`))
		if a.status != http.StatusCreated || a.text("client_name") != "" || a.text("client_name#fr") != "Carnets" {
			t.Fatalf("status %d: %s", a.status, a.raw)
		}
	}
}

// TestStatementAlgorithms: every accepted algorithm is supported, also beside a key of another curve.
func TestStatementAlgorithms(t *testing.T) {
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, trusting(other.Public(), p256.Public(), large.Public(), publisher.Public()))
	for alg, key := range map[jose.SignatureAlgorithm]crypto.Signer{jose.ES256: p256, jose.RS256: large, jose.PS256: large, jose.EdDSA: publisher} {
		a := f.post(t, with(`"software_statement":"`+statement(t, alg, key, "", nil)+`"`))
		if a.status != http.StatusCreated || a.text("software_id") != "notes" {
			t.Errorf("%s: status %d: %s", alg, a.status, a.raw)
		}
	}
	f.backend.writes.Store(0)
	a := f.post(t, with(`"software_statement":"`+statement(t, jose.RS384, large, "", nil)+`"`))
	assertRefused(t, f, a, http.StatusBadRequest, "invalid_software_statement")
}

func TestRefusedStatements(t *testing.T) {
	other := ed25519.NewKeyFromSeed([]byte(strings.Repeat("x", ed25519.SeedSize)))
	signed := func(changes claims) string { return statement(t, jose.EdDSA, publisher, "", changes) }
	good := signed(nil)
	none := strings.Replace(good, strings.Split(good, ".")[0], "eyJhbGciOiJub25lIn0", 1)
	const invalid, unapproved = "invalid_software_statement", "unapproved_software_statement"
	now := start.Unix()
	tests := []struct{ name, raw, code, says string }{
		{"no JWT", "x", invalid, "not a signed JWT"},
		{"empty", "", invalid, "not a signed JWT"},
		{"two parts", "a.b", invalid, "not a signed JWT"},
		{"garbage in three parts", "a.b.c", invalid, "not a JWT signed with"},
		{"five parts", "a.b.c.d.e", invalid, "not a signed JWT"},
		{"no algorithm", none, invalid, "not a JWT signed with"},
		{"no signature", good[:strings.LastIndex(good, ".")+1], invalid, "signature is not valid"},
		{"another issuer", signed(claims{"iss": "https://untrusted.example.org"}), unapproved, "not trusted"},
		{"another spelling of the issuer", signed(claims{"iss": publisherName + "/"}), unapproved, "not trusted"},
		{"no issuer", signed(claims{"iss": nil}), invalid, "no issuer"},
		{"issuer of another type", signed(claims{"iss": []string{publisherName}}), invalid, "iss: wrong type"},
		{"another key", statement(t, jose.EdDSA, other, "", nil), invalid, "signature"},
		{"another key by the same name", statement(t, jose.EdDSA, other, "key-0", nil), invalid, "signature"},
		{"an unknown name of the key", statement(t, jose.EdDSA, publisher, "key-9", nil), invalid, "signature"},
		{"symmetric", statement(t, jose.HS256, make([]byte, 32), "", nil), invalid, "not a JWT signed with"},
		{"the public key as a secret", statement(t, jose.HS256, []byte(publisher.Public().(ed25519.PublicKey)), "", nil), invalid, "not a JWT signed with"},
		{"expired", signed(claims{"exp": now - 60}), invalid, "expired"},
		{"not yet", signed(claims{"nbf": now + 61}), invalid, "is not valid yet"},
		{"issued in the future", signed(claims{"iat": now + 61}), invalid, "is not valid yet"},
		{"expiry of another type", signed(claims{"exp": "soon"}), invalid, "cannot be parsed"},
		{"negative expiry", signed(claims{"exp": -1}), invalid, "a date"},
		{"negative beginning", signed(claims{"nbf": -1}), invalid, "a date"},
		{"huge expiry", signed(claims{"exp": 1e300}), invalid, "a date"},
		{"claims that are no object", signedBytes(t, jose.EdDSA, publisher, "", []byte(`[]`)), invalid, "cannot be parsed"},
		{"a claim twice", signedBytes(t, jose.EdDSA, publisher, "", []byte(`{"iss":"`+publisherName+`","client_name":"a","client_name":"b"}`)), invalid, "duplicate"},
		{"a claim that cannot be registered", signed(claims{"grant_types": []string{"implicit"}}), "invalid_client_metadata", "grant_types"},
		{"a claim of another type", signed(claims{"client_name": 1}), "invalid_client_metadata", "client_name: wrong type"},
		{"a redirect URI that cannot be registered", signed(claims{"redirect_uris": []string{"javascript:x"}}), "invalid_redirect_uri", "redirect_uris[0]"},
		{"no redirect URI", signed(claims{"redirect_uris": []string{}}), "invalid_redirect_uri", "redirect_uris: at least one"},
	}
	f := newFixture(t, trusting(publisher.Public()))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := f.post(t, with(`"software_statement":"`+tt.raw+`"`))
			assertRefused(t, f, a, http.StatusBadRequest, tt.code)
			if d := a.text("error_description"); !strings.Contains(d, tt.says) {
				t.Errorf("it says %q, not %q", d, tt.says)
			}
		})
	}
	f.clock.advance(59 * time.Second)
	if a := f.post(t, with(`"software_statement":"`+signed(claims{"exp": now, "iat": now + 100})+`"`)); a.status != http.StatusCreated {
		t.Errorf("within the leeway: %s", a.raw)
	}
}
