package keyring

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// keys is one immutable state of the ring.
type keys struct {
	read   time.Time // the time at which the reading began
	signer *signer
	public map[string]verifier // by key id
	jwks   http.Handler
}

// verifier is a public key and the end of its validity; zero means no end.
type verifier struct {
	jose.JSONWebKey
	until time.Time
}

// load prepares the keys that were read from the store at the time read.
func load(cfg Config, set []storage.SigningKey, read time.Time) (*keys, error) {
	out := &keys{read: read, public: make(map[string]verifier, len(set))}
	document := jose.JSONWebKeySet{}
	for _, k := range set {
		until, err := out.loadPrivate(cfg, k)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", k.ID, err)
		}
		var public jose.JSONWebKey
		if err := public.UnmarshalJSON(k.Public); err != nil || !public.IsPublic() || public.KeyID != k.ID {
			return nil, fmt.Errorf("key %s: %w", k.ID, storage.ErrRecord)
		}
		if !until.IsZero() && !read.Before(until) {
			continue // it has ended and is destroyed with the next step
		}
		out.public[k.ID] = verifier{public, until}
		document.Keys = append(document.Keys, public)
	}
	if out.signer == nil {
		return nil, fmt.Errorf("the key set has no active key: %w", storage.ErrRecord)
	}
	handler, err := metadata.Serve(document)
	out.jwks = cached(handler, cfg.CacheTime)
	return out, err
}

// loadPrivate loads the private key of an active key. It opens a pending one too: a process
// that cannot open it must not activate it. The end of a retired key is returned as until.
func (ks *keys) loadPrivate(cfg Config, k storage.SigningKey) (until time.Time, err error) {
	switch k.State {
	case storage.KeyRetired:
		return k.Retired.Add(cfg.retention()), nil
	case storage.KeyPending:
		_, err = open(cfg.Store, k)
		return time.Time{}, err
	case storage.KeyActive:
		if ks.signer != nil {
			return time.Time{}, fmt.Errorf("a second key is active: %w", storage.ErrRecord)
		}
		ks.signer, err = newSigner(cfg.Store, k)
		return time.Time{}, err
	}
	return time.Time{}, fmt.Errorf("its state %q is not known to this program: %w", k.State, storage.ErrRecord)
}

func open(store *storage.Store, k storage.SigningKey) (jose.JSONWebKey, error) {
	raw, err := store.OpenKey(k.ID, k.Private)
	if err != nil {
		return jose.JSONWebKey{}, err
	}
	var private jose.JSONWebKey
	if err := private.UnmarshalJSON(raw); err != nil || private.IsPublic() || private.KeyID != k.ID {
		return jose.JSONWebKey{}, storage.ErrRecord
	}
	return private, nil
}

// JWKS returns a handler that serves the public keys (RFC 7517 section 5) of pending, active
// and retired keys. Caches may keep the answer for CacheTime.
func (r *Ring) JWKS() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.current().jwks.ServeHTTP(w, req)
	})
}

// cached returns a handler whose answers caches may keep for age.
func cached(h http.Handler, age time.Duration) http.Handler {
	if age == metadata.MaxAge {
		return h
	}
	control := []string{"public, max-age=" + strconv.Itoa(int(age/time.Second))}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h.ServeHTTP(cacheControl{w, control}, req)
	})
}

// cacheControl replaces the Cache-Control header of answers that have one.
type cacheControl struct {
	http.ResponseWriter
	value []string
}

// WriteHeader replaces Cache-Control and writes the header.
func (c cacheControl) WriteHeader(status int) {
	if header := c.Header(); header["Cache-Control"] != nil {
		header["Cache-Control"] = c.value
	}
	c.ResponseWriter.WriteHeader(status)
}
