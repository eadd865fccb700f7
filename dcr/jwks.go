package dcr

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/storage"
)

const (
	// maxKeySet bounds a key set by reference in bytes.
	maxKeySet = 64 << 10
	// keyRenewal is the least time after which a key set is read again because a key is not
	// in it.
	keyRenewal = time.Minute
)

// keysOf returns the keys that the assertions of a client may be signed with. Keys by
// reference were read at most atMost ago.
func (cs *Clients) keysOf(ctx context.Context, c storage.Client, atMost time.Duration) ([]jose.JSONWebKey, error) {
	switch {
	case !absent(c.Metadata.JWKS):
		return readKeys("", c.Metadata.JWKS)
	case c.Metadata.JWKSURI == "":
		return nil, &unusable{"the client has no keys"}
	case cs.keySets == nil:
		return nil, &unusable{"keys are not read by reference here"}
	}
	return cs.keySets.get(ctx, c.Metadata.JWKSURI, atMost)
}

// readKeys parses a key set (RFC 7517 section 5). A set with a private key is refused as a
// whole, because any reader of it can sign. Keys that cannot sign assertions are left out.
func readKeys(_ string, raw []byte) ([]jose.JSONWebKey, error) {
	all, err := publicKeys(raw)
	if err != nil {
		return nil, asUnusable(err)
	}
	var usable []jose.JSONWebKey
	why := "there is none"
	for _, raw := range all {
		key, fault := verifyingKey(raw)
		if fault == "" {
			usable = append(usable, key)
		} else {
			why = fault
		}
	}
	if len(usable) == 0 {
		return nil, &unusable{"jwks: no key fits: " + why}
	}
	return usable, nil
}

const (
	// minModulus is the least size of an RSA key in bits (RFC 7518 section 3.3). The time to
	// check a signature grows with modulus and exponent, and the client chooses both, so
	// neither may be larger than is in use.
	minModulus  = 2048
	maxModulus  = 4096
	maxExponent = 65537
	// maxMember bounds a number in a key, in characters: the largest modulus, and a little
	// for leading zeros.
	maxMember = 700
)

// keyMembers are the members of a JSON Web Key that are used (RFC 7517 section 4, RFC 7518
// section 6, RFC 8037 section 2).
type keyMembers struct {
	Type      string   `json:"kty"`
	ID        string   `json:"kid,omitempty"`
	Use       string   `json:"use,omitempty"`
	KeyOps    []string `json:"key_ops,omitempty"`
	Algorithm string   `json:"alg,omitempty"`
	Curve     string   `json:"crv,omitempty"`
	X         string   `json:"x,omitempty"`
	Y         string   `json:"y,omitempty"`
	N         string   `json:"n,omitempty"`
	E         string   `json:"e,omitempty"`
}

// verifyingKey returns a parsed key, or why assertions may not be signed with it. It ignores
// certificates and their addresses.
func verifyingKey(raw json.RawMessage) (key jose.JSONWebKey, why string) {
	var members keyMembers
	if strictjson.Unmarshal(raw, &members, strictjson.Options{MaxBytes: maxKeySet}) != nil {
		return key, "it is not a JSON Web Key"
	}
	if why := members.wrong(); why != "" {
		return key, why
	}
	members.KeyOps = nil
	raw, err := json.Marshal(members)
	if err != nil || key.UnmarshalJSON(raw) != nil || !key.IsPublic() {
		return key, "it is not a public key: its numbers are not those of one"
	}
	if len(algorithmsOf(key)) == 0 {
		return key, "its alg or crv is not accepted; accepted are P-256 with ES256, Ed25519 with EdDSA, and RSA with RS256 or PS256"
	}
	return key, ""
}

// wrong returns why a key is not accepted, as far as that can be seen without computing with
// it, or "" if nothing is wrong.
func (m keyMembers) wrong() string {
	switch {
	case m.Use != "" && m.Use != "sig", len(m.KeyOps) > 0 && !slices.Contains(m.KeyOps, "verify"):
		return "its use or key_ops does not allow signatures"
	case len(m.X) > maxMember || len(m.Y) > maxMember || len(m.N) > maxMember || len(m.E) > maxMember:
		return fmt.Sprintf("a number in it has more than %d characters; RSA keys of %d to %d bits are accepted", maxMember, minModulus, maxModulus)
	case m.Type != "RSA":
		return ""
	}
	n, wrongN := base64.RawURLEncoding.DecodeString(m.N)
	e, wrongE := base64.RawURLEncoding.DecodeString(m.E)
	if wrongN != nil || wrongE != nil {
		return "n or e is not base64url"
	}
	return wrongRSA(new(big.Int).SetBytes(n).BitLen(), new(big.Int).SetBytes(e))
}

// wrongRSA returns why an RSA key with a modulus of so many bits and the exponent e is not
// accepted, or "" if it is.
func wrongRSA(bits int, e *big.Int) string {
	switch {
	case bits < minModulus || bits > maxModulus:
		return fmt.Sprintf("its RSA modulus has %d bits; %d to %d are accepted", bits, minModulus, maxModulus)
	case e.BitLen() > 32 || e.Bit(0) == 0 || e.Int64() < 3 || e.Int64() > maxExponent:
		return fmt.Sprintf("its RSA exponent is not accepted; accepted are odd ones from 3 to %d", maxExponent)
	}
	return ""
}
