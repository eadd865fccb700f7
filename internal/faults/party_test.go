//go:build e2e

package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"
)

const (
	// redirectURI is the redirect URI of the clients of the tests.
	redirectURI = "http://127.0.0.1:4711/callback"
	// The example of RFC 7636 appendix B; every code is asked for with this challenge.
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

// party is a public client together with the person who uses it.
type party struct {
	t       testing.TB
	issuer  string
	id      string       // the client
	browser *http.Client // with the cookies of the person
}

// newParty registers a client and signs the person in. The one sign-in is enough for
// many consents, at every process of the fleet.
func (f *fleet) newParty(at *process) *party {
	f.t.Helper()
	registered := f.register(at)
	if registered.Status != http.StatusCreated {
		f.t.Fatal(registered)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	p := &party{t: f.t, issuer: f.issuer, id: registered.Client, browser: &http.Client{Jar: jar}}
	p.mustConsent(at)
	return p
}

// another returns a party with another client and the same person.
func (p *party) another(at *process) *party {
	p.t.Helper()
	registered := at.fleet.register(at)
	if registered.Status != http.StatusCreated {
		p.t.Fatal(registered)
	}
	other := *p
	other.id = registered.Client
	return &other
}

// outcome is the outcome of a call for its caller.
type outcome int

const (
	granted     outcome = iota // the server did what was asked
	refused                    // the server refused: 4xx
	unavailable                // the server answered 503: it may have happened
	unknown                    // the connection broke, or no answer came in time: it may have happened
	unsent                     // no listener: it has not happened
	broken                     // any other answer, which is always wrong
)

func (o outcome) String() string {
	return [...]string{"granted", "refused", "unavailable", "unknown", "unsent", "broken"}[o]
}

// answer is the result of one call. Members that its operation does not return are empty.
type answer struct {
	Op     string
	At     string // the address of the process
	Status int    // 0: there was no answer
	Error  string // the OAuth error code
	Err    error  // why there was no answer
	Began  time.Time
	Took   time.Duration

	Client  string // register
	Code    string // consent
	Access  string // redeem, refresh
	Refresh string // redeem, refresh
	Active  bool   // introspect

	RetryAfter string
	body       string
}

func (a answer) outcome() outcome {
	var dial *net.OpError
	switch {
	case errors.As(a.Err, &dial) && dial.Op == "dial":
		return unsent
	case a.Err != nil:
		return unknown
	case a.Status == http.StatusServiceUnavailable:
		return unavailable
	case a.Status >= 400 && a.Status < 500:
		return refused
	case a.Status >= 200 && a.Status < 400:
		return granted
	}
	return broken
}

// uncertain reports whether the caller cannot tell if the call had an effect.
func (a answer) uncertain() bool { o := a.outcome(); return o == unavailable || o == unknown }

// invalidGrant says that the code or token was refused as such.
func (a answer) invalidGrant() bool {
	return a.Status == http.StatusBadRequest && a.Error == "invalid_grant"
}

func (a answer) String() string {
	if a.Err != nil {
		return fmt.Sprintf("%s at %s: %s after %s: %v", a.Op, a.At, a.outcome(), a.Took.Round(time.Millisecond), a.Err)
	}
	return fmt.Sprintf("%s at %s: %d %s after %s: %.300q", a.Op, a.At, a.Status, a.Error, a.Took.Round(time.Millisecond), a.body)
}

// register registers a public client (RFC 7591).
func (f *fleet) register(at *process) answer {
	r := newRequest(http.MethodPost, f.issuer+"/register", `{"redirect_uris":["`+redirectURI+`"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"]}`)
	r.Header.Set("Content-Type", "application/json")
	return at.call("register", r)
}

// exchange is a redemption of a code. Fields that are empty are not sent.
type exchange struct{ Client, Code, Verifier, Redirect, Resource string }

// redemption returns a correct redemption of this party. Tests change it.
func (p *party) redemption(code string) exchange {
	return exchange{Client: p.id, Code: code, Verifier: verifier, Redirect: redirectURI}
}

// redeem exchanges a code for tokens.
func (p *party) redeem(at *process, code string) answer {
	return p.exchange(at, p.redemption(code))
}

func (p *party) exchange(at *process, x exchange) answer {
	form := url.Values{"grant_type": {"authorization_code"}, "client_id": {x.Client}, "code": {x.Code}, "code_verifier": {x.Verifier}, "redirect_uri": {x.Redirect}}
	if x.Resource != "" {
		form.Set("resource", x.Resource)
	}
	return at.post("redeem", p.issuer+"/token", form)
}

// refresh exchanges a refresh token for its successor.
func (p *party) refresh(at *process, token string) answer {
	return at.post("refresh", p.issuer+"/token", url.Values{"grant_type": {"refresh_token"}, "client_id": {p.id}, "refresh_token": {token}})
}

// revoke ends the family of a token (RFC 7009).
func (p *party) revoke(at *process, token string) answer {
	return at.post("revoke", p.issuer+"/revoke", url.Values{"client_id": {p.id}, "token": {token}})
}

// introspect asks about an access token, as the resource server does (RFC 7662).
func (p *party) introspect(at *process, access string) answer {
	r := newForm(p.issuer+"/introspect", url.Values{"token": {access}})
	r.SetBasicAuth(url.QueryEscape(resource), url.QueryEscape(introspectionSecret))
	return at.call("introspect", r)
}

// newRequest returns a request whose address and method are valid.
func newRequest(method, address, body string) *http.Request {
	r, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	return r
}

func newForm(address string, form url.Values) *http.Request {
	r := newRequest(http.MethodPost, address, form.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func (p *process) post(op, address string, form url.Values) answer {
	return p.call(op, newForm(address, form))
}

// call sends a program's request to the process, whatever host its address names.
func (p *process) call(op string, r *http.Request) answer {
	a, _ := p.send(op, p.client, r)
	return a
}

// send sends a request and reads the whole answer. The response is for its headers.
func (p *process) send(op string, client *http.Client, r *http.Request) (a answer, resp *http.Response) {
	a = answer{Op: op, At: p.address, Began: time.Now()}
	defer func() { a.Took = time.Since(a.Began) }()
	resp, a.Err = client.Do(r)
	if a.Err != nil {
		return a, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		a.Err = err
		return a, nil
	}
	a.Status, a.body, a.RetryAfter = resp.StatusCode, string(body), resp.Header.Get("Retry-After")
	a.read(resp.Header.Get("Content-Type"))
	return a, resp
}

// read parses the fields of a JSON answer that the driver needs.
func (a *answer) read(contentType string) {
	if !strings.HasPrefix(contentType, "application/json") {
		return
	}
	var members struct {
		Error   string `json:"error"`
		Client  string `json:"client_id"`
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		Active  bool   `json:"active"`
	}
	if err := json.Unmarshal([]byte(a.body), &members); err != nil {
		a.Err = fmt.Errorf("%d with a damaged body: %w", a.Status, err)
		return
	}
	a.Error, a.Client, a.Access, a.Refresh, a.Active = members.Error, members.Client, members.Access, members.Refresh, members.Active
}
