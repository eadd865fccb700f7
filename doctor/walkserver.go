package doctor

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// unknownClient and unknownRedirect are of no client of anybody.
const (
	unknownClient   = "doctor-unknown-client"
	unknownRedirect = "https://doctor.example.com/callback"
)

// server asks an authorization server, which may be guessed.
func (w *walker) server(ctx context.Context, issuer string, guessed bool) {
	s := &server{issuer: issuer, guessed: guessed}
	w.servers = append(w.servers, s)
	for _, at := range metadataPlaces(issuer) {
		s.documents = append(s.documents, newDocument(w.fetch(ctx, "server."+at.form, at.url), at.form))
	}
	d := s.metadata()
	if d == nil {
		w.strayDocument(ctx, s)
		return
	}
	begin := len(w.exchanges)
	w.browser(ctx, "server", d.url)
	if at := w.endpoint(d, "jwks_uri"); at != "" {
		w.ask(ctx, question{"keys", http.MethodGet, at, http.Header{"Accept": {"application/json"}}, ""})
	}
	w.tokenEndpoint(ctx, d)
	w.authorizationEndpoint(ctx, d)
	if at := w.endpoint(d, "registration_endpoint"); at != "" {
		w.ask(ctx, preflight("register.preflight", at, http.MethodPost, "content-type"))
	}
	s.calls = slices.Clone(w.exchanges[begin:])
	if w.options.Register {
		w.register(ctx, s)
	}
}

// place is where metadata of an issuer may be.
type place struct{ form, url string }

// metadataPlaces returns where clients look for the metadata of an issuer, in their order (RFC
// 8414 section 3.1, OpenID Connect Discovery section 4).
func metadataPlaces(issuer string) []place {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	places := []place{
		{"oauth", origin + "/.well-known/oauth-authorization-server" + path},
		{"openid", origin + "/.well-known/openid-configuration" + path},
	}
	if path != "" {
		places = append(places, place{"openid-appended", origin + path + "/.well-known/openid-configuration"})
	}
	return places
}

// strayDocument asks for the authorization endpoint of servers without metadata, and looks where
// no client looks, to tell what is wrong: appended to the issuer's path, and at the root.
func (w *walker) strayDocument(ctx context.Context, s *server) {
	for _, at := range []place{{"fallback", strings.TrimSuffix(s.issuer, "/")}, {"fallback.root", origin(s.issuer)}} {
		to := withQuery(at.url+"/authorize", w.authorization(unknownClient, unknownRedirect))
		s.calls = append(s.calls, w.ask(ctx, question{at.form, http.MethodGet, to, http.Header{"Accept": {"text/html"}}, ""}))
	}
	u, err := url.Parse(s.issuer)
	if err != nil || strings.Trim(u.Path, "/") == "" {
		return
	}
	const name = "/.well-known/oauth-authorization-server"
	for _, at := range []string{strings.TrimSuffix(s.issuer, "/") + name, u.Scheme + "://" + u.Host + name} {
		s.calls = append(s.calls, w.fetch(ctx, "server.stray", at))
	}
}

// endpoint returns an endpoint of the metadata if it is a URL that can be asked.
func (w *walker) endpoint(d *document, name string) string {
	at := d.text(name)
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "https" && u.Scheme != "http") {
		return ""
	}
	return u.String() // escapes what a terminal might take for a command
}

// tokenEndpoint asks for a token with a code and a client that do not exist.
func (w *walker) tokenEndpoint(ctx context.Context, d *document) {
	at := w.endpoint(d, "token_endpoint")
	if at == "" {
		return
	}
	w.ask(ctx, preflight("token.preflight", at, http.MethodPost, "content-type,mcp-protocol-version"))
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {"doctor-unknown-code"}, "client_id": {unknownClient},
		"redirect_uri": {unknownRedirect}, "code_verifier": {verifier}, "resource": {w.identity()},
	}
	w.ask(ctx, question{"token", http.MethodPost, at, http.Header{
		"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}, "Origin": {browserOrigin},
	}, form.Encode()})
}

// verifier is a PKCE code verifier, and challenge the S256 challenge for it (the example of RFC
// 7636 appendix B): nothing is protected by it.
const (
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

// authorizationEndpoint sends the request of a client that does not exist.
func (w *walker) authorizationEndpoint(ctx context.Context, d *document) {
	at := w.endpoint(d, "authorization_endpoint")
	if at == "" {
		return
	}
	w.ask(ctx, question{"authorize.unknown", http.MethodGet, withQuery(at, w.authorization(unknownClient, unknownRedirect)), http.Header{
		"Accept": {"text/html"}, "Origin": {browserOrigin},
	}, ""})
}

// authorization returns the parameters of an authorization request.
func (w *walker) authorization(client, redirect string) url.Values {
	v := url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {redirect}, "state": {"doctor-state"},
		"code_challenge": {challenge}, "code_challenge_method": {"S256"},
	}
	if !w.alone {
		v.Set("resource", w.identity())
	}
	if scope := w.scopes(); scope != "" {
		v.Set("scope", scope)
	}
	return v
}

// withQuery adds parameters to a URL that may have some.
func withQuery(at string, v url.Values) string {
	if strings.Contains(at, "?") {
		return at + "&" + v.Encode()
	}
	return at + "?" + v.Encode()
}

// marshal returns JSON of a value that always has one.
func marshal(value any) []byte {
	out, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return out
}
