package dcr_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/dcr"
)

// rsaJWK returns an RSA key of so many bits without a private key.
func rsaJWK(bits int, exponent []byte) string {
	modulus := bytes.Repeat([]byte{0xff}, (bits+7)/8)
	modulus[0] >>= (8 - bits%8) % 8
	coded := base64.RawURLEncoding.EncodeToString
	return fmt.Sprintf(`{"kty":"RSA","n":%q,"e":%q}`, coded(modulus), coded(exponent))
}

var usual = []byte{1, 0, 1}

// bounded are RSA keys, with the error for those that are not accepted.
var bounded = map[string]struct{ key, says string }{
	"1024 bits":            {rsaJWK(1024, usual), "its RSA modulus has 1024 bits; 2048 to 4096 are accepted"},
	"2047 bits":            {rsaJWK(2047, usual), "its RSA modulus has 2047 bits"},
	"2048 bits":            {rsaJWK(2048, usual), ""},
	"3072 bits":            {rsaJWK(3072, usual), ""},
	"4096 bits":            {rsaJWK(4096, usual), ""},
	"4097 bits":            {rsaJWK(4097, usual), "its RSA modulus has 4097 bits"},
	"8192 bits":            {rsaJWK(8192, usual), "more than 700 characters; RSA keys of 2048 to 4096 bits are accepted"},
	"20000 bits":           {rsaJWK(20000, usual), "more than 700 characters"},
	"no exponent":          {rsaJWK(2048, nil), "its RSA exponent is not accepted; accepted are odd ones from 3 to 65537"},
	"exponent 1":           {rsaJWK(2048, []byte{1}), "exponent"},
	"exponent 2":           {rsaJWK(2048, []byte{2}), "exponent"},
	"exponent 3":           {rsaJWK(2048, []byte{3}), ""},
	"exponent 17":          {rsaJWK(2048, []byte{17}), ""},
	"65536":                {rsaJWK(2048, []byte{1, 0, 0}), "exponent"},
	"65539":                {rsaJWK(2048, []byte{1, 0, 3}), "exponent"},
	"31 bits":              {rsaJWK(2048, []byte{0x7f, 0xff, 0xff, 0xff}), "exponent"},
	"63 bits":              {rsaJWK(2048, bytes.Repeat([]byte{0x7f}, 8)), "exponent"},
	"cut off it is usual":  {rsaJWK(2048, append([]byte{1, 0, 0, 0, 0, 0, 0, 0}, 0, 1, 0, 1)), "exponent"},
	"as long as the other": {rsaJWK(2048, bytes.Repeat([]byte{0xff}, 256)), "exponent"},
	"thousands of bits":    {rsaJWK(2048, bytes.Repeat([]byte{0xff}, 1024)), "more than 700 characters"},
	"leading zeros":        {rsaJWK(2048, []byte{0, 0, 1, 0, 1}), ""},
}

// TestKeysOfStrangersAreBounded: in a registration, by reference, and in a document, an RSA
// key is accepted within the bounds. Otherwise the error names the fault and what is accepted,
// and no signature is checked with the key.
func TestKeysOfStrangersAreBounded(t *testing.T) {
	for name, test := range bounded {
		t.Run(name, func(t *testing.T) {
			set := `{"keys":[` + test.key + `]}`
			r := newReader(t, nil)
			a := r.post(t, with(assertions(`"jwks":`+set)))
			if test.says == "" && a.status != http.StatusCreated || test.says != "" && (a.status != http.StatusBadRequest || a.text("error") != "invalid_client_metadata") {
				t.Errorf("registration: %d %s", a.status, a.raw)
			}
			if said := a.text("error_description"); !strings.Contains(said, test.says) {
				t.Errorf("registration says %q, not %q", said, test.says)
			}

			members := map[string]any{"token_endpoint_auth_method": "private_key_jwt", "jwks": json.RawMessage(set)}
			id := r.publish("client.example.com", members)
			if test.says == "" {
				r.resolve(t, id)
			} else {
				r.refuses(t, id, test.says)
			}

			s := newSigner(t, "RS256")
			client := s.client()
			client.Metadata.JWKS, client.Metadata.JWKSURI = nil, r.web.URL("keys.example.com", "/jwks.json")
			r.web.Document(client.Metadata.JWKSURI, set)
			err := r.Authenticate(t.Context(), client, s.good(t, r.clock.now()), audiences)
			if !errors.Is(err, dcr.ErrAssertion) || test.says != "" && !strings.Contains(err.Error(), test.says) {
				t.Errorf("by reference: %v, want %q", err, test.says)
			}
			client.Metadata.JWKS = json.RawMessage(set) // as an older release stored it
			err = r.Authenticate(t.Context(), client, s.good(t, r.clock.now()), audiences)
			if !errors.Is(err, dcr.ErrAssertion) || test.says != "" && !strings.Contains(err.Error(), test.says) {
				t.Errorf("by value: %v, want %q", err, test.says)
			}
		})
	}
}

// TestOtherKeysAreJudged: points off the curve, curves that are not accepted and overlong
// numbers are refused, and valid keys in the same set are used.
func TestOtherKeysAreJudged(t *testing.T) {
	for name, test := range map[string]struct{ key, says string }{
		"a point on no curve":  {`{"kty":"EC","crv":"P-256","x":"` + strings.Repeat("A", 43) + `","y":"` + strings.Repeat("A", 43) + `"}`, "its numbers are not those of one"},
		"an endless point":     {`{"kty":"EC","crv":"P-256","x":"` + strings.Repeat("A", 4000) + `","y":"AA"}`, "more than 700 characters"},
		"another curve":        {string(mustJSON(newSigner(t, "ES384").jwk())), "accepted are P-256 with ES256, Ed25519 with EdDSA, and RSA with RS256 or PS256"},
		"for encryption":       {strings.Replace(rsaJWK(2048, usual), `"kty"`, `"use":"enc","kty"`, 1), "its use or key_ops does not allow signatures"},
		"to make signatures":   {strings.Replace(rsaJWK(2048, usual), `"kty"`, `"key_ops":["sign"],"kty"`, 1), "its use or key_ops does not allow signatures"},
		"an exponent of words": {strings.Replace(rsaJWK(2048, usual), "AQAB", "two!", 1), "n or e is not base64url"},
	} {
		a := newReader(t, nil).post(t, with(assertions(`"jwks":{"keys":[`+test.key+`]}`)))
		if said := a.text("error_description"); a.status != http.StatusBadRequest || !strings.Contains(said, test.says) {
			t.Errorf("%s: %d %q, want %q", name, a.status, said, test.says)
		}
		a = newReader(t, nil).post(t, with(assertions(`"jwks":{"keys":[`+test.key+`,`+rsaJWK(2048, usual)+`]}`)))
		if a.status != http.StatusCreated {
			t.Errorf("%s, beside a good one: %d %s", name, a.status, a.raw)
		}
	}
}

func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// TestFewKeysAreTried: at most maxTries keys are tried for one assertion, with equal names
// or without.
func TestFewKeysAreTried(t *testing.T) {
	r := newReader(t, nil)
	s := newSigner(t, "ES256")
	for _, kid := range []string{"", "one"} {
		s.kid = kid
		var others []jose.JSONWebKey
		for range 5 {
			other := newSigner(t, "ES256")
			other.kid = kid
			others = append(others, other.jwk())
		}
		for before, want := range map[int]bool{4: true, 5: false} {
			client := s.client()
			client.Metadata.JWKS = keySet(append(slices.Clone(others[:before]), s.jwk())...)
			if err := r.Authenticate(t.Context(), client, s.good(t, r.clock.now()), audiences); (err == nil) != want {
				t.Errorf("key %q behind %d others: %v", kid, before, err)
			}
		}
	}
}

// TestTrustedStatementIssuers: the keys of statement issuers have the same bounds. New leaves
// others out, and refuses an issuer with none that can be used, or with a private key.
func TestTrustedStatementIssuers(t *testing.T) {
	usable := jose.JSONWebKey{Key: publisher.Public()}
	for name, test := range bounded {
		var key jose.JSONWebKey
		if key.UnmarshalJSON([]byte(test.key)) != nil || len(test.key) > 1000 || name == "cut off it is usual" || name == "as long as the other" {
			continue // no such key can be configured
		}
		if err := trusted(t, key); (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), "RSA key of 2048 to 4096 bits") {
			t.Errorf("%s: %v", name, err)
		}
		if err := trusted(t, key, usable); err != nil {
			t.Errorf("%s, beside a usable key: %v", name, err)
		}
	}
	for name, key := range map[string]any{"private": publisher, "symmetric": []byte("a secret of the issuer")} {
		if err := trusted(t, usable, jose.JSONWebKey{Key: key}); err == nil || !strings.Contains(err.Error(), "not a public key") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// trusted returns the error of New for an issuer of statements with these keys.
func trusted(t *testing.T, keys ...jose.JSONWebKey) error {
	t.Helper()
	_, err := dcr.New(dcr.Config{Store: newFixture(t, nil).store, Endpoint: registerURL, StatementIssuers: []dcr.StatementIssuer{
		{Issuer: "https://issuer.example.org", Keys: jose.JSONWebKeySet{Keys: keys}},
	}})
	return err
}

// BenchmarkDearestKey measures the greatest cost of a client's keys for one assertion: five RSA
// keys of the largest size and exponent.
func BenchmarkDearestKey(b *testing.B) {
	r := newReader(b, nil)
	s := newSigner(b, "RS256")
	client := s.client()
	client.Metadata.JWKS = json.RawMessage(`{"keys":[` + strings.Repeat(strings.Replace(rsaJWK(4096, []byte{0xff, 0xff}), `"kty"`, `"kid":"one","kty"`, 1)+",", 19) + rsaJWK(4096, usual) + `]}`)
	signed := s.good(b, r.clock.now())
	head := signed[:strings.LastIndex(signed, ".")]
	forged := head + "." + base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{0x55}, 512))
	for b.Loop() {
		if err := r.Authenticate(b.Context(), client, forged, audiences); !errors.Is(err, dcr.ErrAssertion) {
			b.Fatal(err)
		}
	}
}
