package dcr

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/storage"
)

const (
	// maxKeySet bounds a key set by reference in bytes.
	maxKeySet = 64 << 10
	// keyRenewal is how often a key set is read again for a key that is not in it.
	keyRenewal = time.Minute
)

// keysOf returns the keys of a client that its assertions may be signed with, by value or
// by reference. Those by reference were read at most so long ago.
func (r *Registry) keysOf(ctx context.Context, c storage.Client, atMost time.Duration) ([]jose.JSONWebKey, error) {
	switch {
	case !absent(c.Metadata.JWKS):
		return readKeys("", c.Metadata.JWKS)
	case c.Metadata.JWKSURI == "":
		return nil, &unusable{"the client has no keys"}
	case r.keySets == nil:
		return nil, &unusable{"keys are not read by reference here"}
	}
	return r.keySets.get(ctx, c.Metadata.JWKSURI, atMost)
}

// readKeys reads a key set (RFC 7517 section 5). A set with a private key is refused as a
// whole: whoever reads it can sign. Keys that are not for signing here are left out.
func readKeys(_ string, raw []byte) ([]jose.JSONWebKey, error) {
	all, err := publicKeys(raw)
	if err != nil {
		return nil, asUnusable(err)
	}
	var usable []jose.JSONWebKey
	for _, raw := range all {
		if key, ok := verifyingKey(raw); ok {
			usable = append(usable, key)
		}
	}
	return usable, nil
}

// verifyingKey returns a key if an assertion may be signed with it. Of its members (RFC
// 7517 section 4) certificates and their addresses do not count: nothing here trusts them.
func verifyingKey(raw json.RawMessage) (jose.JSONWebKey, bool) {
	var members struct {
		Type      string   `json:"kty"`
		ID        string   `json:"kid,omitempty"`
		Use       string   `json:"use,omitempty"`
		KeyOps    []string `json:"key_ops,omitempty"`
		Algorithm string   `json:"alg,omitempty"`
		Curve     string   `json:"crv,omitempty"`
		X         string   `json:"x,omitempty"`
		Y         string   `json:"y,omitempty"`
		N         string   `json:"n,omitempty"`
		E         string   `json:"e,omitempty"`
	}
	var key jose.JSONWebKey
	if strictjson.Unmarshal(raw, &members, strictjson.Options{MaxBytes: maxKeySet}) != nil ||
		members.Use != "" && members.Use != "sig" ||
		len(members.KeyOps) > 0 && !slices.Contains(members.KeyOps, "verify") {
		return key, false
	}
	members.KeyOps = nil
	raw, err := json.Marshal(members)
	if err != nil || key.UnmarshalJSON(raw) != nil || !key.IsPublic() {
		return key, false
	}
	return key, len(algorithmsOf(key)) > 0
}
