package middlewaretest

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"maps"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Claims override the claims of a token. A nil value removes one.
type Claims map[string]any

// Mint returns a signed access token. Without overrides it has iss, sub "reader",
// client_id "client", a random jti, and is valid for five minutes from now; it has no
// aud and no scope.
func (i *Issuer) Mint(overrides Claims) string {
	i.t.Helper()
	claims := i.claims(overrides)
	token := i.mint(claims)
	i.activate(token, claims)
	return token
}

// MintRaw returns a signed access token with a payload that need not be JSON, to test that a
// resource server refuses it.
func (i *Issuer) MintRaw(payload string) string {
	i.t.Helper()
	return i.sign([]byte(payload), i.header(nil))
}

// mint signs claims. It does not make the token active for introspection.
func (i *Issuer) mint(claims Claims) string {
	i.t.Helper()
	return i.MintRaw(string(i.payload(claims)))
}

func (i *Issuer) claims(overrides Claims) Claims {
	now := time.Now()
	claims := Claims{
		"iss":       i.URL(),
		"sub":       "reader",
		"client_id": "client",
		"jti":       rand.Text(),
		"iat":       now.Unix(),
		"exp":       now.Add(5 * time.Minute).Unix(),
	}
	maps.Copy(claims, overrides)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

// sign signs a payload with the issuer's key, and adds alg and kid to the header.
func (i *Issuer) sign(payload []byte, header map[jose.HeaderKey]any) string {
	i.t.Helper()
	i.mu.Lock()
	key := i.keys[0]
	i.mu.Unlock()
	return signWith(i.t, key, payload, header)
}

func signWith(t testing.TB, key jose.JSONWebKey, payload []byte, header map[jose.HeaderKey]any) string {
	t.Helper()
	options := &jose.SignerOptions{ExtraHeaders: header}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, options)
	if err != nil {
		t.Fatalf("middlewaretest: %v", err)
	}
	jws, err := signer.Sign(payload)
	if err != nil {
		t.Fatalf("middlewaretest: %v", err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		t.Fatalf("middlewaretest: %v", err)
	}
	return token
}

// NewKey returns a new private key for an algorithm, for [Issuer.SetKeys]: for one of ECDSA or RSA
// in RFC 7518, or for EdDSA, with Ed25519. It fails the test for any other algorithm.
func NewKey(t testing.TB, algorithm jose.SignatureAlgorithm) any {
	t.Helper()
	var key any
	var err error
	switch algorithm {
	case jose.ES256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.ES384:
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case jose.ES512:
		key, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case jose.EdDSA:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		t.Fatalf("middlewaretest: there is no key for %s", algorithm)
	}
	if err != nil {
		t.Fatalf("middlewaretest: %v", err)
	}
	return key
}
