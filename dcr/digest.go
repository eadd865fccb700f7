package dcr

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"

	"gatehouse.example/internal/appendjson"
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
	m := c.Metadata
	all := digested(make([]byte, 0, 768)).text("gatehouse client digest 1").text(c.ID).text(string(c.Source)).
		sorted(m.RedirectURIs).text(m.ClientName).byName(c.Localized).
		text(m.ClientURI).text(m.LogoURI).text(m.TOSURI).text(m.PolicyURI).text(m.Scope).
		sorted(m.GrantTypes).sorted(AuthMethods(c)).
		text(m.TokenEndpointAuthSigningAlg).text(m.JWKSURI).text(compact(m.JWKS))
	sum := sha256.Sum256(append(all, ']'))
	return string(base64.RawURLEncoding.AppendEncode(make([]byte, 0, 64), sum[:]))
}

// digested is an array in the bytes of encoding/json, without its end.
type digested []byte

// next appends what comes before an element.
func (d digested) next() digested {
	if len(d) == 0 {
		return append(d, '[')
	}
	return append(d, ',')
}

func (d digested) text(s string) digested { return appendjson.String(d.next(), s) }

// sorted appends a list in order; an empty one is null.
func (d digested) sorted(list []string) digested {
	if !slices.IsSorted(list) || len(list) == 0 {
		list = slices.Sorted(slices.Values(list))
	}
	return appendjson.Strings(d.next(), list)
}

// byName appends texts by their names, in the order of these.
func (d digested) byName(texts map[string]string) digested {
	if texts == nil {
		return append(d.next(), "null"...)
	}
	encoded, _ := json.Marshal(texts) // texts have no errors
	return append(d.next(), encoded...)
}

// compact returns JSON without white space, "" for what is none.
func compact(raw json.RawMessage) string {
	var out bytes.Buffer
	if len(raw) == 0 || json.Compact(&out, raw) != nil {
		return ""
	}
	return out.String()
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
