package middleware

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// Sizes that buffers on the stack need, in bytes.
const (
	maxHash     = sha512.Size         // the longest hash of a signature algorithm
	maxSequence = 3 + 2*(3+(521+7)/8) // the longest ASN.1 form of a signature by ECDSA: R and S of P-521
)

// hashOf returns the hash of an algorithm for ECDSA or RSA (RFC 7518 section 3.1).
func hashOf(algorithm jose.SignatureAlgorithm) crypto.Hash {
	switch algorithm {
	case jose.ES256, jose.RS256, jose.PS256:
		return crypto.SHA256
	case jose.ES384, jose.RS384, jose.PS384:
		return crypto.SHA384
	}
	return crypto.SHA512
}

// sumOf appends the hash of an input.
func sumOf(hash crypto.Hash, to, input []byte) []byte {
	switch hash {
	case crypto.SHA256:
		sum := sha256.Sum256(input)
		return append(to, sum[:]...)
	case crypto.SHA384:
		sum := sha512.Sum384(input)
		return append(to, sum[:]...)
	}
	sum := sha512.Sum512(input)
	return append(to, sum[:]...)
}

// signed reports whether a signature was made with this key and its algorithm. The input is the
// encoded header, a dot and the encoded payload (RFC 7515 section 5.2).
func (k *verifyKey) signed(input, signature []byte) bool {
	switch key := k.public.(type) {
	case *ecdsa.PublicKey:
		return k.algorithm == curveAlgorithm(key.Curve) && signedECDSA(key, k.algorithm, input, signature)
	case ed25519.PublicKey:
		// RFC 8037 section 3.1: Ed25519 signs the input itself.
		return k.algorithm == jose.EdDSA && len(signature) == ed25519.SignatureSize && ed25519.Verify(key, input, signature)
	case *rsa.PublicKey:
		return signedRSA(key, k.algorithm, input, signature)
	}
	return false
}

// curveAlgorithm returns the only algorithm for keys of a curve (RFC 7518 section 3.4), "" for
// an unknown curve.
func curveAlgorithm(curve elliptic.Curve) jose.SignatureAlgorithm {
	switch curve {
	case elliptic.P256():
		return jose.ES256
	case elliptic.P384():
		return jose.ES384
	case elliptic.P521():
		return jose.ES512
	}
	return ""
}

// signedECDSA verifies a signature of R and S, each in as many bytes as the order of the curve
// has: 32, 48 or 66 (RFC 7518 section 3.4).
func signedECDSA(key *ecdsa.PublicKey, algorithm jose.SignatureAlgorithm, input, signature []byte) bool {
	size := (key.Curve.Params().BitSize + 7) / 8
	if len(signature) != 2*size {
		return false
	}
	sum := sumOf(hashOf(algorithm), make([]byte, 0, maxHash), input)
	der := appendInteger(make([]byte, 3, maxSequence), signature[:size])
	der = appendInteger(der, signature[size:])
	return ecdsa.VerifyASN1(key, sum, asSequence(der))
}

// asSequence writes the head of an ASN.1 SEQUENCE in DER into the first three bytes, which are
// reserved for it, and returns the sequence. Its length takes one byte below 128, else two.
func asSequence(der []byte) []byte {
	length := len(der) - 3
	if length < 0x80 {
		der = der[1:]
		der[0], der[1] = 0x30, byte(length)
		return der
	}
	der[0], der[1], der[2] = 0x30, 0x81, byte(length)
	return der
}

// appendInteger appends an unsigned number as an ASN.1 INTEGER in DER: without leading zeros,
// but with one if the number would be negative otherwise.
func appendInteger(der, number []byte) []byte {
	number = bytes.TrimLeft(number, "\x00")
	if len(number) == 0 || number[0]&0x80 != 0 {
		der = append(der, 0x02, byte(len(number)+1), 0)
	} else {
		der = append(der, 0x02, byte(len(number)))
	}
	return append(der, number...)
}

var (
	pkcs1Algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512}
	pssAlgorithms   = []jose.SignatureAlgorithm{jose.PS256, jose.PS384, jose.PS512}
)

// signedRSA verifies RS256, RS384 and RS512 (RFC 7518 section 3.3), and PS256, PS384 and PS512
// (section 3.5: the salt is as long as the hash).
func signedRSA(key *rsa.PublicKey, algorithm jose.SignatureAlgorithm, input, signature []byte) bool {
	hash := hashOf(algorithm)
	sum := sumOf(hash, make([]byte, 0, maxHash), input)
	switch {
	case slices.Contains(pkcs1Algorithms, algorithm):
		return rsa.VerifyPKCS1v15(key, hash, sum, signature) == nil
	case slices.Contains(pssAlgorithms, algorithm):
		return rsa.VerifyPSS(key, hash, sum, signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
	}
	return false
}
