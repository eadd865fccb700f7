package keyring

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/storage"
)

// generate makes a key pair as a pending record: the public key in the clear, the private key
// sealed. The id does not begin with a hyphen, so that an operator can pass it to a command.
func generate(cfg Config, now time.Time) (storage.SigningKey, error) {
	for {
		jwk, err := newKey(cfg)
		if err != nil {
			return storage.SigningKey{}, fmt.Errorf("generate: %w", err)
		}
		if jwk.KeyID[0] != '-' {
			return record(cfg, jwk, now)
		}
	}
}

func newKey(cfg Config) (jose.JSONWebKey, error) {
	private, err := newPrivateKey(cfg)
	if err != nil {
		return jose.JSONWebKey{}, err
	}
	jwk := jose.JSONWebKey{Key: private, Algorithm: cfg.Algorithm, Use: "sig"}
	thumbprint, err := jwk.Thumbprint(crypto.SHA256)
	jwk.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	return jwk, err
}

func newPrivateKey(cfg Config) (any, error) {
	switch jose.SignatureAlgorithm(cfg.Algorithm) {
	case jose.ES256:
		return ecdsa.GenerateKey(elliptic.P256(), cfg.Rand)
	case jose.EdDSA:
		_, private, err := ed25519.GenerateKey(cfg.Rand)
		return private, err
	case jose.RS256:
		return rsa.GenerateKey(cfg.Rand, 2048)
	}
	return nil, fmt.Errorf("algorithm %q is not ES256, EdDSA or RS256", cfg.Algorithm)
}

func record(cfg Config, jwk jose.JSONWebKey, now time.Time) (storage.SigningKey, error) {
	private, err := jwk.MarshalJSON()
	if err != nil {
		return storage.SigningKey{}, err
	}
	public := jwk.Public()
	open, err := public.MarshalJSON()
	if err != nil {
		return storage.SigningKey{}, err
	}
	sealed, err := cfg.Store.SealKey(jwk.KeyID, private)
	if err != nil {
		return storage.SigningKey{}, err
	}
	return storage.SigningKey{
		ID: jwk.KeyID, Algorithm: jwk.Algorithm, Public: open, Private: sealed,
		State: storage.KeyPending, Created: now,
	}, nil
}
