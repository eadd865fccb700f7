package middleware

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"gatehouse.example/internal/shorthmac"
)

// ErrHandle means that a handle was not issued to the caller that presents it.
var ErrHandle = errors.New("middleware: the handle was issued to another caller or is forged")

// minHandleKey is the minimum size of the key of [Handles], in bytes.
const minHandleKey = 32

// Handles binds handles, such as session ids and cursors, to the caller that they were issued
// to. An attacker who learns an unbound handle could use it; a bound one is accepted from one
// principal only (MCP Security Best Practices, State Handle Hijacking). Handles stores nothing.
type Handles struct {
	key []byte
}

// NewHandles returns Handles with a key of at least 32 random bytes, else an error. Servers that
// share the key accept each other's handles.
func NewHandles(key []byte) (*Handles, error) {
	if len(key) < minHandleKey {
		return nil, fmt.Errorf("middleware: handles: the key has less than %d bytes", minHandleKey)
	}
	return &Handles{key: append([]byte(nil), key...)}, nil
}

// Bind returns a bound handle, which [Handles.Open] accepts with the same purpose and a token
// of the same principal only. A nil token stands for callers without a token. The bound handle
// contains the handle in plain text. Bind panics on Handles that [NewHandles] did not make:
// without a secret key, an attacker could bind handles too.
func (h *Handles) Bind(purpose string, token *Token, handle string) string {
	if !h.usable() {
		panic("middleware: handles without a key: use NewHandles")
	}
	return handle + "." + h.mac(purpose, token, handle)
}

// Open returns the handle in a bound handle of [Handles.Bind], or [ErrHandle].
func (h *Handles) Open(purpose string, token *Token, bound string) (string, error) {
	end := strings.LastIndexByte(bound, '.')
	if !h.usable() || end < 0 || !hmac.Equal([]byte(bound[end+1:]), []byte(h.mac(purpose, token, bound[:end]))) {
		return "", ErrHandle
	}
	return bound[:end], nil
}

// usable reports whether there is a key.
func (h *Handles) usable() bool { return len(h.key) >= minHandleKey }

// mac returns the MAC that binds a handle, as text.
func (h *Handles) mac(purpose string, token *Token, handle string) string {
	issuer, subject := principalOf(token)
	return base64.RawURLEncoding.EncodeToString(macOf(h.key, purpose, issuer, subject, handle))
}

// principalOf returns the issuer and the subject of a token, both empty for a nil token.
func principalOf(token *Token) (issuer, subject string) {
	if token == nil {
		return "", ""
	}
	return token.Issuer, token.Subject
}

// macOf returns a MAC over the parts, each with its length before it, so that different lists of
// parts have different MACs.
func macOf(key []byte, parts ...string) []byte {
	var room [256]byte
	bound := room[:0]
	for _, part := range parts {
		bound = append(binary.BigEndian.AppendUint64(bound, uint64(len(part))), part...)
	}
	mac := shorthmac.SHA256(key, bound)
	return mac[:]
}
