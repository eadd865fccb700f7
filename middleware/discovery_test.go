package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestDiscovery publishes valid and invalid metadata, and checks whether the keys are found.
func TestDiscovery(t *testing.T) {
	type server = metadata.AuthorizationServer
	good := func(i *middlewaretest.Issuer) server { return server{Issuer: i.URL(), JWKSURI: i.URL() + jwkPath} }
	body := func(format string) func(i *middlewaretest.Issuer) {
		return func(i *middlewaretest.Issuer) {
			text := strings.NewReplacer("ISSUER", i.URL(), "KEYS", i.URL()+jwkPath).Replace(format)
			i.SetDocument(asPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
		}
	}
	jwks := func(text string) func(i *middlewaretest.Issuer) {
		return func(i *middlewaretest.Issuer) {
			i.SetDocument(jwkPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
		}
	}
	for name, tt := range map[string]struct {
		change func(*middlewaretest.Issuer)
		want   int
	}{
		"as it is": {func(*middlewaretest.Issuer) {}, 200},
		"openid configuration alone": {func(i *middlewaretest.Issuer) {
			i.SetDocument(asPath, nil)
			i.SetDocument("/.well-known/openid-configuration", good(i))
		}, 200},
		"unknown members":   {body(`{"issuer":"ISSUER","jwks_uri":"KEYS","subject_types_supported":["public"],"mtls_endpoint_aliases":{"a":"b"}}`), 200},
		"other case beside": {body(`{"issuer":"ISSUER","jwks_uri":"KEYS","JWKS_URI":"http://127.0.0.1:1/","Issuer":"x"}`), 200},

		"no metadata":         {func(i *middlewaretest.Issuer) { i.SetDocument(asPath, nil) }, 503},
		"metadata is a page":  {body(`<!doctype html><title>Sign in</title>`), 503},
		"another issuer":      {body(`{"issuer":"https://auth.example.com","jwks_uri":"KEYS"}`), 503},
		"issuer with a slash": {body(`{"issuer":"ISSUER/","jwks_uri":"KEYS"}`), 503},
		"no issuer":           {body(`{"jwks_uri":"KEYS"}`), 503},
		"issuer twice":        {body(`{"issuer":"https://auth.example.com","issuer":"ISSUER","jwks_uri":"KEYS"}`), 503},
		"no jwks_uri":         {body(`{"issuer":"ISSUER"}`), 503},
		"jwks_uri not https":  {body(`{"issuer":"ISSUER","jwks_uri":"http://keys.example.com/"}`), 503},
		"jwks_uri a file":     {body(`{"issuer":"ISSUER","jwks_uri":"file:///etc/passwd"}`), 503},
		"jwks_uri relative":   {body(`{"issuer":"ISSUER","jwks_uri":"/jwks.json"}`), 503},
		"jwks_uri twice":      {body(`{"issuer":"ISSUER","jwks_uri":"KEYS","jwks_uri":"KEYS"}`), 503},
		"too large":           {body(`{"issuer":"ISSUER","jwks_uri":"KEYS","x":"` + strings.Repeat("x", 64<<10) + `"}`), 503},
		"metadata redirects": {func(i *middlewaretest.Issuer) {
			i.SetDocument(asPath, http.RedirectHandler("/elsewhere", http.StatusFound))
			i.SetDocument("/elsewhere", good(i))
		}, 503},
		"keys redirect": {func(i *middlewaretest.Issuer) {
			i.SetDocument(jwkPath, http.RedirectHandler("/elsewhere", http.StatusTemporaryRedirect))
		}, 503},
		"no keys":             {func(i *middlewaretest.Issuer) { i.SetDocument(jwkPath, nil) }, 503},
		"empty set":           {jwks(`{"keys":[]}`), 503},
		"keys are null":       {jwks(`{"keys":null}`), 503},
		"keys are not a list": {jwks(`{"keys":{}}`), 503},
		"keys are a page":     {jwks(`<html>`), 503},
		"keys twice":          {jwks(`{"keys":[],"keys":[]}`), 503},
		"keys too large":      {jwks(`{"keys":[` + strings.Repeat(" ", 64<<10) + `]}`), 503},
		"only keys of no use": {jwks(`{"keys":[{"kty":"oct","k":"AAAA","kid":"a"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA","kid":"b"},{"kty":"ZZ","kid":"c"},7,null]}`), 503},
		"connection breaks off": {func(i *middlewaretest.Issuer) {
			i.SetDocument(jwkPath, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		}, 503},
		"body shorter than said": {func(i *middlewaretest.Issuer) {
			i.SetDocument(asPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				_, _ = w.Write([]byte("{"))
			}))
		}, 503},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := middlewaretest.NewIssuer(t)
			tt.change(issuer)
			wantStatus(t, newGuard(t, issuer), withToken(issuer.Mint(claims{"aud": resource})), tt.want)
		})
	}
}

// TestKeySets signs with the first of several keys, and checks that the right one is used.
func TestKeySets(t *testing.T) {
	key := func(algorithm jose.SignatureAlgorithm, change ...func(*jose.JSONWebKey)) jose.JSONWebKey {
		k := jose.JSONWebKey{Key: middlewaretest.NewKey(t, algorithm), KeyID: "one", Algorithm: string(algorithm)}
		for _, c := range change {
			c(&k)
		}
		return k
	}
	id := func(id string) func(*jose.JSONWebKey) { return func(k *jose.JSONWebKey) { k.KeyID = id } }
	use := func(use string) func(*jose.JSONWebKey) { return func(k *jose.JSONWebKey) { k.Use = use } }
	for name, tt := range map[string]struct {
		keys []jose.JSONWebKey
		want int
	}{
		"no use":                             {[]jose.JSONWebKey{key(jose.ES256)}, 200},
		"for signatures":                     {[]jose.JSONWebKey{key(jose.ES256, use("sig"))}, 200},
		"among others":                       {[]jose.JSONWebKey{key(jose.ES256), key(jose.EdDSA, id("two")), key(jose.RS256, id("three"))}, 200},
		"one id for keys of different kinds": {[]jose.JSONWebKey{key(jose.EdDSA), key(jose.ES256), key(jose.RS256)}, 200},
		"beside a key of another curve":      {[]jose.JSONWebKey{key(jose.ES256), key(jose.ES384)}, 200},
		"for encryption":                     {[]jose.JSONWebKey{key(jose.ES256, use("enc")), key(jose.ES256, id("two"))}, 401},
		"another curve":                      {[]jose.JSONWebKey{key(jose.ES384), key(jose.ES256, id("two"))}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := middlewaretest.NewIssuer(t)
			issuer.SetKeys(tt.keys...)
			wantStatus(t, newGuard(t, issuer), withToken(issuer.Mint(claims{"aud": resource})), tt.want)
		})
	}
}

func TestKeysOfUnknownKindsAreLeftOut(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	key := jose.JSONWebKey{Key: middlewaretest.NewKey(t, jose.ES256), KeyID: "one", Algorithm: string(jose.ES256)}
	issuer.SetKeys(key)
	issuer.SetDocument(jwkPath, map[string]any{"keys": []any{
		map[string]any{"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}, map[string]any{"kty": "future"}, "text", nil,
		map[string]any{"kty": "OKP", "crv": "X25519", "x": "AAAA"}, map[string]any{"kty": "RSA", "n": strings.Repeat("_", 1400), "e": "AQAB"}, key.Public(),
	}})
	wantStatus(t, newGuard(t, issuer), withToken(issuer.Mint(claims{"aud": resource})), 200)
}

func TestAlgorithmOfTheKeyBinds(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	private := middlewaretest.NewKey(t, jose.RS256)
	key := jose.JSONWebKey{Key: private, KeyID: "one", Algorithm: string(jose.PS256)}
	issuer.SetKeys(key)
	token := issuer.Mint(claims{"aud": resource})
	public := key.Public()
	public.Algorithm = string(jose.RS256)
	issuer.SetDocument(jwkPath, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}})
	wantStatus(t, newGuard(t, issuer), withToken(token), 401)
	public.Algorithm = ""
	issuer.SetDocument(jwkPath, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}})
	wantStatus(t, newGuard(t, issuer), withToken(token), 200)
}

func TestSeveralIssuers(t *testing.T) {
	one, two, three := middlewaretest.NewIssuer(t), middlewaretest.NewIssuer(t), middlewaretest.NewIssuer(t)
	guard := newGuard(t, one, func(c *middleware.Config) { c.AuthorizationServers = append(c.AuthorizationServers, two.URL()) })
	for _, issuer := range []*middlewaretest.Issuer{one, two} {
		if token := passes(t, guard, withToken(issuer.Mint(claims{"aud": resource}))); token.Issuer != issuer.URL() {
			t.Errorf("the issuer is %s", token.Issuer)
		}
	}
	refused(t, guard, withToken(three.Mint(claims{"aud": resource})), http.StatusUnauthorized)
	// A token of one issuer that names another one is refused.
	refused(t, guard, withToken(two.Mint(claims{"aud": resource, "iss": one.URL()})), http.StatusUnauthorized)
	// While one issuer is down, tokens of the other are accepted.
	four := middlewaretest.NewIssuer(t)
	guard = newGuard(t, one, func(c *middleware.Config) { c.AuthorizationServers = append(c.AuthorizationServers, four.URL()) })
	four.SetDown(true)
	wantStatus(t, guard, withToken(four.Mint(claims{"aud": resource})), 503)
	wantStatus(t, guard, withToken(one.Mint(claims{"aud": resource})), 200)
}

func TestIssuerWithAPath(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	tenant := issuer.URL() + "/tenant"
	doc := metadata.AuthorizationServer{Issuer: tenant, JWKSURI: issuer.URL() + jwkPath}
	for _, path := range []string{asPath + "/tenant", "/.well-known/openid-configuration/tenant", "/tenant/.well-known/openid-configuration"} {
		issuer.SetDocument(path, doc)
		guard := newGuard(t, issuer, func(c *middleware.Config) { c.AuthorizationServers = []string{tenant} })
		wantStatus(t, guard, withToken(issuer.Mint(claims{"aud": resource, "iss": tenant})), 200)
		wantStatus(t, guard, withToken(issuer.Mint(claims{"aud": resource})), 401)
		issuer.SetDocument(path, nil)
	}
}

// TestClientOfTheConfiguration checks that requests to an issuer use the transport of the
// configured client, have no credentials, and leave the client unchanged.
func TestClientOfTheConfiguration(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	var seen []*http.Request
	client := &http.Client{
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			seen = append(seen, r)
			return http.DefaultTransport.RoundTrip(r)
		}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return nil },
	}
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Client = client })
	wantStatus(t, guard, withToken(issuer.Mint(claims{"aud": resource})), 200)
	if len(seen) != 2 || seen[0].URL.Path != asPath || seen[1].URL.Path != jwkPath {
		t.Fatalf("the client was used for %v", seen)
	}
	for _, r := range seen {
		if r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
			t.Errorf("credentials went to the issuer: %v", r.Header)
		}
	}
	if client.Timeout != 0 {
		t.Error("the client of the caller was changed")
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestUnreachableIssuer(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.AuthorizationServers = []string{gone.URL} })
	header := wantStatus(t, guard, withToken(issuer.Mint(claims{"aud": resource, "iss": gone.URL})), 503)
	if header.Get("Retry-After") == "" {
		t.Errorf("%v", header)
	}
}

func TestHangingIssuer(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	ended := make(chan struct{})
	issuer.SetDocument(asPath, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done() // until the guard gives up
		close(ended)
	}))
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Client = &http.Client{Timeout: 50 * time.Millisecond} })
	wantStatus(t, guard, withToken(issuer.Mint(claims{"aud": resource})), 503)
	<-ended
}
