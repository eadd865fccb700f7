package doctor

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// MaxSignIn is how long a person may take to sign in. MaxSignInRequests bounds the requests of an
// examination with a sign-in.
const (
	MaxSignIn         = 5 * time.Minute
	MaxSignInRequests = MaxRequests + 30
)

// grant is what a sign-in of the doctor's own client led to.
type grant struct {
	began   bool       // the person was asked
	back    url.Values // the authorization response, nil without one
	reason  string     // why there is none
	issuer  string     // of the metadata
	promise bool       // the metadata promises iss
	token   *document  // the answer to the code
	again   *document  // the answer to the same code a second time
	refresh *document  // the answer to the refresh token
	twice   []*document
}

// signIn has a person sign in for a client of the doctor's own, and tries what it gets. The
// client and the grant are removed again.
func (w *walker) signIn(parent context.Context) {
	s := w.first()
	d := s.metadata()
	if d == nil || w.endpoint(d, "authorization_endpoint") == "" || w.endpoint(d, "token_endpoint") == "" {
		return
	}
	w.courier.limit = MaxSignInRequests
	w.grant = &grant{issuer: d.text("issuer"), promise: d.yes("authorization_response_iss_parameter_supported")}
	callback, err := listen()
	if err != nil {
		w.grant.reason = err.Error()
		return
	}
	defer callback.server.Close()
	ctx, cancel := context.WithTimeout(parent, MaxTime)
	defer cancel()
	own := w.registered(ctx, w.endpoint(d, "registration_endpoint"), "", map[string]any{
		"redirect_uris": []string{callback.uri}, "client_name": "authz doctor", "application_type": "native", "token_endpoint_auth_method": "none",
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
	})
	id := own.answer.text("client_id")
	if id == "" {
		w.grant.reason = "no client: " + own.answer.exchange.String()
		return
	}
	w.person(parent, callback, w.endpoint(d, "authorization_endpoint"), id)
	ctx, cancel = context.WithTimeout(parent, MaxTime)
	defer cancel()
	if w.grant.back.Get("code") != "" {
		w.useGrant(ctx, d, id, callback)
	}
	w.remove(ctx, s, own)
}

// first returns the authorization server that clients use, an empty one without any.
func (w *walker) first() *server {
	if len(w.servers) == 0 {
		return &server{}
	}
	return w.servers[0]
}

// person sends a person to the authorization endpoint and waits for the response.
func (w *walker) person(parent context.Context, c *callback, at, client string) {
	v := w.authorization(client, c.uri)
	v.Set("state", c.state)
	sum := sha256.Sum256([]byte(c.verifier))
	v.Set("code_challenge", base64.RawURLEncoding.EncodeToString(sum[:]))
	ctx, cancel := context.WithTimeout(parent, MaxSignIn)
	defer cancel()
	w.grant.began = true
	if err := w.options.SignIn(ctx, withQuery(at, v)); err != nil {
		w.grant.reason = err.Error()
		return
	}
	select {
	case w.grant.back = <-c.arrived:
		w.secrets = append(w.secrets, nonEmpty(w.grant.back.Get("code"))...)
	case <-ctx.Done():
		w.grant.reason = "nobody came back within " + MaxSignIn.String()
	}
}

// useGrant redeems the code, and tries the tokens. Each is the doctor's own.
func (w *walker) useGrant(ctx context.Context, d *document, client string, c *callback) {
	at := w.endpoint(d, "token_endpoint")
	code := url.Values{"grant_type": {"authorization_code"}, "code": {w.grant.back.Get("code")}, "client_id": {client},
		"redirect_uri": {c.uri}, "code_verifier": {c.verifier}, "resource": {w.identity()}}
	w.grant.token = w.tokens(ctx, at, code)
	access, refresh := w.grant.token.text("access_token"), w.grant.token.text("refresh_token")
	w.withToken(ctx, access)
	if access != "" && !plain(w.target) {
		q := w.message("token.query", sessions, initializeBody, nil)
		q.url = withQuery(q.url, url.Values{"access_token": {access}})
		w.ask(ctx, q).url = w.target + "?access_token=[token]"
	}
	if refresh != "" {
		w.tryRefresh(ctx, at, client, refresh)
	}
	if access != "" {
		w.grant.again = w.tokens(ctx, at, code)
	}
	w.revoke(ctx, d, client)
}

// tokens asks the token endpoint, and keeps what it answers out of every report.
func (w *walker) tokens(ctx context.Context, at string, form url.Values) *document {
	e := w.askOpenly(ctx, question{"grant", http.MethodPost, at, http.Header{
		"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"},
	}, form.Encode()})
	d := newDocumentOf(e)
	w.secrets = append(w.secrets, nonEmpty(d.text("access_token"), d.text("refresh_token"), d.text("id_token"))...)
	e.hide(w.secrets)
	return d
}

// nonEmpty returns the texts that can be secrets: what is shorter than eight bytes is a word of
// the protocol.
func nonEmpty(texts ...string) (all []string) {
	for _, t := range texts {
		if len(t) >= 8 {
			all = append(all, t)
		}
	}
	return all
}

// tryRefresh refreshes without resource, as some clients do, calls the server with the new token,
// and refreshes twice at once, as the processes of one client do.
func (w *walker) tryRefresh(ctx context.Context, at, client, refresh string) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}, "client_id": {client}}
	w.grant.refresh = w.tokens(ctx, at, form)
	if access := w.grant.refresh.text("access_token"); access != "" && !plain(w.target) {
		w.ask(ctx, w.message("token.refreshed", sessions, initializeBody, http.Header{"Authorization": {"Bearer " + access}}))
	}
	w.grant.twice = append(w.grant.twice, w.tokens(ctx, at, form))
}

// revoke ends the grant (RFC 7009).
func (w *walker) revoke(ctx context.Context, d *document, client string) {
	at := w.endpoint(d, "revocation_endpoint")
	newest := w.grant.token.text("refresh_token")
	if t := w.grant.refresh.text("refresh_token"); t != "" {
		newest = t
	}
	var e *exchange
	if at != "" && newest != "" {
		form := url.Values{"token": {newest}, "token_type_hint": {"refresh_token"}, "client_id": {client}}
		e = w.ask(ctx, question{"revoke", http.MethodPost, at, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, form.Encode()})
	}
	if newest != "" && !e.ok() {
		w.left = append(w.left, "the grant of client "+clean(client)+" at "+clean(d.text("issuer")))
	}
}

// callback waits for the authorization response on loopback.
type callback struct {
	server          *http.Server
	uri             string
	state, verifier string
	arrived         chan url.Values // takes one
	once            sync.Once
}

func listen() (*callback, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &callback{uri: "http://" + l.Addr().String() + "/callback", state: rand.Text(), verifier: rand.Text() + rand.Text(), arrived: make(chan url.Values, 1)}
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: patience, ReadTimeout: patience, MaxHeaderBytes: maxHeader}
	go func() { _ = c.server.Serve(l) }()
	return c, nil
}

// ServeHTTP takes the first response with the right state.
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	if r.Method != http.MethodGet || r.URL.Path != "/callback" || v.Get("state") != c.state || strings.Contains(r.Header.Get("Purpose"), "prefetch") {
		http.NotFound(w, r)
		return
	}
	c.once.Do(func() { c.arrived <- v })
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte("Back in the terminal. This window can be closed.\n"))
}
