package keyring

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"gatehouse.example/storage"
)

// signer makes JWS in the compact serialization (RFC 7515 section 7.1) with one key. All its tokens
// have the same header, which is encoded once.
type signer struct {
	header string // encoded, with the dot behind it
	sign   func(input []byte) (signature []byte, err error)
}

// newSigner returns the signer of an active key.
func newSigner(store *storage.Store, k storage.SigningKey) (*signer, error) {
	private, err := open(store, k)
	if err != nil {
		return nil, err
	}
	header, err := json.Marshal(struct {
		Algorithm string `json:"alg"`
		KeyID     string `json:"kid"`
		Type      string `json:"typ"` // RFC 9068 section 2.1: the typ header MUST be at+jwt
	}{private.Algorithm, private.KeyID, accessTokenType})
	if err != nil {
		return nil, err
	}
	sign, err := signature(jose.SignatureAlgorithm(private.Algorithm), private.Key)
	return &signer{base64.RawURLEncoding.EncodeToString(header) + ".", sign}, err
}

// signature returns the function that signs with a key (RFC 7518 section 3, RFC 8037 section 3.1). A
// key that is not one of the algorithm is an error.
func signature(algorithm jose.SignatureAlgorithm, key any) (func([]byte) ([]byte, error), error) {
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		if algorithm == jose.ES256 && key.Curve == elliptic.P256() {
			return func(input []byte) ([]byte, error) { return signES256(key, input) }, nil
		}
	case ed25519.PrivateKey:
		if algorithm == jose.EdDSA {
			return func(input []byte) ([]byte, error) { return ed25519.Sign(key, input), nil }, nil
		}
	case *rsa.PrivateKey:
		if algorithm == jose.RS256 {
			return func(input []byte) ([]byte, error) {
				sum := sha256.Sum256(input)
				return rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
			}, nil
		}
	}
	return nil, fmt.Errorf("a key of type %T does not sign with %q: %w", key, algorithm, storage.ErrRecord)
}

// signES256 returns r and s of a signature as 32 bytes each (RFC 7518 section 3.4). Its secret number
// comes from the key and the token (RFC 6979 section 3.2) and not from a source of chance, which takes
// a quarter less time. Whoever wanted to learn the key from a fault of the processor would need two
// signatures of one token, and no two tokens are equal: each has an id of its own.
func signES256(key *ecdsa.PrivateKey, input []byte) ([]byte, error) {
	sum := sha256.Sum256(input)
	der, err := key.Sign(nil, sum[:], crypto.SHA256) // no source of chance: RFC 6979
	if err != nil {
		return nil, err
	}
	var numbers cryptobyte.String
	var r, s []byte
	read := cryptobyte.String(der)
	if !read.ReadASN1(&numbers, asn1.SEQUENCE) || !numbers.ReadASN1Integer(&r) || !numbers.ReadASN1Integer(&s) {
		return nil, errors.New("a signature that is not a sequence of two numbers")
	}
	out := make([]byte, 64)
	copy(out[32-len(r):], r)
	copy(out[64-len(s):], s)
	return out, nil
}

// compact returns the JWS of a payload.
func (s *signer) compact(payload []byte) (string, error) {
	const longest = 256 // bytes of a signature with RSA and 2048 bits
	size := len(s.header) + base64.RawURLEncoding.EncodedLen(len(payload)) + 1 + base64.RawURLEncoding.EncodedLen(longest)
	token := append(make([]byte, 0, size), s.header...)
	token = base64.RawURLEncoding.AppendEncode(token, payload)
	signature, err := s.sign(token)
	if err != nil {
		return "", err
	}
	token = base64.RawURLEncoding.AppendEncode(append(token, '.'), signature)
	return string(token), nil
}
