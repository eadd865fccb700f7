package trail

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// Key is a key under which lines are chained.
type Key struct {
	name   string
	secret []byte
}

// minSecret is the least size of the secret of a key, in bytes.
const minSecret = 32

// NewKey derives a key from a secret of at least 32 bytes by HKDF-SHA-256 (RFC 5869). Context
// separates the users of one secret: the issuer of a server with its master key.
func NewKey(secret []byte, context string) (Key, error) {
	if len(secret) < minSecret {
		return Key{}, fmt.Errorf("trail: a key of %d bytes: it must have at least %d", len(secret), minSecret)
	}
	derived, err := hkdf.Key(sha256.New, secret, nil, "gatehouse audit chain 1\x00"+context, sha256.Size)
	if err != nil {
		return Key{}, errors.New("trail: the key cannot be derived")
	}
	name := sha256.Sum256(append([]byte("gatehouse audit key name\x00"), derived...))
	return Key{name: hex.EncodeToString(name[:4]), secret: derived}, nil
}

// Name returns a short name by which a file says which key it is under. It reveals nothing about
// the key.
func (k Key) Name() string { return k.name }

// mac is an HMAC-SHA-256 (RFC 2104), or without a key a SHA-256, cut to 128 bits.
type mac [16]byte

func (m mac) String() string { return hex.EncodeToString(m[:]) }

// sum returns the MAC of a text. A nil key makes a hash.
func (k *Key) sum(text []byte) mac {
	if k == nil {
		all := sha256.Sum256(text)
		return mac(all[:16])
	}
	h := hmac.New(sha256.New, k.secret)
	h.Write(text)
	return mac(h.Sum(nil)[:16])
}
