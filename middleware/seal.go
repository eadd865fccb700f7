package middleware

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"encoding/base64"
	"slices"
)

// leastSealed is the minimum size of a padded text, in bytes. Longer texts are padded to the next
// power of two, to hide their length.
const leastSealed = 256

// seal encrypts a text. [Handles.unseal] accepts the result with the same purpose and a token of
// the same principal only. Sealing is deterministic, so that clients can recognise a repeated
// cursor. The MAC of the text is the initialization vector of its encryption (a synthetic one,
// as in RFC 5297), so different texts have different vectors.
func (h *Handles) seal(purpose string, token *Token, text string) string {
	sealed := fill(text)
	tag := h.sealTag(purpose, token, sealed)
	h.encrypt(tag, sealed)
	return base64.RawURLEncoding.EncodeToString(append(tag, sealed...))
}

// unseal returns the text that was sealed, or [ErrHandle].
func (h *Handles) unseal(purpose string, token *Token, sealed string) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || len(raw) < aes.BlockSize || base64.RawURLEncoding.EncodeToString(raw) != sealed { // not the only valid encoding
		return "", ErrHandle
	}
	tag, filled := raw[:aes.BlockSize], raw[aes.BlockSize:]
	h.encrypt(tag, filled) // counter mode: decryption is the same operation
	if !hmac.Equal(tag, h.sealTag(purpose, token, filled)) {
		return "", ErrHandle
	}
	end := len(filled) - 1
	for end >= 0 && filled[end] == 0 {
		end--
	}
	if end < 0 {
		return "", ErrHandle
	}
	return string(filled[:end]), nil
}

// fill pads a text with a byte 0x80 and zeros.
func fill(text string) []byte {
	size := leastSealed
	for size < len(text)+1 {
		size *= 2
	}
	filled := make([]byte, size)
	copy(filled, text)
	filled[len(text)] = 0x80
	return filled
}

// sealTag returns the MAC of a padded text and of everything that it is bound to.
func (h *Handles) sealTag(purpose string, token *Token, filled []byte) []byte {
	issuer, subject := principalOf(token)
	return slices.Clip(macOf(h.derived("cursors: MAC"), purpose, issuer, subject, string(filled))[:aes.BlockSize])
}

// encrypt encrypts in place, in counter mode (NIST SP 800-38A section 6.5).
func (h *Handles) encrypt(tag, text []byte) {
	block, err := aes.NewCipher(h.derived("cursors: encryption"))
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	cipher.NewCTR(block, tag).XORKeyStream(text, text)
}

// derived returns a key of 32 bytes for one use.
func (h *Handles) derived(use string) []byte { return macOf(h.key, "gatehouse: a key", use) }
