package middleware

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"

	"github.com/go-jose/go-jose/v4"
)

// signed reports whether a signature was made with this key and its algorithm. The input is the
// encoded header, a dot and the encoded payload (RFC 7515 section 5.2).
func (k *verifyKey) signed(input, signature []byte) bool {
	switch key := k.public.(type) {
	case *ecdsa.PublicKey:
		return k.algorithm == jose.ES256 && signedES256(key, input, signature)
	case ed25519.PublicKey:
		// RFC 8037 section 3.1: Ed25519 signs the input itself.
		return k.algorithm == jose.EdDSA && len(signature) == ed25519.SignatureSize && ed25519.Verify(key, input, signature)
	case *rsa.PublicKey:
		return signedRSA(key, k.algorithm, input, signature)
	}
	return false
}

// signedES256 verifies a signature of R and S in 32 bytes each (RFC 7518 section 3.4).
func signedES256(key *ecdsa.PublicKey, input, signature []byte) bool {
	if len(signature) != 64 {
		return false
	}
	sum := sha256.Sum256(input)
	der := make([]byte, 2, 72)
	der = appendInteger(der, signature[:32])
	der = appendInteger(der, signature[32:])
	der[0], der[1] = 0x30, byte(len(der)-2) // SEQUENCE; the length is below 128
	return ecdsa.VerifyASN1(key, sum[:], der)
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

// signedRSA verifies RS256 (RFC 7518 section 3.3) and PS256 (section 3.5: the salt is as long
// as the hash).
func signedRSA(key *rsa.PublicKey, algorithm jose.SignatureAlgorithm, input, signature []byte) bool {
	sum := sha256.Sum256(input)
	switch algorithm {
	case jose.RS256:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	case jose.PS256:
		return rsa.VerifyPSS(key, crypto.SHA256, sum[:], signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
	}
	return false
}
