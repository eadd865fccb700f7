package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

const (
	resource = "https://notes.example.com/mcp"
	redirect = "http://127.0.0.1/callback"
	verifier = "0123456789012345678901234567890123456789abc"
	formType = "application/x-www-form-urlencoded"
	jsonType = "application/json"
)

// registration is what a client of a person registers.
const registration = `{"client_name":"A client","redirect_uris":["` + redirect + `"],"token_endpoint_auth_method":"none",` +
	`"grant_types":["authorization_code","refresh_token"],"response_types":["code"]}`

// errEmpty ends a worker that has used up what was prepared for it.
var errEmpty = errors.New("nothing is left")

// operation is one kind of request, or of several that belong together. Prepare does what is not
// measured and returns a worker: a function that does the operation once, on the connection w.
type operation struct {
	name    string
	prepare func(t *target, w *wire) (worker, error)
}

type worker func() error

// operations are all that are driven over HTTP, in the order of the report.
var operations = []operation{
	{"metadata", metadata}, {"introspect", introspect}, {"register", register},
	{"refresh", refresh}, {"exchange", exchange}, {"flow", flow},
}

func metadata(t *target, w *wire) (worker, error) {
	return func() error {
		a, err := w.get(t.metadata)
		return check(a, err, 200, `"issuer"`)
	}, nil
}

func introspect(t *target, w *wire) (worker, error) {
	a, err := t.tokens(w)
	if err != nil {
		return nil, err
	}
	body := []byte("token=" + url.QueryEscape(member(a.body, cmp.Or(t.introspects, "access_token"))))
	return func() error {
		a, err := w.post("/introspect", formType, t.basic, body)
		return check(a, err, 200, `"active":true`)
	}, nil
}

func register(_ *target, w *wire) (worker, error) {
	body := []byte(registration)
	return func() error {
		a, err := w.post("/register", jsonType, "", body)
		return check(a, err, 201, `"client_id"`)
	}, nil
}

// refresh rotates the tokens that were stored beforehand in turn, or else one of a flow of its own.
func refresh(t *target, w *wire) (worker, error) {
	held := t.share()
	if len(held) == 0 {
		a, err := t.tokens(w)
		if err != nil {
			return nil, err
		}
		held = []heldGrant{{t.client, member(a.body, "refresh_token")}}
	}
	var body []byte
	next := 0
	return func() error {
		body = append(append(body[:0], "grant_type=refresh_token&client_id="...), held[next].client...)
		body = append(append(body, "&refresh_token="...), url.QueryEscape(held[next].token)...)
		a, err := w.post("/token", formType, "", body)
		if err := check(a, err, 200, `"access_token"`); err != nil {
			return err
		}
		held[next].token = member(a.body, "refresh_token")
		next = (next + 1) % len(held)
		return nil
	}, nil
}

// exchange redeems codes that were issued beforehand. It ends when there are no more.
func exchange(t *target, w *wire) (worker, error) {
	codes := make([]string, t.codes)
	for i := range codes {
		var err error
		if codes[i], err = t.code(w); err != nil {
			return nil, err
		}
	}
	return func() error {
		if len(codes) == 0 {
			return errEmpty
		}
		code := codes[0]
		codes = codes[1:]
		_, err := t.redeem(w, code)
		return err
	}, nil
}

func flow(t *target, w *wire) (worker, error) {
	return func() error {
		_, err := t.tokens(w)
		return err
	}, nil
}

// tokens makes a whole code flow and returns the answer with the tokens.
func (t *target) tokens(w *wire) (answer, error) {
	code, err := t.code(w)
	if err != nil {
		return answer{}, err
	}
	return t.redeem(w, code)
}

func (t *target) redeem(w *wire, code string) (answer, error) {
	a, err := w.post("/token", formType, "", []byte("grant_type=authorization_code&client_id="+t.client+"&code="+url.QueryEscape(code)+
		"&code_verifier="+verifier+"&redirect_uri="+url.QueryEscape(redirect)+"&resource="+url.QueryEscape(resource)))
	return a, check(a, err, 200, `"refresh_token"`)
}

// code asks for a code and goes through the pages that come before it, if any: the sign-in, when
// the browser has no session, and the consent form.
func (t *target) code(w *wire) (string, error) {
	a, err := w.get(t.authorize)
	for range 6 {
		if err != nil {
			return "", err
		}
		switch {
		case strings.HasPrefix(a.location, redirect):
			return codeOf(a.location)
		case a.location != "":
			a, err = w.get(pathOf(a.location))
		case a.status == 200:
			a, err = w.submit(formOf(t, a.body))
		default:
			return "", fmt.Errorf("status %d on the way to a code: %.300s", a.status, a.body)
		}
	}
	return "", fmt.Errorf("the pages do not end")
}

func codeOf(location string) (string, error) {
	u, err := url.Parse(location)
	if err != nil {
		return "", err
	}
	if code := u.Query().Get("code"); code != "" {
		return code, nil
	}
	return "", fmt.Errorf("no code in %s", location)
}

func pathOf(location string) string {
	if _, rest, ok := strings.Cut(location, "://"); ok {
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			return rest[i:]
		}
	}
	return location
}

// formOf fills in the form of a page: name and password, or the consent to everything asked for.
func formOf(t *target, page []byte) (path, origin string, body []byte) {
	path = pathOf(between(page, `action="`))
	for _, name := range []string{"transaction", "csrf"} {
		body = append(body, name+"="+url.QueryEscape(between(page, `name="`+name+`" value="`))+"&"...)
	}
	if bytes.Contains(page, []byte(`name="password"`)) {
		body = append(body, "username="+person+"&password="+url.QueryEscape(password)...)
	} else {
		body = append(body, "scope=notes%3Aread&scope=notes%3Awrite&remember=once&decision=allow"...)
	}
	return path, t.origin, body
}

// authorizePath is the authorization request of a client.
func authorizePath(client string) string {
	return "/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {redirect}, "state": {"0123456789abcdef"}, "resource": {resource},
		"scope": {"notes:read notes:write"}, "code_challenge_method": {"S256"}, "code_challenge": {challenge()},
	}.Encode()
}

// challenge is that of the verifier (RFC 7636 section 4.2).
func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// check returns an error unless the answer has the status and contains the text.
func check(a answer, err error, status int, text string) error {
	if err == nil && (a.status != status || !bytes.Contains(a.body, []byte(text))) {
		err = fmt.Errorf("status %d: %.300s", a.status, a.body)
	}
	return err
}

// member returns a member of a JSON object whose value is a text without escapes.
func member(body []byte, name string) string {
	if v := between(body, `"`+name+`":"`); v != "" {
		return v
	}
	return between(body, `"`+name+`": "`)
}

// between returns what stands behind begin, up to the next quotation mark.
func between(text []byte, begin string) string {
	_, rest, ok := bytes.Cut(text, []byte(begin))
	if !ok {
		return ""
	}
	value, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(value)
}
