package middlewaretest

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// ProofKey is the key of a client for DPoP (RFC 9449): tokens are bound to it, and it signs proofs.
//
//	key := middlewaretest.NewProofKey(t, jose.ES256)
//	token := issuer.Mint(middlewaretest.Claims{"aud": resource, "cnf": key.Confirmation()})
//	key.Send(request, resource, token, nil)
type ProofKey struct {
	t   testing.TB
	key jose.JSONWebKey // private
}

// NewProofKey returns a new key for an algorithm that [NewKey] knows.
func NewProofKey(t testing.TB, algorithm jose.SignatureAlgorithm) *ProofKey {
	t.Helper()
	return &ProofKey{t, jose.JSONWebKey{Key: NewKey(t, algorithm), Algorithm: string(algorithm)}}
}

// Thumbprint returns the SHA-256 thumbprint of the key in base64url (RFC 7638).
func (k *ProofKey) Thumbprint() string {
	k.t.Helper()
	sum, err := k.key.Thumbprint(crypto.SHA256)
	if err != nil {
		k.t.Fatalf("middlewaretest: %v", err)
	}
	return base64.RawURLEncoding.EncodeToString(sum)
}

// Confirmation returns the value of "cnf" in tokens that are bound to the key.
func (k *ProofKey) Confirmation() map[string]any { return map[string]any{"jkt": k.Thumbprint()} }

// Public returns the value of "jwk" in proofs.
func (k *ProofKey) Public() jose.JSONWebKey { return jose.JSONWebKey{Key: k.key.Public().Key} }

// Prove returns a proof for a request with a token. Without overrides it has jti, htm, htu, iat and
// ath; a nil value removes one.
func (k *ProofKey) Prove(method, url, token string, overrides Claims) string {
	k.t.Helper()
	sum := sha256.Sum256([]byte(token))
	claims := Claims{
		"jti": rand.Text(), "htm": method, "htu": url, "iat": time.Now().Unix(),
		"ath": base64.RawURLEncoding.EncodeToString(sum[:]),
	}
	maps.Copy(claims, overrides)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	payload, err := json.Marshal(claims)
	if err != nil {
		k.t.Fatalf("middlewaretest: %v", err)
	}
	return k.Sign(payload, nil)
}

// Sign returns a JWT with a payload that need not be that of a proof, to test that a server refuses
// it. Members replace those of the header of a proof, typ and jwk.
func (k *ProofKey) Sign(payload []byte, members map[string]any) string {
	k.t.Helper()
	header := map[jose.HeaderKey]any{"typ": "dpop+jwt", "jwk": k.Public()}
	for name, value := range members {
		header[jose.HeaderKey(name)] = value
	}
	return signWith(k.t, k.key, payload, header)
}

// Send sets the headers of a request with a token and a proof for it.
func (k *ProofKey) Send(r *http.Request, url, token string, overrides Claims) {
	k.t.Helper()
	r.Header.Set("Authorization", "DPoP "+token)
	r.Header.Set("DPoP", k.Prove(r.Method, url, token, overrides))
}
