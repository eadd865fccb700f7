package middleware

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

// parseKeys reads a JWK set (RFC 7517 section 5). It ignores keys that the guard cannot use with
// one of the algorithms, as the RFC demands; a set without a usable key is an error.
func parseKeys(data []byte, algorithms []jose.SignatureAlgorithm) (map[keyID]*verifyKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	keys, usable := make(map[keyID]*verifyKey, len(set.Keys)), make(map[jose.SignatureAlgorithm][]*verifyKey)
	for _, raw := range set.Keys {
		kid, of := verifyKeys(raw, algorithms)
		for _, key := range of {
			usable[key.algorithm] = append(usable[key.algorithm], key)
			id := keyID{kid, key.algorithm}
			if _, taken := keys[id]; !taken && kid != "" {
				keys[id] = key
			}
		}
	}
	if len(usable) == 0 {
		return nil, fmt.Errorf("key set: it holds no public key for %v", algorithms)
	}
	for algorithm, all := range usable {
		if len(all) == 1 { // the only key that can have signed a token without "kid"
			keys[keyID{"", algorithm}] = all[0]
		}
	}
	return keys, nil
}

// verifyKeys reads a JWK. It returns its "kid" and a key for each of the algorithms that it can be
// used with, none for a JWK that is not a valid public key for signatures.
func verifyKeys(raw []byte, algorithms []jose.SignatureAlgorithm) (kid string, keys []*verifyKey) {
	var jwk jose.JSONWebKey
	if err := jwk.UnmarshalJSON(raw); err != nil || !jwk.Valid() || !jwk.IsPublic() || (jwk.Use != "" && jwk.Use != "sig") {
		return "", nil
	}
	for _, algorithm := range usableWith(jwk.Key) {
		if slices.Contains(algorithms, algorithm) && (jwk.Algorithm == "" || jwk.Algorithm == string(algorithm)) {
			keys = append(keys, &verifyKey{public: jwk.Key, algorithm: algorithm})
		}
	}
	return jwk.KeyID, keys
}

// maxExponent is the largest public exponent of an RSA key that is accepted: the largest one in
// common use.
const maxExponent = 65537

// usableWith returns the algorithms for a kind of key (RFC 8725 section 3.1).
func usableWith(key any) []jose.SignatureAlgorithm {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if algorithm := curveAlgorithm(key.Curve); algorithm != "" {
			return []jose.SignatureAlgorithm{algorithm}
		}
	case ed25519.PublicKey:
		if len(key) == ed25519.PublicKeySize {
			return []jose.SignatureAlgorithm{jose.EdDSA}
		}
	case *rsa.PublicKey:
		// RFC 7518 section 3.3: a key of 2048 bits or larger MUST be used. Every bit makes
		// verification slower, so there is an upper bound: the largest size in common use.
		bits := key.N.BitLen()
		if bits >= 2048 && bits <= 4096 && key.E >= 3 && key.E <= maxExponent && key.E%2 == 1 {
			return slices.Concat(pkcs1Algorithms, pssAlgorithms)
		}
	}
	return nil
}
