package storage

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrNoMasterKey is the error of sealing or opening in a store without master keys.
var ErrNoMasterKey = errors.New("storage: no master key: set master-keys")

// Sealed is a secret under AES-256-GCM: format byte, key name (4), nonce (12),
// ciphertext with tag. The associated data is record type ‖ id ‖ issuer ‖ version, so a
// sealed value cannot be moved to another record or another server. The seed of a grant takes less:
// see pad.go.
type Sealed []byte

const (
	sealedVersion = 1
	sealedHeader  = 1 + 4 + 12
)

type sealer struct {
	issuer string
	keys   []masterKey
}

type masterKey struct {
	name   [nameLen]byte
	secret []byte // keys for other purposes are derived from it
	keys   *derivation
	aead   cipher.AEAD
	macs   *macs
}

func newSealer(keys [][]byte, issuer string) (sealer, error) {
	s := sealer{issuer: issuer}
	for i, k := range keys {
		if len(k) != 32 {
			return sealer{}, fmt.Errorf("storage: master key %d has %d bytes, it must have 32", i+1, len(k))
		}
		block, err := aes.NewCipher(k)
		if err != nil {
			return sealer{}, fmt.Errorf("storage: master key %d: %w", i+1, err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return sealer{}, fmt.Errorf("storage: master key %d: %w", i+1, err)
		}
		macs, err := newMACs(k)
		if err != nil {
			return sealer{}, fmt.Errorf("storage: master key %d: %w", i+1, err)
		}
		prk, err := hkdf.Extract(sha256.New, k, nil)
		if err != nil {
			return sealer{}, fmt.Errorf("storage: master key %d: %w", i+1, err)
		}
		name := keyName(k)
		for j, other := range s.keys {
			if other.name == name && !bytes.Equal(other.secret, k) {
				return sealer{}, fmt.Errorf("storage: master keys %d and %d have the same name in records, which one pair in four billion has: generate another key", j+1, i+1)
			}
		}
		s.keys = append(s.keys, masterKey{name: name, secret: bytes.Clone(k), keys: newDerivation(prk), aead: aead, macs: macs})
	}
	return s, nil
}

// keyName returns what a master key is named by in records.
func keyName(key []byte) [nameLen]byte {
	sum := sha256.Sum256(append([]byte("gatehouse master key name\x00"), key...))
	return [nameLen]byte(sum[:nameLen])
}

// derivation derives keys from the pseudorandom key of a master key. Its states are reused: a key
// allocates no memory.
type derivation struct{ states sync.Pool }

func newDerivation(prk []byte) *derivation {
	return &derivation{sync.Pool{New: func() any { return &macState{hash: hmac.New(sha256.New, prk)} }}}
}

// key returns the key for a purpose: HKDF-Expand with SHA-256 (RFC 5869 section 2.3) to 32 bytes, which
// are its first block.
func (d *derivation) key(purpose []byte) (key [sha256.Size]byte) {
	s := d.states.Get().(*macState)
	defer d.states.Put(s)
	s.bind = append(append(s.bind[:0], purpose...), 1)
	s.hash.Reset()
	s.hash.Write(s.bind)
	s.bind = s.hash.Sum(s.bind[:0])
	return [sha256.Size]byte(s.bind)
}

// MasterKeys returns how many master keys the store was opened with.
func (s *Store) MasterKeys() int { return len(s.sealer.keys) }

// Seal seals a secret that belongs to the record kind/id.
func (s *Store) Seal(kind, id string, secret []byte) (Sealed, error) {
	if len(s.sealer.keys) == 0 {
		return nil, ErrNoMasterKey
	}
	first := s.sealer.keys[0]
	out := make([]byte, sealedHeader, sealedHeader+len(secret)+16)
	out[0] = sealedVersion
	copy(out[1:5], first.name[:])
	if _, err := io.ReadFull(s.rand, out[5:sealedHeader]); err != nil {
		return nil, fmt.Errorf("storage: seal: %w", err)
	}
	return first.aead.Seal(out, out[5:sealedHeader], secret, s.sealer.associated(kind, id)), nil
}

// Open opens what [Store.Seal] sealed for the same record. The error wraps
// [ErrRecord] if the key is not known or the value was changed or moved.
func (s *Store) Open(kind, id string, sealed Sealed) ([]byte, error) {
	if len(s.sealer.keys) == 0 {
		return nil, ErrNoMasterKey
	}
	if kind == kindGrant && sealed.isPadded() {
		return s.unpad(id, sealed)
	}
	if len(sealed) < sealedHeader || sealed[0] != sealedVersion {
		return nil, fmt.Errorf("storage: %s: %w: not a sealed value", kind, ErrRecord)
	}
	for _, k := range s.sealer.keys {
		if [4]byte(sealed[1:5]) != k.name {
			continue
		}
		if plain, err := k.aead.Open(nil, sealed[5:sealedHeader], sealed[sealedHeader:], s.sealer.associated(kind, id)); err == nil {
			return plain, nil
		}
	}
	return nil, fmt.Errorf("storage: %s: %w: none of the master keys opens it", kind, ErrRecord)
}

// first reports whether a secret is sealed under the first master key, by its header.
func (s sealer) first(sealed Sealed) bool {
	return len(sealed) >= paddedHeader && (sealed[0] == sealedVersion || sealed[0] == paddedVersion) && [4]byte(sealed[1:5]) == s.keys[0].name
}

// associated returns the length-prefixed list of the values to which a sealed value is bound.
func (s sealer) associated(kind, id string) []byte {
	return s.appendAssociated(make([]byte, 0, 16+sha256.Size+len(kind)+len(id)+len(s.issuer)), kind, id) // callers append a hash
}

func (s sealer) appendAssociated(out []byte, kind, id string) []byte {
	for _, part := range [...]string{kind, id, s.issuer} {
		out = binary.BigEndian.AppendUint32(out, uint32(len(part)))
		out = append(out, part...)
	}
	return append(out, sealedVersion)
}

func putUint64(b []byte, v uint64) { binary.BigEndian.PutUint64(b, v) }
func uint64At(b []byte) uint64     { return binary.BigEndian.Uint64(b) }
