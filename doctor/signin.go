package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The bounds of a sign-in, beside those of the rest of an examination.
const (
	// MaxSignInRequests bounds the requests with a sign-in, beside [MaxRequests]; what removes the
	// registration and the grant again is among them. Those with [Options].Token are among MaxRequests.
	MaxSignInRequests = 40
	// MaxWait is how long an examination waits for the person.
	MaxWait = 5 * time.Minute
)

// ErrToken reports a token that cannot be sent: it is no bearer token (RFC 6750 section 2.1), or
// the target is plain http on another machine.
var ErrToken = errors.New("the token cannot be sent")

// signIn is the record of a sign-in. Its exchanges are also among those of the walk, by place.
type signIn struct {
	untried   string // why there was no sign-in, for people
	issuer    string
	document  *document
	redirect  string
	client    client
	answer    url.Values // what the browser brought back; nil if it did not come
	waited    string     // why it did not come
	state     string
	verifier  string
	asked     []string  // scopes
	issued    []*tokens // all answers with a token, in their order
	first     *tokens   // for the code
	renewed   *tokens   // by the first refresh
	bare      *tokens   // by a refresh without resource
	elsewhere *tokens   // for another resource
	narrowed  *tokens   // for one of the scopes
	unspent   *tokens   // by a refresh after one that was refused
	parallel  []*tokens // two refreshes at once
	after     *tokens   // a refresh after them
	replayed  *tokens   // for a refresh token whose successor was used
	again     *tokens   // for the code, a second time
	unexpired string    // why the end of the first token was not waited for
}

// client is what the doctor is at an authorization server.
type client struct {
	id, secret, method string
	uri, token         string // to remove it (RFC 7592), "" if it cannot be removed
}

// bearerToken is the syntax of bearer tokens (RFC 6750 section 2.1).
var bearerToken = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// tokenFits refuses a token that must not be sent to a target.
func (o *Options) tokenFits(target *url.URL) error {
	switch {
	case o.Token == "" && o.SignIn == nil:
		return nil
	case o.Token != "" && o.SignIn != nil:
		return fmt.Errorf("doctor: %w: give a token or a sign-in", ErrToken)
	case o.Token != "" && (len(o.Token) > maxHeader/4 || !bearerToken.MatchString(o.Token)):
		return fmt.Errorf("doctor: %w: it is not a bearer token", ErrToken)
	case target.Scheme != "https" && !loopback(target.Hostname()):
		return fmt.Errorf("doctor: %w to %s over http", ErrToken, clean(target.Hostname()))
	}
	return nil
}

// withPerson asks what needs a grant of the doctor's own.
func (w *walker) withPerson(parent context.Context) {
	if w.options.SignIn == nil {
		return
	}
	w.signIn = &signIn{}
	w.courier.most += MaxSignInRequests
	if w.dead() {
		w.signIn.untried = "the target was not reached"
		return
	}
	defer w.leave(parent)
	w.within(parent, w.become)
	if w.signIn.untried == "" && w.person(parent) {
		w.within(parent, w.redeem)
		w.expire(parent)
		w.within(parent, w.renew)
	}
}

func (w *walker) within(parent context.Context, do func(context.Context)) {
	ctx, cancel := context.WithTimeout(parent, MaxTime)
	defer cancel()
	do(ctx)
}

// become finds the authorization server, and becomes a client of it.
func (w *walker) become(ctx context.Context) {
	s := w.signIn
	if s.untried = w.findSignIn(); s.untried != "" {
		return
	}
	if err := w.listen(); err != nil {
		s.untried = err.Error()
		return
	}
	if s.client.id = w.options.ClientID; s.client.id != "" {
		return
	}
	at := w.endpoint(s.document, "registration_endpoint")
	if at == "" || !private(at) {
		s.untried = "there is no registration_endpoint with https, and no client was given"
		return
	}
	body := map[string]any{
		"client_name": "authz doctor", "redirect_uris": []string{s.redirect}, "application_type": "native",
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"}, "token_endpoint_auth_method": "none",
	}
	if scope := strings.Join(w.wanted(), " "); scope != "" {
		body["scope"] = scope
	}
	e := w.ask(ctx, question{"sign-in.register", http.MethodPost, at, http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json"},
	}, string(marshal(body))})
	if s.client = w.ownClient(e, at); !e.answered() {
		s.untried = e.String()
	}
}

// findSignIn chooses the first authorization server with metadata. It returns why there is none.
func (w *walker) findSignIn() string {
	for _, one := range w.servers {
		if w.signIn.issuer, w.signIn.document = one.issuer, one.metadata(); w.signIn.document != nil {
			break
		}
	}
	if w.signIn.document == nil {
		return "no authorization server was found"
	}
	for _, name := range []string{"authorization_endpoint", "token_endpoint"} {
		if at := w.endpoint(w.signIn.document, name); at == "" || !private(at) {
			return "the metadata has no " + name + " with https"
		}
	}
	w.signIn.asked = w.wanted()
	return ""
}

// private reports whether nobody on the way reads what is sent to a URL.
func private(at string) bool {
	u, err := url.Parse(at)
	return err == nil && (u.Scheme == "https" || loopback(u.Hostname()))
}

// wanted returns the scopes for which the doctor asks: as clients do, and offline_access where the
// authorization server knows it (MCP Refresh Tokens). At an authorization server alone nobody says
// more than what its metadata has: openid, as many providers do not go on without it.
func (w *walker) wanted() []string {
	scopes := strings.Fields(w.scopes())
	known, _ := w.signIn.document.list("scopes_supported")
	for _, more := range []string{"openid", "offline_access"} {
		if slices.Contains(known, more) && !slices.Contains(scopes, more) && (w.alone || more != "openid") {
			scopes = append(scopes, more)
		}
	}
	return scopes
}

// ownClient reads the answer to a registration (RFC 7591 section 3.2.1). Where the registration
// can be removed must be at the same origin.
func (w *walker) ownClient(e *exchange, at string) (c client) {
	if e.code()/100 != 2 {
		return c
	}
	d := newDocument(&exchange{status: http.StatusOK, body: e.body, cut: e.cut}, "")
	c = client{id: d.text("client_id"), secret: d.text("client_secret"), method: d.text("token_endpoint_auth_method")}
	if len(c.id) > 2048 {
		c.id = ""
	}
	c.uri, c.token = d.text("registration_client_uri"), d.text("registration_access_token")
	w.hide.add(c.secret, c.token)
	w.hide.scrubBody(e)
	if !sameOrigin(c.uri, at) || !bearerToken.MatchString(c.token) {
		c.uri = ""
	}
	return c
}

// address returns where the person signs in. Nothing in it can command a terminal.
func (w *walker) address() string {
	s := w.signIn
	s.state, s.verifier = rand.Text(), rand.Text()+rand.Text()
	sum := sha256.Sum256([]byte(s.verifier))
	v := url.Values{
		"response_type": {"code"}, "client_id": {s.client.id}, "redirect_uri": {s.redirect}, "state": {s.state},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	if len(s.asked) > 0 {
		v.Set("scope", strings.Join(s.asked, " "))
	}
	if slices.Contains(s.asked, "offline_access") {
		v.Set("prompt", "consent") // OpenID Connect Core section 11
	}
	w.addResource(v)
	return ascii(withQuery(w.endpoint(s.document, "authorization_endpoint"), v))
}

// addResource names the resource in a request, as clients do that found metadata.
func (w *walker) addResource(v url.Values) {
	if !w.alone && w.resource() != nil {
		v.Set("resource", w.identity())
	}
}

// ascii escapes what is not printable ASCII in a URL.
func ascii(at string) string {
	var out strings.Builder
	for _, c := range []byte(at) {
		if c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			fmt.Fprintf(&out, "%%%02X", c)
			continue
		}
		out.WriteByte(c)
	}
	return out.String()
}

// redeem redeems the code and calls the target with the token.
func (w *walker) redeem(ctx context.Context) {
	s := w.signIn
	w.hide.add(s.answer.Get("code"), s.verifier)
	s.first = w.obtain(ctx, "sign-in.token", w.codeForm())
	if !s.first.ok {
		return
	}
	if !w.alone {
		w.withToken(ctx, s.first.access)
		w.abuse(ctx)
	}
}

// renew tries the refresh token, and in the end what ends the grant: the code a second time.
func (w *walker) renew(ctx context.Context) {
	s := w.signIn
	if s.first == nil || !s.first.ok {
		return
	}
	w.refresh(ctx)
	s.again = w.obtain(ctx, "sign-in.token-again", w.codeForm())
}

// codeForm is the request that redeems the code.
func (w *walker) codeForm() url.Values {
	s := w.signIn
	form := url.Values{"grant_type": {"authorization_code"}, "code": {s.answer.Get("code")}, "redirect_uri": {s.redirect}, "code_verifier": {s.verifier}}
	w.addResource(form)
	return form
}

// scope returns the scopes of the first token as far as they are known.
func (s *signIn) scope() []string {
	return strings.Fields(cmp.Or(s.first.scope, s.first.claim("scope"), strings.Join(s.asked, " ")))
}
