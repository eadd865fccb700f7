package dcr_test

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

const (
	issuerURL = "https://auth.example.com"
	tokenURL  = "https://auth.example.com/token"
)

var audiences = []string{issuerURL, tokenURL}

// signer is a client with a key.
type signer struct {
	id, kid, alg string
	key          crypto.Signer
	salt         int // of PS256, in bytes; 0 for as long as the hash
}

func newSigner(t testing.TB, alg string) signer {
	t.Helper()
	s := signer{id: "signing-client", kid: "one", alg: alg}
	var err error
	switch alg {
	case "ES256":
		s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		s.key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "EdDSA":
		_, s.key, err = ed25519.GenerateKey(rand.Reader)
	default:
		s.key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s signer) jwk() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.kid, Use: "sig"}
}

func keySet(keys ...jose.JSONWebKey) json.RawMessage {
	raw, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		panic(err)
	}
	return raw
}

func (s signer) client() storage.Client {
	return storage.Client{ID: s.id, Source: storage.ClientRegistered, Metadata: metadata.Client{
		TokenEndpointAuthMethod: metadata.AuthMethodPrivateKeyJWT, JWKS: keySet(s.jwk()),
	}}
}

var serials atomic.Int64

// claims returns the claims of a valid assertion at a time, with a unique jti.
func (s signer) claims(now time.Time) map[string]any {
	return map[string]any{
		"iss": s.id, "sub": s.id, "aud": tokenURL, "exp": now.Unix() + 60, "iat": now.Unix(), "nbf": now.Unix(), "jti": fmt.Sprint("jti-", serials.Add(1)),
	}
}

// sign returns a JWT. A nil value leaves a member out.
func (s signer) sign(t testing.TB, claims, header map[string]any) string {
	t.Helper()
	drop := func(_ string, v any) bool { return v == nil }
	maps.DeleteFunc(claims, drop)
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return s.signRaw(t, payload, header)
}

func (s signer) signRaw(t testing.TB, payload []byte, header map[string]any) string {
	t.Helper()
	protected := map[string]any{"alg": s.alg, "kid": s.kid, "typ": "JWT"}
	maps.Copy(protected, header)
	maps.DeleteFunc(protected, func(_ string, v any) bool { return v == nil })
	raw, err := json.Marshal(protected)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	input := encode(raw) + "." + encode(payload)
	return input + "." + encode(s.signature(t, input))
}

func (s signer) signature(t testing.TB, input string) []byte {
	t.Helper()
	if s.alg == "EdDSA" {
		return ed25519.Sign(s.key.(ed25519.PrivateKey), []byte(input))
	}
	hash := crypto.SHA256.New()
	hash.Write([]byte(input))
	sum := hash.Sum(nil)
	var signature []byte
	var err error
	switch key := s.key.(type) {
	case *ecdsa.PrivateKey:
		r, v, signError := ecdsa.Sign(rand.Reader, key, sum)
		if signError != nil {
			t.Fatal(signError)
		}
		size := (key.Params().BitSize + 7) / 8
		signature = append(r.FillBytes(make([]byte, size)), v.FillBytes(make([]byte, size))...)
	case *rsa.PrivateKey:
		if s.alg == "PS256" {
			signature, err = rsa.SignPSS(rand.Reader, key, crypto.SHA256, sum, &rsa.PSSOptions{SaltLength: cmp.Or(s.salt, rsa.PSSSaltLengthEqualsHash)})
		} else {
			signature, err = rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

func (s signer) good(t testing.TB, now time.Time) string {
	return s.sign(t, s.claims(now), nil)
}
