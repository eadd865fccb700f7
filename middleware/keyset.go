package middleware

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

// parseKeys reads a JWK set (RFC 7517 section 5). Keys that are of no use here are
// ignored, as the RFC wants it; a set without a single useful key is an error.
func parseKeys(data []byte) (map[keyID]*verifyKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	keys, fit := make(map[keyID]*verifyKey, len(set.Keys)), make(map[jose.SignatureAlgorithm][]*verifyKey)
	for _, raw := range set.Keys {
		var jwk jose.JSONWebKey
		if err := jwk.UnmarshalJSON(raw); err != nil || !jwk.Valid() || !jwk.IsPublic() || (jwk.Use != "" && jwk.Use != "sig") {
			continue
		}
		for _, algorithm := range usableWith(jwk.Key) {
			if jwk.Algorithm != "" && jwk.Algorithm != string(algorithm) {
				continue
			}
			id, key := keyID{jwk.KeyID, algorithm}, &verifyKey{public: jwk.Key, algorithm: algorithm}
			fit[algorithm] = append(fit[algorithm], key)
			if _, taken := keys[id]; !taken && jwk.KeyID != "" {
				keys[id] = key
			}
		}
	}
	if len(fit) == 0 {
		return nil, errors.New("key set: it holds no key for ES256, EdDSA, RS256 or PS256")
	}
	for algorithm, all := range fit {
		if len(all) == 1 { // what a token without "kid" is signed with is clear
			keys[keyID{"", algorithm}] = all[0]
		}
	}
	return keys, nil
}

// maxExponent is the largest public exponent of an RSA key that is in use.
const maxExponent = 65537

// usableWith binds each kind of key to its algorithms (RFC 8725 section 3.1).
func usableWith(key any) []jose.SignatureAlgorithm {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			return []jose.SignatureAlgorithm{jose.ES256}
		}
	case ed25519.PublicKey:
		if len(key) == ed25519.PublicKeySize {
			return []jose.SignatureAlgorithm{jose.EdDSA}
		}
	case *rsa.PublicKey:
		// RFC 7518 section 3.3: a key of 2048 bits or larger MUST be used. Every bit makes
		// checking slower, so there is a most: what is in use.
		bits := key.N.BitLen()
		if bits >= 2048 && bits <= 4096 && key.E >= 3 && key.E <= maxExponent && key.E%2 == 1 {
			return []jose.SignatureAlgorithm{jose.RS256, jose.PS256}
		}
	}
	return nil
}
