// Package middlewaretest provides an authorization server for tests of protected servers. It has
// no users and no pages: it publishes metadata and keys, as RFC 8414 and RFC 7517 describe them,
// and mints tokens with the claims that a test chooses.
//
// [Issuer.Mint] returns tokens of RFC 9068 that a [middleware.Guard] accepts, and
// [Issuer.MintOpaque] opaque tokens for introspection (RFC 7662). [Issuer.Broken] returns tokens
// that no server may accept, with one fault each, and [Attack] sends them, and more, to your
// server. [Issuer.Revoke], [Issuer.Rotate] and [Issuer.SetDown] test how a server handles a
// revoked token, a change of keys and an outage.
//
//	issuer := middlewaretest.NewIssuer(t)
//	guard, err := middleware.New(middleware.Config{
//		Resource:             "https://notes.example.com/mcp",
//		AuthorizationServers: []string{issuer.URL()},
//	})
//	...
//	request.Header.Set("Authorization", "Bearer "+issuer.Mint(middlewaretest.Claims{
//		"aud":   "https://notes.example.com/mcp",
//		"scope": "notes:read",
//	}))
package middlewaretest

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
)

// Issuer is an authorization server on loopback that lives as long as its test.
type Issuer struct {
	t      testing.TB
	server *httptest.Server

	mu           sync.Mutex
	keys         []jose.JSONWebKey // private; the first signs
	foreignKeys  map[jose.SignatureAlgorithm]any
	down         bool
	cacheControl string
	form         Form
	keyRequests  int
	documents    map[string]any

	secret         string            // of the resource server
	tokens         map[string]Claims // the active ones
	introspections int
}

// NewIssuer starts an issuer on loopback that signs with ES256, and stops it when the test ends.
func NewIssuer(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{
		t: t, documents: make(map[string]any), tokens: make(map[string]Claims),
		foreignKeys: make(map[jose.SignatureAlgorithm]any), form: rfc9068, secret: "100% + & " + rand.Text(),
	}
	i.server = httptest.NewServer(i)
	t.Cleanup(i.server.Close)
	i.Rotate(jose.ES256)
	i.SetDocument(introspectPath, http.HandlerFunc(i.introspect))
	i.SetDocument("/.well-known/oauth-authorization-server", metadata.AuthorizationServer{
		Issuer:                        i.URL(),
		AuthorizationEndpoint:         i.URL() + "/authorize",
		TokenEndpoint:                 i.URL() + "/token",
		JWKSURI:                       i.URL() + "/jwks.json",
		ResponseTypesSupported:        []string{"code"},
		CodeChallengeMethodsSupported: []string{"S256"},

		IntrospectionEndpoint:            i.URL() + introspectPath,
		IntrospectionEndpointAuthMethods: []string{"client_secret_basic"},
	})
	return i
}

// URL returns the issuer identifier.
func (i *Issuer) URL() string { return i.server.URL }

// Rotate replaces all keys by a new one for an algorithm that [NewKey] knows. Tokens that were minted before become invalid. It returns the id of
// the new key.
func (i *Issuer) Rotate(algorithm jose.SignatureAlgorithm) string {
	i.t.Helper()
	key := jose.JSONWebKey{Key: NewKey(i.t, algorithm), KeyID: rand.Text(), Algorithm: string(algorithm), Use: "sig"}
	i.SetKeys(key)
	return key.KeyID
}

// SetKeys replaces all keys. They are private keys; the first one signs, and the
// public halves of all are published.
func (i *Issuer) SetKeys(keys ...jose.JSONWebKey) {
	i.t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
	set := jose.JSONWebKeySet{Keys: make([]jose.JSONWebKey, len(keys))}
	for n, key := range keys {
		set.Keys[n] = key.Public()
	}
	i.documents["/jwks.json"] = set
}

// SetDocument replaces the response at a path: by a document, which is sent as JSON, by an
// http.Handler, or by 404 if document is nil.
func (i *Issuer) SetDocument(path string, document any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.documents[path] = document
}

// SetCacheControl changes the Cache-Control of the key set.
func (i *Issuer) SetCacheControl(value string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cacheControl = value
}

// SetDown makes the issuer answer all requests with 500, or ends that.
func (i *Issuer) SetDown(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// KeyRequests returns the number of requests for the key set so far.
func (i *Issuer) KeyRequests() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keyRequests
}

// ServeHTTP implements http.Handler.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	down, document, cacheControl := i.down, i.documents[r.URL.Path], i.cacheControl
	switch r.URL.Path {
	case "/jwks.json":
		i.keyRequests++
	case introspectPath:
		i.introspections++
	}
	i.mu.Unlock()
	if down {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if document == nil {
		http.NotFound(w, r)
		return
	}
	handler, ok := document.(http.Handler)
	if !ok {
		var err error
		if handler, err = metadata.Serve(document); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
	}
	handler.ServeHTTP(&override{ResponseWriter: w, cacheControl: cacheControl}, r)
}

// override replaces the Cache-Control of an answer.
type override struct {
	http.ResponseWriter
	cacheControl string
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (o *override) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (o *override) WriteHeader(status int) {
	if o.cacheControl != "" {
		o.Header().Set("Cache-Control", o.cacheControl)
	}
	o.ResponseWriter.WriteHeader(status)
}
