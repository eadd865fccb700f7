package dcr

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// Digest returns a SHA-256, in base64url, over the properties of a client that a person
// relies on when consenting: its id, source, names, redirect URIs, links, scope, grants and
// authentication. It changes exactly when one of them does, so a decision that was made on
// one digest must not be carried out on another. It is the same in every process.
//
// Keys behind a jwks_uri are not included, because the client may change them at any time.
func Digest(c storage.Client) string {
	sorted := func(list []string) []string { return slices.Sorted(slices.Values(list)) }
	m := c.Metadata
	var keys bytes.Buffer
	if json.Compact(&keys, m.JWKS) != nil {
		keys.Reset()
	}
	encoded, err := json.Marshal([]any{
		"gatehouse client digest 1", c.ID, c.Source, sorted(m.RedirectURIs), m.ClientName, c.Localized,
		m.ClientURI, m.LogoURI, m.TOSURI, m.PolicyURI, m.Scope, sorted(m.GrantTypes),
		sorted(AuthMethods(c)), m.TokenEndpointAuthSigningAlg, m.JWKSURI, keys.String(),
	})
	if err != nil {
		panic("dcr: strings cannot be marshalled: " + err.Error()) // strings and lists of strings always can
	}
	sum := sha256.Sum256(encoded)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// AuthMethods returns the methods by which a client may authenticate at the token endpoint
// (RFC 7591 section 2). A document may list several; then any one of them suffices.
func AuthMethods(c storage.Client) []string {
	if len(c.AuthMethods) > 0 {
		return c.AuthMethods
	}
	return []string{c.Metadata.TokenEndpointAuthMethod}
}

// Public reports whether a client need not authenticate (OAuth 2.1 section 2.1).
func Public(c storage.Client) bool { return slices.Contains(AuthMethods(c), metadata.AuthMethodNone) }
