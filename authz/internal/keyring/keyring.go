// Package keyring holds the signing keys of the issuer and makes and checks access
// tokens with them (RFC 9068, RFC 7515, RFC 7517).
//
// The keys are shared state: one record in the store, private parts sealed under the
// master keys. The first process to start creates it with a put-if-absent, so that
// several processes with one store are one issuer. A key's id is its RFC 7638
// thumbprint.
//
// What is refused: a token whose type is not at+jwt, whose algorithm is not that of
// its key, whose signature is not over exactly the received bytes, or whose issuer is
// not ours. "none" and symmetric algorithms are not in the list of algorithms at all.
package keyring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// Config configures [Open].
type Config struct {
	Store  *storage.Store
	Issuer string
	// Algorithm of new keys: ES256 (the default), EdDSA or RS256.
	Algorithm string
	Now       func() time.Time
	Rand      io.Reader
}

// Ring is the key set of the issuer, ready to sign and to verify. It is safe for
// concurrent use; readers take no lock.
type Ring struct {
	issuer string
	now    func() time.Time
	keys   atomic.Pointer[keys]
}

// keys is one immutable state of the ring.
type keys struct {
	signer jose.Signer
	public map[string]jose.JSONWebKey
	jwks   http.Handler
}

// Open loads the key set, and creates it if this is the first process of the issuer.
// The error wraps [storage.ErrRecord] if the keys are sealed under a master key that
// the store does not have or belong to another issuer.
func Open(ctx context.Context, cfg Config) (*Ring, error) {
	if cfg.Algorithm == "" {
		cfg.Algorithm = string(jose.ES256)
	}
	set, err := loadOrCreate(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	loaded, err := load(cfg.Store, set)
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	r := &Ring{issuer: cfg.Issuer, now: cfg.Now}
	r.keys.Store(loaded)
	return r, nil
}

func loadOrCreate(ctx context.Context, cfg Config) (storage.KeySet, error) {
	set, err := cfg.Store.KeySet(ctx)
	if !errors.Is(err, storage.ErrNotFound) {
		return set, err
	}
	key, err := generate(cfg)
	if err != nil {
		return storage.KeySet{}, err
	}
	err = cfg.Store.SwapKeySet(ctx, storage.KeySet{Keys: []storage.SigningKey{key}})
	if err != nil && !errors.Is(err, storage.ErrConflict) {
		return storage.KeySet{}, err
	}
	// Whoever was first, everybody reads what is there.
	return cfg.Store.KeySet(ctx)
}

func load(store *storage.Store, set storage.KeySet) (*keys, error) {
	if len(set.Keys) == 0 {
		return nil, fmt.Errorf("the key set is empty: %w", storage.ErrRecord)
	}
	out := &keys{public: make(map[string]jose.JSONWebKey, len(set.Keys))}
	document := jose.JSONWebKeySet{}
	for _, k := range set.Keys {
		var public jose.JSONWebKey
		if err := public.UnmarshalJSON(k.Public); err != nil || !public.IsPublic() || public.KeyID != k.ID {
			return nil, fmt.Errorf("key %s: %w", k.ID, storage.ErrRecord)
		}
		out.public[k.ID] = public
		document.Keys = append(document.Keys, public)
	}
	private, err := open(store, set.Keys[0])
	if err != nil {
		return nil, err
	}
	out.signer, err = jose.NewSigner(
		jose.SigningKey{Algorithm: jose.SignatureAlgorithm(private.Algorithm), Key: private},
		// RFC 9068 section 2.1: the typ header MUST be at+jwt.
		(&jose.SignerOptions{}).WithType(accessTokenType))
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", private.KeyID, err)
	}
	out.jwks, err = metadata.Serve(document)
	return out, err
}

func open(store *storage.Store, k storage.SigningKey) (jose.JSONWebKey, error) {
	raw, err := store.OpenKey(k.ID, k.Private)
	if err != nil {
		return jose.JSONWebKey{}, err
	}
	var private jose.JSONWebKey
	if err := private.UnmarshalJSON(raw); err != nil || private.IsPublic() || private.KeyID != k.ID {
		return jose.JSONWebKey{}, fmt.Errorf("key %s: %w", k.ID, storage.ErrRecord)
	}
	return private, nil
}

// JWKS serves the public keys (RFC 7517 section 5).
func (r *Ring) JWKS() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.keys.Load().jwks.ServeHTTP(w, req)
	})
}
