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

// Digest is a SHA-256, in base64url, over what a person relies on who allows a client
// something: who it is, what it is called, where answers go, what it links to, what it may
// ask for and how it authenticates. It changes whenever one of them does, and only then,
// so a decision that was made on one digest must not be carried out on another. It is the
// same in every process.
//
// Keys behind a jwks_uri are not in it: they are the client's to change.
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
		panic("dcr: strings cannot be marshalled: " + err.Error()) // only our own types are in there
	}
	sum := sha256.Sum256(encoded)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// AuthMethods are the ways in which a client may authenticate at the token endpoint (RFC
// 7591 section 2). Most have one; a document may list several, and then each is enough.
func AuthMethods(c storage.Client) []string {
	if len(c.AuthMethods) > 0 {
		return c.AuthMethods
	}
	return []string{c.Metadata.TokenEndpointAuthMethod}
}

// Public reports whether a client may come without authenticating (OAuth 2.1 section 2.1).
func Public(c storage.Client) bool { return slices.Contains(AuthMethods(c), metadata.AuthMethodNone) }
