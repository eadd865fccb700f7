// Package shorthmac computes MACs of short messages, each under a key of its own: crypto/hmac takes five
// allocations to begin with a key.
package shorthmac

import "crypto/sha256"

// SHA256 returns HMAC-SHA-256 (RFC 2104). For messages of at most 256 bytes it allocates no memory.
func SHA256(key, message []byte) [sha256.Size]byte {
	var inner, outer [sha256.BlockSize]byte
	if len(key) > len(inner) {
		hashed := sha256.Sum256(key)
		key = hashed[:]
	}
	copy(inner[:], key)
	copy(outer[:], key)
	for i := range inner {
		inner[i] ^= 0x36
		outer[i] ^= 0x5c
	}
	var room [sha256.BlockSize + 256]byte
	sum := sha256.Sum256(append(append(room[:0], inner[:]...), message...))
	return sha256.Sum256(append(append(room[:0], outer[:]...), sum[:]...))
}
