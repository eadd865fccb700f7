package storage

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"gatehouse.example/internal/shorthmac"
)

// The prefixes make a leaked secret recognisable to scanners.
const (
	codePrefix    = "gate_ac_"
	refreshPrefix = "gate_rt_"
)

// SecretHash is the SHA-256 of a whole secret string. Generated secrets have at least 256 random
// bits, so a fast hash is enough and a dump reveals none of them.
type SecretHash []byte

// HashSecret returns the SHA-256 of secret.
func HashSecret(secret string) SecretHash {
	sum := hashOf(secret)
	return sum[:]
}

// hashOf returns the SHA-256 of a secret. Those of this server are short enough for its memory.
func hashOf(secret string) [sha256.Size]byte {
	var own [96]byte
	return sha256.Sum256(append(own[:0], secret...))
}

// Matches compares in constant time. An empty hash matches no secret.
func (h SecretHash) Matches(secret string) bool {
	sum := hashOf(secret)
	return len(h) == len(sum) && subtle.ConstantTimeCompare(h, sum[:]) == 1
}

// base64URL returns bytes in base64url, in one allocation.
func base64URL(data []byte) string { return prefixed("", data) }

// prefixed returns a prefix followed by bytes in base64url.
func prefixed(prefix string, data []byte) string {
	return string(base64.RawURLEncoding.AppendEncode(append(make([]byte, 0, 128), prefix...), data))
}

// NewSecret returns prefix followed by 32 random bytes in base64url: 256 bits made of
// unreserved characters only.
func (s *Store) NewSecret(prefix string) (string, error) { return s.random(prefix, 32) }

// NewID returns 16 random bytes in base64url, 22 characters. None begins with a hyphen, so that
// an operator can use it as an argument of a command.
func (s *Store) NewID() (string, error) {
	for {
		id, err := s.random("", 16)
		if err != nil || id[0] != '-' {
			return id, err
		}
	}
}

// Random returns n random bytes from the store's source.
func (s *Store) Random(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(s.rand, b); err != nil {
		return nil, fmt.Errorf("storage: random: %w", err)
	}
	return b, nil
}

func (s *Store) random(prefix string, n int) (string, error) {
	b := make([]byte, n, n+len(prefix)+base64.RawURLEncoding.EncodedLen(n))
	if _, err := io.ReadFull(s.rand, b); err != nil {
		return "", fmt.Errorf("storage: random: %w", err)
	}
	return string(base64.RawURLEncoding.AppendEncode(append(b, prefix...), b)[n:]), nil
}

// strict refuses non-canonical base64url, so that a token has one spelling.
var strict = base64.RawURLEncoding.Strict()

// parseToken returns the n bytes behind prefix, or nil for any other string.
func parseToken(prefix, token string, n int) []byte {
	body, ok := strings.CutPrefix(token, prefix)
	if !ok || len(body) != strict.EncodedLen(n) || strings.ContainsAny(body, "\r\n") {
		return nil
	}
	raw, err := strict.DecodeString(body)
	if err != nil {
		return nil
	}
	return raw
}

// CodeGrant returns the grant id in an authorization code. It proves nothing: the code is
// compared with the record's hash.
func CodeGrant(code string) (id string, ok bool) {
	raw := parseToken(codePrefix, code, 16+32)
	if raw == nil {
		return "", false
	}
	return base64URL(raw[:16]), true
}

// newCode returns a code that names the grant id and carries 256 random bits.
func (s *Store) newCode(id string) (string, error) {
	raw, err := strict.DecodeString(id)
	if err != nil || len(raw) != 16 {
		return "", fmt.Errorf("storage: grant id %q is not one", id)
	}
	raw = append(raw, make([]byte, 32)...)
	if _, err := io.ReadFull(s.rand, raw[16:]); err != nil {
		return "", fmt.Errorf("storage: random: %w", err)
	}
	return prefixed(codePrefix, raw), nil
}

// RefreshToken is a parsed refresh token: id (16) ‖ generation (4) ‖ HMAC-SHA-256(seed, issuer ‖
// id ‖ generation) (32), in base64url behind a prefix.
type RefreshToken struct {
	GrantID    string
	Generation uint32
	mac        [sha256.Size]byte
}

// ParseRefreshToken parses a refresh token. It proves nothing: [Store.Genuine] checks the MAC
// once the record is read.
func ParseRefreshToken(token string) (RefreshToken, bool) {
	raw := parseToken(refreshPrefix, token, 16+4+sha256.Size)
	if raw == nil {
		return RefreshToken{}, false
	}
	return RefreshToken{
		GrantID:    base64URL(raw[:16]),
		Generation: binary.BigEndian.Uint32(raw[16:20]),
		mac:        [sha256.Size]byte(raw[20:]),
	}, true
}

// Genuine reports whether this server made the token for this grant, whatever its generation. A
// forged token is not genuine and must cause no side effect. The error wraps [ErrRecord] when the
// grant's seed cannot be opened.
func (s *Store) Genuine(g Grant, t RefreshToken) (bool, error) {
	seed, err := s.Open(kindGrant, g.ID, g.Seed)
	if err != nil {
		return false, err
	}
	want := s.refreshMAC(seed, g.ID, t.Generation)
	return g.ID == t.GrantID && hmac.Equal(want[:], t.mac[:]), nil
}

// RefreshTokenOf derives the refresh token of one generation of a grant. The same
// grant and generation always give the same token.
func (s *Store) RefreshTokenOf(g Grant, generation uint32) (string, error) {
	seed, err := s.Open(kindGrant, g.ID, g.Seed)
	if err != nil {
		return "", err
	}
	raw, err := strict.DecodeString(g.ID)
	if err != nil {
		return "", fmt.Errorf("storage: grant id: %w: %w", ErrRecord, err)
	}
	raw = binary.BigEndian.AppendUint32(raw, generation)
	mac := s.refreshMAC(seed, g.ID, generation)
	return prefixed(refreshPrefix, append(raw, mac[:]...)), nil
}

func (s *Store) refreshMAC(seed []byte, id string, generation uint32) [sha256.Size]byte {
	var room [256]byte
	bound := room[:0]
	for _, part := range [...]string{s.issuer, id} {
		bound = binary.BigEndian.AppendUint32(bound, uint32(len(part)))
		bound = append(bound, part...)
	}
	return shorthmac.SHA256(seed, binary.BigEndian.AppendUint32(bound, generation))
}
