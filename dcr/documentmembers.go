package dcr

import (
	"encoding/json"
	"slices"
	"strings"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// noSecret refuses a client secret: a document is public (draft section 4.1).
func noSecret(d document, _ *storage.Client) error {
	if !absent(d.ClientSecret) || !absent(d.ClientSecretExpires) {
		return &unusable{"client_secret: a document must not have one"}
	}
	return nil
}

func (cs *Clients) documentRedirects(d document, c *storage.Client) error {
	return cs.policy.redirectURIs(d.Client, &c.Metadata)
}

func documentTexts(d document, c *storage.Client) error {
	if err := texts(d.Client, &c.Metadata); err != nil {
		return err
	}
	if c.Metadata.ClientName == "" {
		return &unusable{"client_name: it is required"}
	}
	return nil
}

// documentGrants keeps the supported grants. A document without grant_types has the code
// grant (RFC 7591 section 2) and also refresh tokens, because one document is for many
// servers.
func documentGrants(d document, c *storage.Client) error {
	for _, grant := range supportedGrants {
		if len(d.GrantTypes) == 0 || slices.Contains(d.GrantTypes, grant) {
			c.Metadata.GrantTypes = append(c.Metadata.GrantTypes, grant)
		}
	}
	if !slices.Contains(c.Metadata.GrantTypes, metadata.GrantAuthorizationCode) {
		return &unusable{"grant_types: it must hold authorization_code"}
	}
	if len(d.ResponseTypes) > 0 && !slices.Contains(d.ResponseTypes, responseCode) {
		return &unusable{"response_types: it must hold code"}
	}
	c.Metadata.ResponseTypes = []string{responseCode}
	if d.ApplicationType == "web" || d.ApplicationType == "native" {
		c.Metadata.ApplicationType = d.ApplicationType
	}
	return demands(d.Client, &c.Metadata)
}

// documentMethods keeps the supported authentication methods. Client and server cannot agree
// on a shared secret through a document, so a method with one is refused (draft section 4.1),
// and a document that names no method describes a public client, other than by the default of
// RFC 7591.
func documentMethods(d document, c *storage.Client) error {
	if strings.HasPrefix(d.TokenEndpointAuthMethod, "client_secret_") {
		return &unusable{"token_endpoint_auth_method: a document cannot have a secret; use none or private_key_jwt"}
	}
	asked := slices.Clone(d.Methods)
	if d.TokenEndpointAuthMethod != "" {
		asked = append([]string{d.TokenEndpointAuthMethod}, asked...)
	}
	if len(asked) == 0 {
		asked = []string{metadata.AuthMethodNone}
	}
	for _, method := range asked {
		known := method == metadata.AuthMethodNone || method == metadata.AuthMethodPrivateKeyJWT
		if known && !slices.Contains(c.AuthMethods, method) {
			c.AuthMethods = append(c.AuthMethods, method)
		}
	}
	if len(c.AuthMethods) == 0 {
		return &unusable{"token_endpoint_auth_method: it must be none or private_key_jwt"}
	}
	c.Metadata.TokenEndpointAuthMethod = c.AuthMethods[0]
	return nil
}

// documentKeys keeps the keys, and refuses private keys whether or not they are used (draft
// section 4.1).
func (cs *Clients) documentKeys(d document, c *storage.Client) error {
	switch {
	case !absent(d.JWKS) && d.JWKSURI != "":
		// RFC 7591 section 2: jwks_uri and jwks MUST NOT both be present.
		return &unusable{"jwks: use either jwks or jwks_uri"}
	case !absent(d.JWKS):
		if err := documentKeySet(d, c); err != nil {
			return err
		}
	case d.JWKSURI != "":
		if why := refusesLink(d.JWKSURI, cs.documents.InsecureAllowLoopback); why != "" {
			return &unusable{"jwks_uri: " + why}
		}
		c.Metadata.JWKSURI = d.JWKSURI
	case slices.Contains(c.AuthMethods, metadata.AuthMethodPrivateKeyJWT):
		return &unusable{"jwks: private_key_jwt needs jwks or jwks_uri"}
	}
	return documentSigningAlgorithm(d, c)
}

// documentKeySet keeps a key set by value. If the client has no other method than
// private_key_jwt, at least one key must be usable.
func documentKeySet(d document, c *storage.Client) error {
	all, err := publicKeys(d.JWKS)
	if err != nil {
		return err
	}
	if slices.Equal(c.AuthMethods, []string{metadata.AuthMethodPrivateKeyJWT}) {
		if _, err := usableKeys(all, ""); err != nil {
			return err
		}
	}
	c.Metadata.JWKS = d.JWKS
	return nil
}

// documentSigningAlgorithm keeps the algorithm of the client's assertions, if it names one
// and may send assertions.
func documentSigningAlgorithm(d document, c *storage.Client) error {
	alg := d.TokenEndpointAuthSigningAlg
	if alg == "" || !slices.Contains(c.AuthMethods, metadata.AuthMethodPrivateKeyJWT) {
		return nil
	}
	if !slices.Contains(AssertionAlgorithms(), alg) {
		return &unusable{"token_endpoint_auth_signing_alg: it must be one of " + strings.Join(AssertionAlgorithms(), ", ")}
	}
	c.Metadata.TokenEndpointAuthSigningAlg = alg
	return nil
}

// documentScope keeps every scope that the document names, also those that this server does not
// have now: resources come and go, and the digest of a document's client must not change with
// them, nor differ between processes.
func documentScope(d document, c *storage.Client) error {
	var kept []string
	for scope := range strings.FieldsSeq(d.Scope) {
		if metadata.ValidScope(scope) && !slices.Contains(kept, scope) {
			kept = append(kept, scope)
		}
	}
	c.Metadata.Scope = strings.Join(kept, " ")
	return nil
}

// usableLink returns raw if it may be shown as a link, and otherwise "".
func usableLink(raw string) string {
	if refusesLink(raw, false) != "" {
		return ""
	}
	return raw
}

// sameOrigin returns raw if it is a valid link with the origin of address, and otherwise "".
// Only the host of the document is verified: a link to another host would show a third
// party's page or picture as the client's.
func sameOrigin(address, raw string) string {
	if raw == "" || refusesLink(raw, true) != "" || originOf(address) != originOf(raw) {
		return ""
	}
	return raw
}

// documentNames returns the names of the client in other languages, by member name (RFC 7591
// section 2.2).
func documentNames(body []byte) map[string]string {
	var members map[string]json.RawMessage
	if strictjson.Unmarshal(body, &members, strictjson.Options{MaxBytes: maxDocument}) != nil {
		return nil
	}
	var names map[string]string
	for member, raw := range members {
		tag, tagged := strings.CutPrefix(member, "client_name#")
		var name string
		if !tagged || len(tag) > maxLanguageTag || !languageTag.MatchString(tag) || json.Unmarshal(raw, &name) != nil {
			continue
		}
		if name, err := clientName(member, name); err == nil && name != "" {
			if names == nil {
				names = map[string]string{}
			}
			names[member] = name
		}
	}
	return names
}
