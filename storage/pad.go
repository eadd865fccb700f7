package storage

import (
	"crypto/subtle"
	"fmt"
)

// The seed of a grant in a sealed record is format byte, key name (4), and the seed under a pad that HKDF
// derives from the master key for this grant of this issuer: 44 bytes less than under AES-GCM, and a store
// may hold millions of grants. It has no tag, because the MAC of the record protects it with everything else
// in it (mac.go), so a record without a seal has none. The pad of a grant is always the same, so it may
// hide one secret and no other one: the seed is drawn once, and stays when it is sealed under another key.
const (
	paddedVersion = 2
	paddedHeader  = 1 + nameLen
	shortSeed     = 16 // 128 random bits
	paddedLen     = paddedHeader + shortSeed
)

// newSeed draws the seed of a new grant and seals it: under a pad where its record will have a seal.
func (s *Store) newSeed(id string) (Sealed, error) {
	short := s.seals(kindGrant) && s.forms.atLeast(formSealing)
	n := 32
	if short {
		n = shortSeed
	}
	seed, err := s.Random(n)
	switch {
	case err != nil:
		return nil, err
	case short:
		return s.pad(id, [shortSeed]byte(seed)), nil
	}
	return s.Seal(kindGrant, id, seed)
}

// isPadded reports whether a value is a seed under a pad, if it is of a grant.
func (s Sealed) isPadded() bool { return len(s) == paddedLen && s[0] == paddedVersion }

// pad seals the seed of a new grant.
func (s *Store) pad(id string, seed [shortSeed]byte) Sealed {
	first := &s.sealer.keys[0]
	out := make(Sealed, paddedLen)
	out[0] = paddedVersion
	copy(out[1:], first.name[:])
	pad := s.padOf(first, id)
	subtle.XORBytes(out[paddedHeader:], seed[:], pad[:])
	return out
}

// unpad opens what pad sealed. The error wraps [ErrRecord] if the key is not known.
func (s *Store) unpad(id string, sealed Sealed) ([]byte, error) {
	for i := range s.sealer.keys {
		if k := &s.sealer.keys[i]; [nameLen]byte(sealed[1:]) == k.name {
			seed, pad := make([]byte, shortSeed), s.padOf(k, id)
			subtle.XORBytes(seed, sealed[paddedHeader:], pad[:])
			return seed, nil
		}
	}
	return nil, fmt.Errorf("storage: %s: %w: none of the master keys opens its seed", kindGrant, ErrRecord)
}

// padOf returns the pad of a grant.
func (s *Store) padOf(k *masterKey, id string) [32]byte {
	var room [192]byte
	return k.keys.key(s.sealer.appendAssociated(room[:0], "gatehouse seed of a grant", id))
}
