package middleware

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// ErrHandle says that a handle was not given to who presents it.
var ErrHandle = errors.New("middleware: the handle belongs to somebody else or is forged")

// minHandleKey is in bytes.
const minHandleKey = 32

// Handles binds state to who it was made for. A session id, a cursor or any other handle
// that a server gives out proves nothing when it comes back: whoever learns it could use
// it. A bound handle is of use to one principal only (MCP Security Best Practices, State
// Handle Hijacking). Nothing is stored.
type Handles struct {
	key []byte
}

// NewHandles returns handles under a key of at least 32 random bytes. Servers that share
// the key understand each other's handles.
func NewHandles(key []byte) (*Handles, error) {
	if len(key) < minHandleKey {
		return nil, fmt.Errorf("middleware: handles: the key has less than %d bytes", minHandleKey)
	}
	return &Handles{key: append([]byte(nil), key...)}, nil
}

// Bind returns a handle that only [Handles.Open] with the same purpose and a token of the
// same principal turns back. A nil token stands for somebody without one. The handle can be
// read by whoever holds it: it is bound, not secret. Bind panics on Handles that
// [NewHandles] did not make: without a key, anybody could bind.
func (h *Handles) Bind(purpose string, token *Token, handle string) string {
	if !h.usable() {
		panic("middleware: handles without a key: use NewHandles")
	}
	return handle + "." + h.mac(purpose, token, handle)
}

// Open returns the handle that [Handles.Bind] bound, or [ErrHandle].
func (h *Handles) Open(purpose string, token *Token, bound string) (string, error) {
	end := strings.LastIndexByte(bound, '.')
	if !h.usable() || end < 0 || !hmac.Equal([]byte(bound[end+1:]), []byte(h.mac(purpose, token, bound[:end]))) {
		return "", ErrHandle
	}
	return bound[:end], nil
}

// usable reports whether there is a key.
func (h *Handles) usable() bool { return len(h.key) >= minHandleKey }

// mac is what binds a handle, as text.
func (h *Handles) mac(purpose string, token *Token, handle string) string {
	issuer, subject := principalOf(token)
	return base64.RawURLEncoding.EncodeToString(macOf(h.key, purpose, issuer, subject, handle))
}

// principalOf returns whom a token speaks for, nobody without one.
func principalOf(token *Token) (issuer, subject string) {
	if token == nil {
		return "", ""
	}
	return token.Issuer, token.Subject
}

// macOf covers each part with its length before it, so that no two lists of parts are one.
func macOf(key []byte, parts ...string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		mac.Write(size[:])
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)
}
