package dcr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

const (
	// maxDocument is twice what the draft recommends in section 8.7, for documents with
	// keys by value.
	maxDocument = 10 << 10
	// maxDocumentID bounds the client_id of a document. People see it, and it is part of
	// keys in the store.
	maxDocumentID = 512
)

// DocumentError says why a client ID metadata document cannot be used. It is a
// [storage.ErrNotFound]: there is no such client. Why may be shown to the people who make
// the client; it holds nothing that they could not read at the address themselves.
type DocumentError struct {
	ClientID string
	Why      string
}

func (e *DocumentError) Error() string {
	return fmt.Sprintf("dcr: the metadata document of %q cannot be used: %s", e.ClientID, e.Why)
}

// Is reports that the error is a [storage.ErrNotFound].
func (e *DocumentError) Is(target error) bool { return target == storage.ErrNotFound }

// SupportsDocuments reports whether client ID metadata documents are read.
func (cs *Clients) SupportsDocuments() bool { return cs.documents.Trust != "" }

// isDocument reports a client_id that names a document. None that we draw or that is
// configured does (draft section 7.1).
func isDocument(id string) bool {
	return strings.HasPrefix(id, "https://") || strings.HasPrefix(id, "http://")
}

// document returns the client whose id is the address of its metadata document.
func (cs *Clients) document(ctx context.Context, id string) (storage.Client, error) {
	if client, ok := cs.published.recent(id, longestDocument); ok {
		return client, nil
	}
	if why := cs.documents.refusesID(id); why != "" {
		return storage.Client{}, &DocumentError{id, "client_id: " + why}
	}
	if cs.documents.trust(hostOf(id)) == TrustDeny {
		return storage.Client{}, &DocumentError{id, "clients of this host are not accepted here"}
	}
	client, err := cs.published.get(ctx, id, longestDocument)
	var unusable *unusable
	if errors.As(err, &unusable) {
		return storage.Client{}, &DocumentError{id, unusable.why}
	}
	return client, err
}

// refusesID says why a URL cannot be a client identifier (draft section 3), or "". It is
// asked before anything is fetched. A query is allowed: the draft only advises against it,
// and each is a client of its own.
func (d Documents) refusesID(id string) string {
	uri, err := metadata.ParseRedirect(id) // no user information, fragment or dot segment; a host and a port that can be
	if err != nil {
		_, why, _ := strings.Cut(err.Error(), metadata.ErrRedirectURI.Error()+": ")
		return why
	}
	u, err := url.Parse(id)
	switch {
	case err != nil:
		return "it is not a URL"
	case len(id) > maxDocumentID:
		return fmt.Sprintf("it has more than %d bytes", maxDocumentID)
	case uri.Kind != metadata.RedirectWeb && (uri.Kind != metadata.RedirectLoopback || !d.InsecureAllowLoopback):
		return "it must be https"
	case strings.Trim(u.EscapedPath(), "/") == "":
		// The root of a site describes the site. Draft section 3 advises against it, and
		// clients of this protocol refuse to use it.
		return "it must have a path"
	case badEscape(id) || u.ForceQuery:
		return "it is not properly percent-encoded, or has an empty query"
	}
	return refusesHost(u, d.InsecureAllowLoopback && metadata.IsLoopbackHost(u.Hostname()))
}

// badEscape reports a percent sign without two hexadecimal digits after it.
func badEscape(s string) bool {
	_, err := url.PathUnescape(s)
	return err != nil
}

// document is a client ID metadata document (draft section 4). Its client_id is the
// address that it was read from.
type document struct {
	metadata.Client
	ClientID string `json:"client_id"`
	// Methods are the authentication methods of a client that has several.
	Methods             []string        `json:"token_endpoint_auth_methods_supported"`
	ClientSecret        json.RawMessage `json:"client_secret"`
	ClientSecretExpires json.RawMessage `json:"client_secret_expires_at"`
}

// readDocument makes a client of a document. What must not be is refused; what is merely
// not supported here is left out, because one document serves many servers.
func (cs *Clients) readDocument(address string, body []byte) (storage.Client, error) {
	var d document
	if err := strictjson.Unmarshal(body, &d, strictjson.Options{MaxBytes: maxDocument}); err != nil {
		return storage.Client{}, &unusable{strings.TrimPrefix(err.Error(), "strictjson: ")}
	}
	if d.ClientID != address {
		// Draft section 4: MUST match by simple string comparison.
		return storage.Client{}, &unusable{"client_id: it is not the address of the document"}
	}
	c := storage.Client{ID: address, Source: storage.ClientDocument, Created: cs.now().UTC()}
	for _, member := range []func(document, *storage.Client) error{
		noSecret, cs.documentRedirects, documentTexts, documentGrants, documentMethods, cs.documentKeys, cs.documentScope,
	} {
		if err := member(d, &c); err != nil {
			return storage.Client{}, asUnusable(err)
		}
	}
	c.Metadata.ClientURI = sameOrigin(address, d.ClientURI)
	c.Metadata.LogoURI = sameOrigin(address, d.LogoURI)
	c.Metadata.TOSURI, c.Metadata.PolicyURI = usableLink(d.TOSURI), usableLink(d.PolicyURI)
	c.Localized = documentNames(body)
	return detached(c), nil
}

// asUnusable keeps what a refusal of a registration says, without its code.
func asUnusable(err error) error {
	var refused *refusal
	if errors.As(err, &refused) {
		return &unusable{refused.description}
	}
	return err
}

// noSecret refuses what cannot be a secret, because everybody reads it (draft section 4.1).
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

// documentGrants keeps the grants that exist here. The document of a client that lists
// none is for the code grant (RFC 7591 section 2) and, because it cannot be asked which
// server it is for, gets refresh tokens.
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
	return boundTokens(d.Client, &c.Metadata)
}

// documentMethods reads how the client authenticates. No shared secret can be agreed on
// through a document, so a method with one is refused (draft section 4.1), and a document
// that names no method is one of a public client, whatever the default of RFC 7591 is.
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

// documentKeys keeps the keys, and refuses private ones whether or not they are used
// (draft section 4.1).
func (cs *Clients) documentKeys(d document, c *storage.Client) error {
	switch {
	case !absent(d.JWKS) && d.JWKSURI != "":
		// RFC 7591 section 2: jwks_uri and jwks MUST NOT both be present.
		return &unusable{"jwks: use either jwks or jwks_uri"}
	case !absent(d.JWKS):
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
	case d.JWKSURI != "":
		if why := refusesLink(d.JWKSURI, cs.documents.InsecureAllowLoopback); why != "" {
			return &unusable{"jwks_uri: " + why}
		}
		c.Metadata.JWKSURI = d.JWKSURI
	case slices.Contains(c.AuthMethods, metadata.AuthMethodPrivateKeyJWT):
		return &unusable{"jwks: private_key_jwt needs jwks or jwks_uri"}
	}
	if alg := d.TokenEndpointAuthSigningAlg; alg != "" && slices.Contains(c.AuthMethods, metadata.AuthMethodPrivateKeyJWT) {
		if !slices.Contains(AssertionAlgorithms(), alg) {
			return &unusable{"token_endpoint_auth_signing_alg: it must be one of " + strings.Join(AssertionAlgorithms(), ", ")}
		}
		c.Metadata.TokenEndpointAuthSigningAlg = alg
	}
	return nil
}

func (cs *Clients) documentScope(d document, c *storage.Client) error {
	return cs.scope(d.Client, &c.Metadata)
}

// usableLink returns a link that may be shown, or "".
func usableLink(raw string) string {
	if refusesLink(raw, false) != "" {
		return ""
	}
	return raw
}

// sameOrigin returns a link if the host of the document, which is verified, is its host
// too. Another one would lend the client somebody else's page or picture.
func sameOrigin(address, raw string) string {
	if raw == "" || refusesLink(raw, true) != "" || originOf(address) != originOf(raw) {
		return ""
	}
	return raw
}

// documentNames are the names of the client in other languages (RFC 7591 section 2.2).
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
