package gateway

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
)

// keysKept is how long a key is published after it was replaced. It is longer than an assertion
// lives, so that several gateways with the same keys can change them one after another.
const keysKept = AssertionLifetime + 4*time.Minute

// AssertionKeys are the keys of assertions. They can be replaced while gateways use them, and are
// safe for concurrent use. Make them with [NewAssertionKeys].
type AssertionKeys struct {
	mu      sync.RWMutex
	signer  jose.Signer
	current []jose.JSONWebKey // public
	retired []retiredKey
}

// retiredKey is a public key that was replaced.
type retiredKey struct {
	jose.JSONWebKey
	until time.Time
}

// NewAssertionKeys returns keys, all on P-256 and at least one. The first signs, and all are
// published, so that upstreams know a key before it signs.
func NewAssertionKeys(keys ...*ecdsa.PrivateKey) (*AssertionKeys, error) {
	k := &AssertionKeys{}
	return k, k.Replace(keys...)
}

// Replace replaces the keys. Those that are left out are published for five minutes more, in
// which the assertions that they signed expire. After an error the keys are the same as before.
func (k *AssertionKeys) Replace(keys ...*ecdsa.PrivateKey) error {
	if len(keys) == 0 {
		return errors.New("assertion key: there is none")
	}
	public := make([]jose.JSONWebKey, len(keys))
	for i, key := range keys {
		var err error
		if public[i], err = publicKey(key); err != nil {
			return err
		}
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: keys[0], KeyID: public[0].KeyID}},
		(&jose.SignerOptions{}).WithType(AssertionType))
	if err != nil {
		return fmt.Errorf("assertion key: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for _, key := range k.current {
		k.retired = append(k.retired, retiredKey{key, now.Add(keysKept)})
	}
	k.retired = slices.DeleteFunc(k.retired, func(key retiredKey) bool { return !now.Before(key.until) || listed(public, key.KeyID) })
	k.signer, k.current = signer, public
	return nil
}

func listed(keys []jose.JSONWebKey, id string) bool {
	return slices.ContainsFunc(keys, func(key jose.JSONWebKey) bool { return key.KeyID == id })
}

// publicKey returns the public key with its thumbprint as its id (RFC 7638).
func publicKey(key *ecdsa.PrivateKey) (jose.JSONWebKey, error) {
	if key == nil || key.Curve != elliptic.P256() {
		return jose.JSONWebKey{}, errors.New("assertion key: it must be a key on P-256")
	}
	public := jose.JSONWebKey{Key: &key.PublicKey, Algorithm: string(jose.ES256), Use: "sig"}
	thumbprint, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return jose.JSONWebKey{}, fmt.Errorf("assertion key: %w", err)
	}
	public.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	return public, nil
}

// sign returns a JWT that the first key has signed.
func (k *AssertionKeys) sign(payload []byte) (string, error) {
	k.mu.RLock()
	signer := k.signer
	k.mu.RUnlock()
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("gateway: assertion: %w", err)
	}
	return signed.CompactSerialize()
}

// published returns all keys with which an assertion could be signed that is still valid.
func (k *AssertionKeys) published() jose.JSONWebKeySet {
	k.mu.RLock()
	defer k.mu.RUnlock()
	set, now := jose.JSONWebKeySet{Keys: slices.Clone(k.current)}, time.Now()
	for _, key := range k.retired {
		if now.Before(key.until) && !listed(set.Keys, key.KeyID) {
			set.Keys = append(set.Keys, key.JSONWebKey)
		}
	}
	return set
}

// ServeHTTP serves the public keys as a JWK set (RFC 7517 section 5).
func (k *AssertionKeys) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	document, err := metadata.Serve(k.published())
	if err != nil { // never: each key was marshalled for its thumbprint
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	document.ServeHTTP(w, r)
}
