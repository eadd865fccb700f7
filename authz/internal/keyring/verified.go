package keyring

import (
	"crypto/sha256"
	"sync"
)

const (
	// maxVerified is how many tokens are remembered as verified, maxVerifiedToken the greatest length
	// of one in bytes: some 8 MiB if every one is that long.
	maxVerified      = 4096
	maxVerifiedToken = 1 << 10
)

// verified remembers tokens whose signature was checked, so that one that a resource server asks about
// again costs no second check. What it remembers cannot change: the claims of these very bytes, and
// the key that signed them. Whether the key still counts and the token still lives is asked each time.
// Tokens that are refused are not remembered, so nobody without a token of this issuer fills it.
type verified struct {
	mu sync.Mutex
	// A full generation becomes the older one, and what is asked for there moves to the newer one.
	newer, older map[[sha256.Size]byte]*signedClaims
}

// signedClaims are the claims of a token and what its header says of the key.
type signedClaims struct {
	keyID, algorithm string
	claims           Claims
}

// digestOf returns what a token is remembered by: the whole spelling, so that no other one is found.
func digestOf(token string) [sha256.Size]byte {
	var room [maxVerifiedToken]byte // on the stack
	return sha256.Sum256(append(room[:0], token...))
}

// get returns what is remembered of a token, nil if nothing.
func (v *verified) get(digest [sha256.Size]byte) *signedClaims {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known := v.newer[digest]; known != nil {
		return known
	}
	known := v.older[digest]
	if known != nil {
		v.keep(digest, known)
	}
	return known
}

// add remembers a token of so many bytes.
func (v *verified) add(digest [sha256.Size]byte, length int, known *signedClaims) {
	if length > maxVerifiedToken {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keep(digest, known)
}

func (v *verified) keep(digest [sha256.Size]byte, known *signedClaims) {
	if v.newer == nil || len(v.newer) >= maxVerified/2 {
		v.newer, v.older = map[[sha256.Size]byte]*signedClaims{}, v.newer
	}
	v.newer[digest] = known
}
