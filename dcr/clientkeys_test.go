package dcr_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/dcr"
)

// TestWeakKeys: keys that are too short or of another curve are not accepted.
func TestWeakKeys(t *testing.T) {
	f := newFixture(t, nil)
	for name, s := range map[string]signer{"a curve": newSigner(t, "ES384"), "a short key": shortSigner(t)} {
		if s.alg == "ES384" {
			s.alg = "ES256"
		}
		if err := f.Authenticate(t.Context(), s.client(), s.good(t, f.clock.now()), audiences); !errors.Is(err, dcr.ErrAssertion) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func shortSigner(t *testing.T) signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	return signer{id: "signing-client", kid: "one", alg: "RS256", key: key}
}

// TestKeysByReference: keys are fetched once, cached for as long as their host allows but at
// most an hour, and fetched again for an unknown key, at most once a minute.
func TestKeysByReference(t *testing.T) {
	r := newReader(t, nil)
	one, two := newSigner(t, "RS256"), newSigner(t, "RS256")
	two.kid = "two"
	uri := r.web.URL("client.example.com", "/jwks.json")
	client := one.client()
	client.Metadata.JWKS, client.Metadata.JWKSURI = nil, uri
	check := func(s signer, ok bool, hits int) {
		t.Helper()
		err := r.Authenticate(t.Context(), client, s.good(t, r.clock.now()), audiences)
		if ok != (err == nil) || !ok && !errors.Is(err, dcr.ErrAssertion) {
			t.Errorf("error %v", err)
		}
		if n := r.web.Hits(uri); n != hits {
			t.Errorf("%d requests, want %d", n, hits)
		}
	}
	serve := func(keys ...jose.JSONWebKey) {
		r.web.Document(uri, string(keySet(keys...)), "Content-Type: application/jwk-set+json", "Cache-Control: max-age=31536000")
	}
	serve(one.jwk())
	check(one, true, 1)
	check(one, true, 1)
	check(two, false, 1) // an unknown kid, and the keys are fresh
	r.clock.advance(time.Minute)
	for range 20 {
		check(two, false, 2)
	}
	serve(one.jwk(), two.jwk())
	r.clock.advance(time.Minute)
	check(two, true, 3)
	serve(two.jwk())
	check(one, true, 3)
	r.clock.advance(time.Hour)
	check(one, false, 4)
	bad := two
	bad.key = one.key
	r.clock.advance(time.Minute)
	check(bad, false, 4) // the key is known, so no other can be meant
	bad.kid = ""
	check(bad, false, 5) // it may be a new key
	check(bad, false, 5)
	two.kid = ""
	check(two, true, 5)
}

func TestKeysThatCannotBeRead(t *testing.T) {
	r := newReader(t, nil)
	s := newSigner(t, "ES256")
	uri := r.web.URL("client.example.com", "/jwks.json")
	client := s.client()
	set := string(client.Metadata.JWKS)
	client.Metadata.JWKS, client.Metadata.JWKSURI = nil, uri
	authenticate := func() error {
		return r.Authenticate(t.Context(), client, s.good(t, r.clock.now()), audiences)
	}
	var many []jose.JSONWebKey
	for range 30 {
		many = append(many, s.jwk())
	}
	private, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{s.jwk(), {Key: s.key, KeyID: "two"}}})
	for name, body := range map[string]string{
		"not found": "", "no set": `[]`, "no keys": `{"keys":[]}`, "a private key": string(private), "too many": string(keySet(many...)),
		"too large": `{"x":"` + strings.Repeat("x", 65<<10) + `","keys":[]}`, "twice": `{"keys":[],` + set[1:],
	} {
		if body != "" {
			r.web.Document(uri, body)
		}
		r.clock.advance(5 * time.Second) // failureTime
		if err := authenticate(); !errors.Is(err, dcr.ErrAssertion) || errors.Is(err, dcr.ErrUnreachable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.web.Serve(uri, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	r.clock.advance(5 * time.Second)
	if err := authenticate(); !errors.Is(err, dcr.ErrUnreachable) || errors.Is(err, dcr.ErrAssertion) {
		t.Errorf("error %v", err)
	}
	if n := r.backend.writes.Load(); n != 0 {
		t.Errorf("%d writes", n)
	}
	r.web.Document(uri, set)
	r.clock.advance(5 * time.Second)
	if err := authenticate(); err != nil {
		t.Error(err)
	}
}

// TestKeysWithCertificates: certificates in a key set are ignored, also invalid ones, and so
// are keys of other kinds.
func TestKeysWithCertificates(t *testing.T) {
	r := newReader(t, nil)
	s := newSigner(t, "ES256")
	raw, _ := json.Marshal(s.jwk())
	key := strings.TrimSuffix(string(raw), "}") + `,"x5c":["AAAA"],"x5t":"x","x5u":"https://169.254.169.254/","key_ops":["verify"],"other":{}}`
	set := `{"keys":[{"kty":"XYZ","kid":"one"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA","kid":"one"},{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA","kid":"one"},{"kty":"OKP","crv":"X25519","x":"AAAA","kid":"one"},
		{"kty":"OKP","crv":"Ed25519","x":"AAAA","kid":"one"},{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"one"},{"kty":"RSA","n":"","e":"","kid":"one"},` + key + `]}`
	client := s.client()
	client.Metadata.JWKS = json.RawMessage(set)
	if err := r.Authenticate(t.Context(), client, s.good(t, r.clock.now()), audiences); err != nil {
		t.Error(err)
	}
}
