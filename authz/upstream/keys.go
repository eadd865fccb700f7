package upstream

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/internal/strictjson"
)

const (
	maxKeys  = 100
	maxToken = 256 << 10
)

// key is one public key of the provider.
type key struct {
	jose.JSONWebKey
	// issuer is whose tokens the key may sign; empty is any of the provider's. Only Entra says so.
	issuer string
}

// fetchKeys fetches the provider's keys.
func (c *Client) fetchKeys(ctx context.Context) ([]key, error) {
	m, err := c.metadata(ctx)
	if err != nil {
		return nil, err
	}
	r, err := get(m.JWKSURI)
	if err != nil {
		return nil, c.own(err)
	}
	keys, err := c.readKeys(ctx, r)
	if err != nil {
		c.o.Logger.Warn("a sign-in provider's keys cannot be used", "provider", c.p.ID, "error", err)
	}
	return keys, err
}

func (c *Client) readKeys(ctx context.Context, r *http.Request) ([]key, error) {
	answer, err := c.do(ctx, context.Background(), r)
	if err != nil {
		return nil, err
	}
	if answer.status != http.StatusOK {
		return nil, c.error(ErrUnavailable, ReasonDown, "%s answered %d", place(r), answer.status)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := strictjson.Unmarshal(answer.body, &set, strictjson.Options{MaxBytes: maxBody}); err != nil {
		return nil, c.error(ErrInvalid, ReasonNonsense, "%s: %s", place(r), shown(err.Error(), 200))
	}
	if len(set.Keys) > maxKeys {
		return nil, c.error(ErrInvalid, ReasonNonsense, "%s lists %d keys", place(r), len(set.Keys))
	}
	var keys []key
	for _, raw := range set.Keys {
		if k, ok := usable(raw); ok {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, c.error(ErrInvalid, ReasonNonsense, "%s has no key that can be used", place(r))
	}
	return keys, nil
}

// usable reads a public key for signatures. Others are left out, as RFC 7517 section 5 asks.
func usable(raw json.RawMessage) (k key, ok bool) {
	var of struct {
		Issuer string `json:"issuer"`
	}
	if json.Unmarshal(raw, &k.JSONWebKey) != nil || json.Unmarshal(raw, &of) != nil {
		return k, false
	}
	if !strings.Contains(of.Issuer, "{tenantid}") {
		k.issuer = of.Issuer
	}
	if k.Use != "" && k.Use != "sig" || !k.Valid() {
		return k, false
	}
	switch public := k.Key.(type) {
	case *rsa.PublicKey:
		return k, public.N.BitLen() >= 2048
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return k, true
	}
	return k, false // also symmetric and private ones
}

// fits reports that the key may have signed a token with this header.
func (k key) fits(h jose.Header) bool {
	if h.KeyID != "" && k.KeyID != h.KeyID || k.Algorithm != "" && k.Algorithm != h.Algorithm {
		return false
	}
	switch k.Key.(type) {
	case *rsa.PublicKey:
		return h.Algorithm[0] == 'R' || h.Algorithm[0] == 'P'
	case *ecdsa.PublicKey:
		return strings.HasPrefix(h.Algorithm, "ES")
	}
	return h.Algorithm == string(jose.EdDSA)
}

var errNoKey = errors.New("no key of the provider verifies it")

// keySet verifies the signature of one token with the provider's keys: [oidc.KeySet]. go-oidc's
// own one fetches the keys again for each wrong signature, and without limits.
type keySet struct {
	c *Client
	// direct says that the provider itself sent the token, so that a signature by no known key is
	// worth the wait until the keys may be fetched again.
	direct bool
	// algorithms are those that may be used.
	algorithms []jose.SignatureAlgorithm
	// failed is why the keys could not be had; go-oidc keeps no errors of others.
	failed error
}

// VerifySignature returns the payload of a token that one of the provider's keys signed. If none
// of the known ones did, the keys are fetched again once the pause is over: that is how a new
// key is found at once.
func (k *keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, k.algorithms)
	if err != nil {
		return nil, err
	}
	known, number, err := k.c.keys.get(ctx)
	if err != nil {
		return nil, k.fail(ctx, err)
	}
	if payload, ok := verify(signed, known, k.c.p.Preset); ok {
		return payload, nil
	}
	wait, done := k.patience(signed, known)
	defer done()
	if known, _, err = k.c.keys.later(ctx, number, wait); err != nil {
		return nil, k.fail(ctx, err)
	}
	if payload, ok := verify(signed, known, k.c.p.Preset); ok {
		return payload, nil
	}
	return nil, errNoKey
}

// fail keeps why the keys could not be had.
func (k *keySet) fail(ctx context.Context, err error) error {
	k.failed = k.c.waited(ctx, err)
	return k.failed
}

// patience says whether to wait for the keys. A token that a stranger can send waits only if it
// names a new key, and only a few at a time.
func (k *keySet) patience(signed *jose.JSONWebSignature, known []key) (wait bool, done func()) {
	header := signed.Signatures[0].Header
	if k.direct {
		return true, func() {}
	}
	if slices.ContainsFunc(known, func(one key) bool { return one.fits(header) }) {
		return false, func() {}
	}
	select {
	case k.c.patient <- struct{}{}:
		return true, func() { <-k.c.patient }
	default:
		return false, func() {}
	}
}

func verify(signed *jose.JSONWebSignature, keys []key, preset string) ([]byte, bool) {
	header := signed.Signatures[0].Header
	for _, k := range keys {
		if !k.fits(header) {
			continue
		}
		payload, err := signed.Verify(k.JSONWebKey)
		if err == nil && (preset != Entra || k.issuer == "" || k.issuer == issuerOf(payload)) {
			return payload, true
		}
	}
	return nil, false
}

// issuerOf returns iss of a payload; the strict reading comes later.
func issuerOf(payload []byte) string {
	var of struct {
		Issuer string `json:"iss"`
	}
	if strictjson.Unmarshal(payload, &of, strictjson.Options{MaxBytes: maxToken}) != nil {
		return ""
	}
	return of.Issuer
}
