package authz

import (
	"encoding/base64"

	"gatehouse.example/internal/shorthmac"
)

// clientID returns the id of the resource server at /introspect. Those of the store have their
// URI.
func (e *resourceEntry) clientID() string {
	if e.Introspection != nil {
		return e.Introspection.ID
	}
	return e.URI
}

// server returns the resource that a client_id at /introspect stands for, and whether the secret
// is right. name is what wrong secrets are counted under, "" if there is no such resource.
func (s *resourceSet) server(clientID, secret string) (r Resource, name string, right bool) {
	e := s.byClient[clientID]
	if e != nil {
		return e.Resource, e.clientID(), e.secret.Matches(secret)
	}
	if e = s.entry(clientID); e == nil || !e.pattern || e.key == "" || e.disabled {
		return Resource{}, "", false
	}
	// One name for all URIs of a pattern: a guesser can think of any number of them.
	r, _ = s.find(clientID)
	return r, e.URI, sameSecret(secret, DeriveSecret(e.key, clientID))
}

// derivedPrefix begins the introspection secrets that are derived.
const derivedPrefix = "gate_rs_"

// DeriveSecret returns the introspection secret of one URI of a pattern: "gate_rs_" and the
// unpadded base64url of HMAC-SHA-256 (RFC 2104) over the URI, under the secret of the pattern. From
// the secret of one URI nobody can compute that of another, and the client_id is the URI.
func DeriveSecret(patternSecret, uri string) string {
	mac := shorthmac.SHA256([]byte(patternSecret), []byte(uri))
	return derivedPrefix + base64.RawURLEncoding.EncodeToString(mac[:])
}
