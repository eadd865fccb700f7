package middleware

import (
	"bytes"
	"time"
)

// KeySource is where the keys of an issuer come from. The zero value stands for the metadata of
// the issuer (RFC 8414, OpenID Connect Discovery), which names the URL of its keys.
type KeySource struct {
	kind    keyKind
	address string
	set     []byte
}

type keyKind int

const (
	discoveredKeys keyKind = iota
	keysAtAddress
	fixedKeys
)

// KeysAt is for an issuer without metadata. The URL returns a JWK set (RFC 7517 section 5) and is
// https, or http on loopback if the issuer is http itself. The keys are fetched and renewed as
// those of other issuers.
func KeysAt(url string) KeySource { return KeySource{kind: keysAtAddress, address: url} }

// FixedKeys is for tests and for places that cannot reach the issuer. The keys are those of a JWK
// set (RFC 7517 section 5), and never change: a new key of the issuer needs a new guard.
func FixedKeys(jwks []byte) KeySource { return KeySource{kind: fixedKeys, set: bytes.Clone(jwks)} }

// takeKeys sets where the keys of an issuer come from.
func (i *issuer) takeKeys(from KeySource) error {
	switch from.kind {
	case keysAtAddress:
		i.keysAt = from.address
	case fixedKeys:
		keys, err := parseKeys(from.set, i.rules.algorithms)
		if err != nil {
			return err
		}
		never := time.Unix(yearTenThousand, 0)
		i.fixed = true
		i.current.Store(&keySet{keys: keys, asOf: i.now(), renew: never, expires: never, ends: never})
	}
	return nil
}
