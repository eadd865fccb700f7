package doctor_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/doctor"
)

// clinic is a stable whose servers also sign people in. Its fields are the habits that an animal
// changes; a clinic without changes is healthy.
type clinic struct {
	*stable
	t *testing.T

	comeBack      func(url.Values)                           // changes the authorization response
	tell          func(form url.Values, said map[string]any) // changes an answer with tokens
	strange       bool                                       // issues tokens for any resource
	opaque        bool                                       // tokens are not JWTs
	trusting      func(*http.Request, string) bool           // accepts a token that is not valid, or in no header
	demanding     func(*http.Request, grant) int             // refuses a valid token with a status
	stepUp        string                                     // the challenge for too few scopes
	unknown       int                                        // the status for an unknown session
	unguarded     bool                                       // a session needs no token
	forgetful     bool                                       // a code can be redeemed again
	patient       bool                                       // a refusal does not use a code up
	careless      string                                     // what is not compared with the code
	wrongVerifier string                                     // the error for it
	claim         map[string]any                             // claims of tokens in place of others
	asking        bool                                       // nobody comes back without a person
	sticky        bool                                       // refresh tokens are kept
	lenient       bool                                       // replaced refresh tokens work
	strict        bool                                       // ... and a second use at once ends the grant
	explicit      bool                                       // a refresh must name the resource
	hasty         bool                                       // a refused refresh uses the token up
	lasting       bool                                       // tokens survive revocation
	mortal        bool                                       // tokens are refused after their end
	wait          time.Duration                              // how long the examination may wait for that

	mu       sync.Mutex
	access   map[string]grant
	replaced map[string]string // refresh tokens with their successors, "" for the newest
	used     map[string]bool   // refresh tokens whose successor was used
	codes    map[string]bool
	requests map[string]url.Values // by code, the authorization request
	visits   int
	clients  int
	ended    bool
	sent     []string // every secret that was issued
	deleted  bool     // the registration
	slept    time.Duration
}

type grant struct {
	scopes []string
	aud    string
	begun  time.Duration // of what was slept
}

func newClinic(t *testing.T) *clinic {
	c := &clinic{
		stable: healthy(notes, issuer), t: t, access: map[string]grant{}, replaced: map[string]string{}, used: map[string]bool{}, codes: map[string]bool{}, requests: map[string]url.Values{},
		stepUp: `Bearer error="insufficient_scope", scope="notes:read notes:write", resource_metadata="` + placed + `"`, unknown: 404,
	}
	c.server["revocation_endpoint"] = issuer + "/revoke"
	c.with("POST "+issuer+"/register", c.register)
	c.with("DELETE "+issuer+"/register/doctor", c.unregister)
	c.with("DELETE "+issuer+"/register/doctor-2", answer(204, "", ""))
	c.with("POST "+issuer+"/token", c.token)
	c.with("POST "+issuer+"/revoke", c.revoke)
	c.with("POST "+notes, c.call)
	c.with("DELETE "+notes, answer(204, "", ""))
	return c
}

// secret issues a text that nobody else may see.
func (c *clinic) secret() string {
	text := rand.Text()
	c.sent = append(c.sent, text)
	return text
}

func (c *clinic) register(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	id := "doctor"
	if c.clients++; c.clients > 1 {
		id = fmt.Sprintf("doctor-%d", c.clients)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"client_id": id, "token_endpoint_auth_method": "none",
		"registration_client_uri": issuer + "/register/" + id, "registration_access_token": c.secret(),
	})
}

func (c *clinic) unregister(w http.ResponseWriter, r *http.Request) {
	c.deleted = strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ")
	w.WriteHeader(http.StatusNoContent)
}

// token is the token endpoint.
func (c *clinic) token(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = r.ParseForm()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Access-Control-Allow-Origin", "*")
	if failed := c.refusal(r.PostForm); failed != "" {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": failed})
		return
	}
	_ = json.NewEncoder(w).Encode(c.issue(r.PostForm))
}

func (c *clinic) refusal(form url.Values) string {
	if id := form.Get("client_id"); id != "doctor" && id != "doctor-2" {
		return "invalid_client"
	}
	if !form.Has("resource") && !c.explicit { // the resource of the grant
		form.Set("resource", notes)
	}
	if form.Get("resource") != notes && !c.strange {
		c.ended = c.ended || c.hasty
		return "invalid_target"
	}
	if code := form.Get("code"); code != "" {
		fresh := c.codes[code]
		fits := fresh && c.fits(form)
		c.codes[code] = c.forgetful || fresh && !fits && c.patient
		if !fits && c.wrongVerifier != "" {
			return c.wrongVerifier
		}
		return map[bool]string{false: "invalid_grant"}[fits]
	}
	return c.refuseRefresh(form.Get("refresh_token"))
}

func (c *clinic) refuseRefresh(old string) string {
	next, known := c.replaced[old]
	switch {
	case !known || c.ended:
		return "invalid_grant"
	case next != "" && (c.strict || c.used[old] && !c.lenient):
		c.ended = true
		return "invalid_grant"
	}
	for before, after := range c.replaced {
		if after == old {
			c.used[before] = true
		}
	}
	return ""
}

func (c *clinic) issue(form url.Values) map[string]any {
	scope := form.Get("scope")
	if scope == "" {
		scope = "notes:read notes:write"
	}
	part := func(v any) string {
		text, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	aud, signature := form.Get("resource"), c.secret()
	token := part(map[string]string{"alg": "ES256"}) + "." + part(c.said(aud, scope)) + "." + signature
	if c.opaque {
		token = signature
	}
	said := map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 600, "scope": scope, "refresh_token": c.renewed(form.Get("refresh_token"))}
	if c.tell != nil {
		c.tell(form, said)
	}
	token, _ = said["access_token"].(string)
	c.access[token] = grant{strings.Fields(scope), form.Get("resource"), c.slept}
	return said
}

// renewed returns the refresh token after another. Until the successor is used, it is the same.
func (c *clinic) renewed(old string) string {
	if c.sticky && old != "" {
		return old
	}
	if next := c.replaced[old]; next != "" {
		return next
	}
	next := c.secret()
	c.replaced[next] = ""
	if old != "" {
		c.replaced[old] = next
	}
	return next
}

func (c *clinic) revoke(w http.ResponseWriter, r *http.Request) {
	c.ended = c.ended || r.FormValue("token") != "doctor-unknown-token"
	w.WriteHeader(http.StatusOK)
}

// call is the protected server.
func (c *clinic) call(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	session := r.Header.Get("Mcp-Session-Id")
	g, valid := c.access[token]
	valid = valid && g.aud == notes && (!c.ended || c.lasting) && (!c.mortal || c.slept-g.begun < 10*time.Minute)
	if c.trusting != nil && c.trusting(r, token) {
		valid, g = true, grant{scopes: []string{"notes:read", "notes:write"}}
	}
	switch {
	case session == "begun" && c.unguarded && token == "":
	case !valid:
		c.guard(w, r)
		return
	case c.demands(w, r, g):
		return
	case session != "" && session != "begun":
		w.WriteHeader(c.unknown)
		return
	}
	w.Header().Set("Mcp-Session-Id", "begun")
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
}

// demands refuses a request although its token is valid.
func (c *clinic) demands(w http.ResponseWriter, r *http.Request, g grant) bool {
	if c.demanding == nil {
		return false
	}
	status := c.demanding(r, g)
	if status != 0 {
		w.Header().Set("WWW-Authenticate", c.stepUp)
		w.WriteHeader(status)
	}
	return status != 0
}

// visit is a person who allows everything: it comes back from the sign-in with a code.
func (c *clinic) visit(_ context.Context, at string) error {
	u, err := url.Parse(at)
	if err != nil {
		return err
	}
	c.mu.Lock()
	code := c.secret()
	c.codes[code], c.requests[code] = true, u.Query()
	c.visits++
	c.mu.Unlock()
	back := url.Values{"code": {code}, "state": {u.Query().Get("state")}, "iss": {issuer}}
	if c.asking && u.Query().Get("prompt") == "none" {
		back.Del("code")
		back.Set("error", "consent_required")
	}
	if c.comeBack != nil {
		c.comeBack(back)
	}
	answer, err := http.Get(u.Query().Get("redirect_uri") + "?" + back.Encode())
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// examined examines the servers with a sign-in. Nothing secret may be in the report or in what is
// told meanwhile.
func (c *clinic) examined(with func(context.Context, string) error) *doctor.Report {
	c.t.Helper()
	var shown strings.Builder
	o := options(c.open())
	o.SignIn, o.Register, o.Token = with, false, ""
	o.Expiry, o.Sleep = c.wait, func(_ context.Context, d time.Duration) error { c.slept += d; return nil }
	o.Progress = func(method, url string) { fmt.Fprintln(&shown, method, url) }
	report, err := doctor.Check(context.Background(), c.target, o)
	if err != nil {
		c.t.Fatal(err)
	}
	text, _ := json.Marshal(report)
	shown.Write(text)
	if at := slices.IndexFunc(c.sent, func(secret string) bool { return strings.Contains(shown.String(), secret) }); at >= 0 {
		c.t.Errorf("secret %d of %d is shown:\n%s", at, len(c.sent), strings.ReplaceAll(shown.String(), c.sent[at], "<HERE>"))
	}
	return report
}
