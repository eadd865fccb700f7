package dcr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

const (
	// maxDocument bounds a document in bytes: twice what section 8.7 of the draft
	// recommends, for documents with keys by value.
	maxDocument = 10 << 10
	// maxDocumentID bounds the client_id of a document in bytes. It is shown to people and
	// is part of keys in the store.
	maxDocumentID = 512
)

// DocumentError reports why a client ID metadata document cannot be used. It is a
// [storage.ErrNotFound]: there is no such client. Why may be shown to the developers of the
// client; it contains nothing that is not public at the address.
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

// isDocument reports whether a client_id is the address of a document. The ids of registered
// and configured clients are not (draft section 7.1).
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
	return cs.documentOf(ctx, id, longestDocument)
}

// documentOf returns the client of a document that was read at most atMost ago.
func (cs *Clients) documentOf(ctx context.Context, id string, atMost time.Duration) (storage.Client, error) {
	client, err := cs.published.get(ctx, id, atMost)
	var unusable *unusable
	if errors.As(err, &unusable) {
		return storage.Client{}, &DocumentError{id, unusable.why}
	}
	return client, err
}

// Renew returns a client whose metadata a request contradicts, such as by a redirect URI, a key or
// a secret that it does not have, because the client may have changed at another process: a
// document that was read more than a minute ago is read again, and so is the record of a client in
// the store. All other clients are returned as they are. The errors are those of [Clients.Resolve].
func (cs *Clients) Renew(ctx context.Context, c storage.Client) (storage.Client, error) {
	if cs.stored(c.ID) {
		return cs.Current(ctx, c.ID)
	}
	if _, pinned := cs.pinned[c.ID]; pinned || c.Source != storage.ClientDocument || cs.published == nil {
		return c, nil
	}
	return cs.documentOf(ctx, c.ID, shortestLife)
}

// refusesID returns why a URL cannot be a client identifier (draft section 3), or "" if it
// can. It is checked before anything is fetched. A query is allowed: the draft only advises
// against it. Each query is another client.
func (d Documents) refusesID(id string) string {
	uri, err := metadata.ParseRedirect(id) // no user information, fragment or dot segment; a valid host and port
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
		// Draft section 3 advises against the root of a site as a client_id, and clients of
		// this protocol do not use it.
		return "it must have a path"
	case badEscape(id) || u.ForceQuery:
		return "it is not properly percent-encoded, or has an empty query"
	}
	return refusesHost(u, d.InsecureAllowLoopback && metadata.IsLoopbackHost(u.Hostname()))
}

// badEscape reports whether s has a percent sign without two hexadecimal digits after it.
func badEscape(s string) bool {
	_, err := url.PathUnescape(s)
	return err != nil
}

// document is a client ID metadata document (draft section 4). Its client_id is the
// address that it was read from.
type document struct {
	metadata.Client
	ClientID string `json:"client_id"`
	// Methods are the authentication methods of a client with several.
	Methods             []string        `json:"token_endpoint_auth_methods_supported"`
	ClientSecret        json.RawMessage `json:"client_secret"`
	ClientSecretExpires json.RawMessage `json:"client_secret_expires_at"`
}

// readDocument returns the client that a document describes. Forbidden values are errors.
// Values that this server does not support are left out, because one document is for many
// servers.
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
		noSecret, cs.documentRedirects, documentTexts, documentGrants, documentMethods, cs.documentKeys, documentScope,
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

// asUnusable converts the refusal of a registration to an error about a document.
func asUnusable(err error) error {
	var refused *refusal
	if errors.As(err, &refused) {
		return &unusable{refused.description}
	}
	return err
}
