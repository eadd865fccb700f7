package dcr

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/metadata"
)

// privateMembers are the members of a JSON Web Key that contain secrets: RFC 7518 sections
// 6.2.2, 6.3.2 and 6.4.1, RFC 8037 section 2, and the key type AKP.
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"}

// maxKeys bounds the keys of a client.
const maxKeys = 20

// signingAlgorithm registers the only algorithm of the client's assertions, if it names one.
// It is left out for other authentication methods than private_key_jwt.
func signingAlgorithm(asked metadata.Client, m *metadata.Client) error {
	alg := asked.TokenEndpointAuthSigningAlg
	if alg == "" || m.TokenEndpointAuthMethod != metadata.AuthMethodPrivateKeyJWT {
		return nil
	}
	supported := AssertionAlgorithms()
	if !slices.Contains(supported, alg) {
		return invalidMetadata("token_endpoint_auth_signing_alg", "%.64q is not supported; supported are %s", alg, strings.Join(supported, ", "))
	}
	m.TokenEndpointAuthSigningAlg = alg
	return nil
}

// keys checks the public keys of a client and registers them if it authenticates with them.
// Mistakes are errors for other methods too, above all a private key, which the client must
// replace once it was sent.
func keys(asked metadata.Client, m *metadata.Client) error {
	needed := m.TokenEndpointAuthMethod == metadata.AuthMethodPrivateKeyJWT
	switch {
	case !absent(asked.JWKS) && asked.JWKSURI != "":
		// RFC 7591 section 2: jwks_uri and jwks MUST NOT both be present.
		return invalidMetadata("jwks", "use either jwks or jwks_uri")
	case !absent(asked.JWKS):
		all, err := publicKeys(asked.JWKS)
		if err == nil && needed {
			m.JWKS, err = usableKeys(all, m.TokenEndpointAuthSigningAlg)
		}
		return err
	case asked.JWKSURI == "" && needed:
		return invalidMetadata("jwks", "private_key_jwt needs the client's public keys: send jwks or jwks_uri")
	}
	if why := refusesLink(asked.JWKSURI, false); why != "" {
		return invalidMetadata("jwks_uri", "%s", why)
	}
	if needed {
		m.JWKSURI = asked.JWKSURI
	}
	return nil
}

// keySet is a JSON Web Key Set (RFC 7517 section 5) whose keys are not parsed.
type keySet struct {
	Keys []json.RawMessage `json:"keys"`
}

// publicKeys returns the keys of a key set. A set with anything but public keys is an error.
func publicKeys(raw json.RawMessage) ([]json.RawMessage, error) {
	var set keySet
	if err := strictjson.Unmarshal(raw, &set, strictjson.Options{MaxBytes: maxBody}); err != nil || len(set.Keys) == 0 {
		return nil, invalidMetadata("jwks", "it must be an object with an array of keys (RFC 7517 section 5)")
	}
	if len(set.Keys) > maxKeys {
		return nil, invalidMetadata("jwks", "there are more than %d keys", maxKeys)
	}
	for i, raw := range set.Keys {
		if err := publicKey(fmt.Sprintf("jwks.keys[%d]", i), raw); err != nil {
			return nil, err
		}
	}
	return set.Keys, nil
}

func publicKey(member string, raw json.RawMessage) error {
	var key map[string]json.RawMessage
	if json.Unmarshal(raw, &key) != nil {
		return invalidMetadata("jwks", "it must be an object with an array of keys (RFC 7517 section 5)")
	}
	var kty string
	if json.Unmarshal(key["kty"], &kty) != nil || kty == "" {
		return invalidMetadata(member, "it has no kty")
	}
	secret := slices.ContainsFunc(privateMembers, func(name string) bool { return key[name] != nil })
	if kty == "oct" || secret {
		return invalidMetadata(member, "it is a private or symmetric key; send public keys only and stop using this one")
	}
	return nil
}

// usableKeys returns a set of the keys that can sign assertions with alg, or with any
// accepted algorithm if alg is empty. Others are left out (RFC 7517 section 5).
func usableKeys(all []json.RawMessage, alg string) (json.RawMessage, error) {
	var set keySet
	var why []string
	for i, raw := range all {
		key, fault := verifyingKey(raw)
		if fault == "" && alg != "" && !slices.Contains(algorithmsOf(key), alg) {
			fault = "it does not fit token_endpoint_auth_signing_alg " + alg
		}
		if fault == "" {
			set.Keys = append(set.Keys, raw)
		} else if len(why) < 3 {
			why = append(why, fmt.Sprintf("jwks.keys[%d]: %s", i, fault))
		}
	}
	if len(set.Keys) == 0 {
		return nil, invalidMetadata("jwks", "no key fits: %s", strings.Join(why, "; "))
	}
	return json.Marshal(set)
}

// algorithmsOf returns the algorithms that a public key can verify; none for a key that is
// not accepted.
func algorithmsOf(key jose.JSONWebKey) []string {
	var algs []string
	switch k := key.Key.(type) {
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			algs = []string{string(jose.ES256)}
		}
	case ed25519.PublicKey:
		algs = []string{string(jose.EdDSA)}
	case *rsa.PublicKey:
		if wrongRSA(k.N.BitLen(), big.NewInt(int64(k.E))) == "" {
			algs = []string{string(jose.RS256), string(jose.PS256)}
		}
	}
	if !key.Valid() {
		return nil
	}
	if key.Algorithm != "" {
		algs = slices.DeleteFunc(algs, func(alg string) bool { return alg != key.Algorithm })
	}
	return algs
}
