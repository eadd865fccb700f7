//go:build e2e

package faults

import (
	"fmt"
	"html"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// authorizeURL returns a request for a code with every scope of the resource.
func (p *party) authorizeURL() string {
	return p.issuer + "/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {p.id}, "redirect_uri": {redirectURI}, "resource": {resource}, "state": {"s"},
		"code_challenge": {challenge}, "code_challenge_method": {"S256"},
	}.Encode()
}

// consent has the person allow everything, and returns the code. A person who is not signed in
// signs in first. If a step is not answered with a page or a redirect, its answer is returned; an
// answer without a code has certainly not given consent only when it was refused or not sent.
func (p *party) consent(at *process) answer {
	browser := *at.client
	browser.Jar = newTab(p.browser.Jar)
	began := time.Now()
	r := newRequest(http.MethodGet, p.authorizeURL(), "")
	for range 8 {
		a, resp := at.send("consent", &browser, r)
		a.Began, a.Took = began, time.Since(began)
		if a.outcome() != granted {
			return a
		}
		var err error
		if r, a.Code, err = p.next(resp, a.body); err != nil {
			a.Err = err
		}
		if a.Code != "" || err != nil {
			return a
		}
	}
	return answer{Op: "consent", At: at.address, Began: began, Took: time.Since(began), Err: fmt.Errorf("the pages do not end")}
}

// tab is one of many pages that are open in one browser. A browser keeps only the newest few
// undecided requests, and these tests open hundreds at once: so each tab keeps its own, and
// shares all other cookies.
type tab struct{ shared, own http.CookieJar }

func newTab(shared http.CookieJar) http.CookieJar {
	own, _ := cookiejar.New(nil) // it takes no options, so it cannot fail
	return tab{shared, own}
}

func undecided(c *http.Cookie) bool { return strings.Contains(c.Name, "authz_transaction_") }

// SetCookies implements http.CookieJar.
func (t tab) SetCookies(u *url.URL, cookies []*http.Cookie) {
	for _, c := range cookies {
		jar := t.shared
		if undecided(c) {
			jar = t.own
		}
		jar.SetCookies(u, []*http.Cookie{c})
	}
}

// Cookies implements http.CookieJar.
func (t tab) Cookies(u *url.URL) []*http.Cookie {
	return append(slices.DeleteFunc(t.shared.Cookies(u), undecided), t.own.Cookies(u)...)
}

// next does what a browser does with an answer: it follows a redirect, fills in a form, or
// returns the code at the client.
func (p *party) next(resp *http.Response, body string) (r *http.Request, code string, err error) {
	if target, err := resp.Location(); err == nil {
		if code := target.Query().Get("code"); code != "" {
			return nil, code, nil
		}
		if target.Query().Has("error") {
			return nil, "", fmt.Errorf("the client was sent %s", target)
		}
		return newRequest(http.MethodGet, target.String(), ""), "", nil
	}
	action, form := parseForm(body)
	target, err := resp.Request.URL.Parse(action)
	if err != nil || action == "" {
		return nil, "", fmt.Errorf("%s shows a page without a form: %w", resp.Request.URL, err)
	}
	r = newForm(target.String(), form)
	r.Header.Set("Origin", p.issuer)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return r, "", nil
}

var (
	formTag   = regexp.MustCompile(`<form\b[^>]*\baction="([^"]*)"`)
	inputTag  = regexp.MustCompile(`<input\b([^>]*)>`)
	attribute = regexp.MustCompile(`\b(name|value|type)="([^"]*)"`)
)

// parseForm returns the form of a page, filled in: signed in as the person, or allowing every
// scope.
func parseForm(page string) (action string, form url.Values) {
	if tag := formTag.FindStringSubmatch(page); tag != nil {
		action = html.UnescapeString(tag[1])
	}
	form = url.Values{"decision": {"allow"}}
	for _, input := range inputTag.FindAllStringSubmatch(page, -1) {
		given := map[string]string{}
		for _, a := range attribute.FindAllStringSubmatch(input[1], -1) {
			given[a[1]] = html.UnescapeString(a[2])
		}
		switch given["name"] {
		case "username":
			form = signIn(form)
		case "password", "":
		default:
			form.Add(given["name"], given["value"])
		}
	}
	return action, form
}

func signIn(form url.Values) url.Values {
	form.Del("decision")
	form.Set("username", personName)
	form.Set("password", personPassword)
	return form
}

// mustConsent is consent on a server that works: it returns the code.
func (p *party) mustConsent(at *process) string {
	p.t.Helper()
	a := p.consent(at)
	if a.Code == "" {
		p.t.Fatal(a)
	}
	return a.Code
}

// mustCodes returns n codes.
func (p *party) mustCodes(at *process, n int) []string {
	p.t.Helper()
	answers := make([]answer, n)
	crowd(8, n, func(i int) { answers[i] = p.consent(at) })
	codes := make([]string, n)
	for i, a := range answers {
		if codes[i] = a.Code; a.Code == "" {
			p.t.Fatal(a)
		}
	}
	return codes
}

// mustTokens redeems a new code and returns the answer with the tokens.
func (p *party) mustTokens(at *process) answer {
	p.t.Helper()
	a := p.redeem(at, p.mustConsent(at))
	if a.outcome() != granted || a.Access == "" || a.Refresh == "" {
		p.t.Fatal(a)
	}
	return a
}
