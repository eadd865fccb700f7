// Package fingerprint tells whether a text, such as an access token, was there before, without
// keeping the text.
//
// A fingerprint costs a fraction of a SHA-256 on machines with instructions for AES, and it is a
// SHA-256 on others. It is good within one process only.
package fingerprint

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"sync"
)

// Print is the fingerprint of a text. The text cannot be derived from it.
type Print [sha256.Size]byte

// Of returns the fingerprint of a text: the same for equal texts while the process runs, and
// different ones for different texts. It allocates nothing for texts of up to 1 KiB. Prints must not
// leave the process, nor may others learn parts of them.
func Of(text string) Print {
	if m := ofProcess(); m != nil {
		return m.of(text)
	}
	return plain(text)
}

// ofProcess returns the maker of this process, nil if SHA-256 is to be used.
var ofProcess = sync.OnceValue(func() *maker {
	if !hasAES() {
		return nil
	}
	var keys [2][keySize]byte
	for i := range keys {
		_, _ = rand.Read(keys[i][:]) // never fails
	}
	return newMaker(keys[0], keys[1])
})

// maxOnHand is the length of texts that need no memory of their own.
const maxOnHand = 4 << 10

// plain returns the SHA-256 of a text. Most tokens fit the buffer on the stack, which takes the
// longer to clear the larger it is.
func plain(text string) Print {
	var short [1 << 10]byte
	return sha256.Sum256(append(short[:0], text...))
}

const keySize = 16 // AES-128

// maker makes fingerprints with AES. The fingerprint of a text m has E(k2, t) ⊕ t and the length of
// m, where t is the GMAC of m under k1: the tag of GCM with m as its additional data and nothing to
// encrypt (NIST SP 800-38D section 3), with a nonce that is always the same. This is why two texts
// are not mistaken for each other:
//
//   - They have the same t with a probability of at most (n+1)/2^128, where n is the length of the
//     longer one in blocks of 16 bytes, whatever texts somebody chooses who does not know k1. Under one
//     nonce GMAC is GHASH plus a constant, and GHASH evaluates a polynomial, whose coefficients are
//     the blocks and the length, over a field of 2^128 elements at a secret point (McGrew and Viega,
//     "The Security and Performance of the Galois/Counter Mode of Operation", section 5.1). That is
//     the universal hash of Wegman and Carter ("New hash functions and their use in authentication
//     and set equality", 1981), of which Bernstein's "Stronger security bounds for
//     Wegman-Carter-Shoup authenticators" (2005) counts what each attempt may win. Among 8192 tokens
//     of 8 KiB, 2^50 attempts find one with a probability of 2^-56.
//   - A nonce that is used twice gives GHASH's point away to whoever sees two tags (NIST SP 800-38D
//     section 8, appendix A). Nobody sees one: they do not leave this function.
//   - All that others can observe is whether a text is known, which is whether it equals another one,
//     and, by the time that takes, which texts have parts of their prints in common, such as the row
//     of a table. The second is why t is encrypted under a key of its own: the print is a
//     pseudorandom function of t, so that parts of it say nothing about k1.
//   - A print is also no way back for who reads the memory of the process, keys included, as with
//     SHA-256: E(k2, t) ⊕ t (Davies and Meyer; Black, Rogaway, Shrimpton, "Black-box analysis of the
//     block-cipher-based hash-function constructions from PGV", 2002) is one-way in t. From t itself
//     somebody with k1 could compute a short token by linear algebra.
//
// By chance two of 2^64 texts have the same print, as with every hash of 128 bits.
type maker struct {
	mac     cipher.AEAD
	last    cipher.Block
	scratch sync.Pool // of *scratch
}

// scratch is the memory that one fingerprint takes. On the stack it would have to be allocated each
// time, because the ciphers are behind interfaces.
type scratch struct {
	text           [maxOnHand]byte
	nonce          [12]byte // always zero
	tag, encrypted [aes.BlockSize]byte
}

// newMaker returns a maker, nil where GCM with a nonce that the caller chooses is not allowed
// (GODEBUG=fips140=only).
func newMaker(k1, k2 [keySize]byte) *maker {
	first, err := aes.NewCipher(k1[:])
	if err != nil {
		return nil
	}
	mac, err := cipher.NewGCM(first)
	if err != nil {
		return nil
	}
	last, err := aes.NewCipher(k2[:])
	if err != nil {
		return nil
	}
	return &maker{mac: mac, last: last, scratch: sync.Pool{New: func() any { return new(scratch) }}}
}

func (m *maker) of(text string) (p Print) {
	s := m.scratch.Get().(*scratch)
	data := append(s.text[:0], text...)
	tag := m.mac.Seal(s.tag[:0], s.nonce[:], nil, data)
	m.last.Encrypt(s.encrypted[:], tag)
	subtle.XORBytes(p[:], s.encrypted[:], tag)
	binary.LittleEndian.PutUint64(p[aes.BlockSize:], uint64(len(text)))
	clear(data) // the text must not stay in memory
	s.tag, s.encrypted = [aes.BlockSize]byte{}, [aes.BlockSize]byte{}
	m.scratch.Put(s)
	return p
}
