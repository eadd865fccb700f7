package middleware

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"sync/atomic"
	"time"
)

const (
	nonceTime = 8  // bytes of the time in a nonce
	nonceMAC  = 16 // bytes of the MAC in a nonce
	// nonceSteps is the number of nonces in the life of one.
	nonceSteps = 5
)

// nonces makes nonces for proofs, and recognises them without storing any: a nonce is the time at
// which it was made, with a MAC. Guards that share the key and the resource accept each other's.
type nonces struct {
	key      []byte
	resource string
	life     time.Duration
	step     int64 // seconds after which there is another nonce
	latest   atomic.Pointer[madeNonce]
}

type madeNonce struct {
	at   int64
	text string
}

func newNonces(h *Handles, resource string, life time.Duration) *nonces {
	return &nonces{key: h.derived("nonces for DPoP"), resource: resource, life: life, step: max(int64(life/time.Second)/nonceSteps, 1)}
}

// current returns the nonce of this time.
func (n *nonces) current(now time.Time) string {
	at := now.Unix() - now.Unix()%n.step
	if latest := n.latest.Load(); latest != nil && latest.at == at {
		return latest.text
	}
	out := &madeNonce{at: at, text: base64.RawURLEncoding.EncodeToString(n.sealed(at))}
	n.latest.Store(out)
	return out.text
}

// sealed returns a time with its MAC.
func (n *nonces) sealed(at int64) []byte {
	text := binary.BigEndian.AppendUint64(make([]byte, 0, nonceTime+nonceMAC), uint64(at))
	return append(text, macOf(n.key, n.resource, string(text))[:nonceMAC]...)
}

// made returns the time at which a nonce was made, false for one that was not made with the key,
// or is too old.
func (n *nonces) made(nonce string, now time.Time) (time.Time, bool) {
	raw, err := segment(nil, nonce)
	if err != nil || len(raw) != nonceTime+nonceMAC {
		return time.Time{}, false
	}
	at := int64(binary.BigEndian.Uint64(raw))
	if !hmac.Equal(raw, n.sealed(at)) {
		return time.Time{}, false
	}
	made := time.Unix(at, 0)
	return made, !now.After(made.Add(n.life)) && !made.After(now.Add(n.life))
}
