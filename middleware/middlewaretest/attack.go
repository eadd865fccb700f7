package middlewaretest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"gatehouse.example/metadata"
)

// Attack sends a protected handler requests that it must refuse: with all tokens of
// [Issuer.Broken], with tokens that the issuer does not know, and with good tokens in every
// place but the right one. It fails the test for each request that is not refused with 401, or
// with 400 if the request is malformed. A 401 must have a challenge (RFC 6750 section 3), and no
// response may repeat a token.
//
// It also sends good tokens, for which it fails the test if the status is 401, 400 or 503, or
// 403 for another reason than missing scopes. So the handler behind the guard must answer with
// another status. Each request is a POST with a "ping" of the protocol; Attack sends other
// methods without a token.
//
//	func TestNobodyGetsIn(t *testing.T) {
//		issuer := middlewaretest.NewIssuer(t)
//		handler := newServer(issuer.URL()) // yours
//		middlewaretest.Attack(t, issuer, "https://notes.example.com/mcp", handler)
//	}
func Attack(t testing.TB, issuer *Issuer, resource string, handler http.Handler) {
	t.Helper()
	a := attacker{TB: t, resource: resource, handler: handler}
	good := issuer.Mint(Claims{"aud": resource})
	a.passes("a good token", "Bearer "+good)
	a.passes("a good token, lowercase scheme", "bearer "+good) // RFC 9110 section 11.1
	for _, broken := range issuer.Broken(resource) {
		a.refuses(broken.Name, broken.Token, header("Bearer "+broken.Token))
		a.refuses(broken.Name+", lowercase scheme", broken.Token, header("bearer "+broken.Token))
	}
	a.unknownTokens(issuer, good)
	a.headers(good)
	a.places(good)
	a.methods()
	a.passes("a good token after all that", "Bearer "+good)
}

// attacker sends requests to a handler.
type attacker struct {
	testing.TB
	resource string
	handler  http.Handler
}

// change changes a request without credentials.
type change func(*http.Request)

func header(values ...string) change {
	return func(r *http.Request) { r.Header["Authorization"] = values }
}

func field(name, value string) change {
	return func(r *http.Request) { r.Header[name] = []string{value} }
}

func query(name, value string) change {
	return func(r *http.Request) { r.URL.RawQuery = url.QueryEscape(name) + "=" + url.QueryEscape(value) }
}

func method(name string) change { return func(r *http.Request) { r.Method = name } }

// body replaces the message of a request.
func body(kind, text string) change {
	return func(r *http.Request) {
		r.Header.Set("Content-Type", kind)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	}
}

func (a attacker) send(changes []change) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, a.resource, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, c := range changes {
		c(r)
	}
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	return w
}

// passes fails the test when a request with a good token is refused.
func (a attacker) passes(name, authorization string) {
	a.Helper()
	w := a.send([]change{header(authorization)})
	switch w.Code {
	case http.StatusForbidden:
		if code := challengeCode(w); code != "insufficient_scope" {
			a.Errorf("%s is refused: %d %q", name, w.Code, code)
		}
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusServiceUnavailable:
		a.Errorf("%s is refused: %d", name, w.Code)
	}
}

// refuses fails the test when a request is not refused, or refused in a wrong way.
func (a attacker) refuses(name, token string, changes ...change) {
	a.Helper()
	w := a.send(changes)
	if w.Code != http.StatusUnauthorized && w.Code != http.StatusBadRequest {
		a.Errorf("%s is let through: %d, want 401 or 400", name, w.Code)
		return
	}
	if challenges, err := metadata.ParseChallenges(w.Result().Header["Www-Authenticate"]); err != nil || w.Code == http.StatusUnauthorized && len(challenges) == 0 {
		a.Errorf("%s: the challenge is %q, %v", name, w.Result().Header["Www-Authenticate"], err)
	}
	if answer := fmt.Sprint(w.Header(), w.Body); len(token) >= minSecret && strings.Contains(answer, token) {
		a.Errorf("%s: the answer repeats the token", name)
	}
}

// minSecret is the minimum length of a token that a response cannot contain by chance.
const minSecret = 16

func challengeCode(w *httptest.ResponseRecorder) string {
	challenges, err := metadata.ParseChallenges(w.Result().Header["Www-Authenticate"])
	if err != nil || len(challenges) == 0 {
		return ""
	}
	code, _ := challenges[0].Get("error")
	return code
}

// unknownTokens sends tokens that the issuer does not report as active, or did not issue.
func (a attacker) unknownTokens(issuer *Issuer, good string) {
	a.Helper()
	revoked := issuer.MintOpaque(Claims{"aud": a.resource})
	issuer.Revoke(revoked)
	for name, token := range map[string]string{
		"an opaque token that was revoked":           revoked,
		"an opaque token for another resource":       issuer.MintOpaque(Claims{"aud": "https://other.example.org/mcp"}),
		"an opaque token without an audience":        issuer.MintOpaque(nil),
		"an opaque token that was not issued":        "opaque-0123456789abcdef",
		"a good token with one letter more":          good + "A",
		"a good token with one letter less":          good[:len(good)-1],
		"a good token with another first letter":     "f" + good[1:],
		"a good token in capitals":                   strings.ToUpper(good),
		"a good token in quotation marks":            `"` + good + `"`,
		"a good token twice, with a comma":           good + "," + good,
		"a good token twice, with a space":           good + " " + good,
		"a good token with another scheme before it": "Bearer " + good,
		"a good token and a line break":              good + "\r\n",
		"a good token and a zero byte":               good + "\x00",
		"a space":                                    " ",
	} {
		a.refuses(name, token, header("Bearer "+token))
	}
}

// headers sends a good token in Authorization headers that are malformed.
func (a attacker) headers(good string) {
	a.Helper()
	for name, values := range map[string][]string{
		"no header":                               nil,
		"an empty header":                         {""},
		"a scheme without a token":                {"Bearer"},
		"a token without a scheme":                {good},
		"Basic":                                   {"Basic " + good},
		"DPoP":                                    {"DPoP " + good},
		"Token":                                   {"Token " + good},
		"a scheme that only begins right":         {"Bearers " + good},
		"a scheme that only ends right":           {"XBearer " + good},
		"a tab after the scheme":                  {"Bearer\t" + good},
		"a colon after the scheme":                {"Bearer:" + good},
		"another scheme before it":                {"Basic YTpi, Bearer " + good},
		"a parameter in place of the token":       {"Bearer token=" + good},
		"two headers":                             {"Bearer " + good, "Bearer " + good},
		"two headers, the first not right":        {"Bearer x", "Bearer " + good},
		"two headers, the second not right":       {"Bearer " + good, "Bearer x"},
		"two headers, the first of another kind":  {"Basic YTpi", "Bearer " + good},
		"two headers, the second of another kind": {"Bearer " + good, "Basic YTpi"},
	} {
		a.refuses("Authorization: "+name, good, header(values...))
	}
}

// places sends a good token anywhere but in the Authorization header, or there as well
// (RFC 6750 section 2).
func (a attacker) places(good string) {
	a.Helper()
	const form = "application/x-www-form-urlencoded"
	for _, name := range []string{"access_token", "token", "bearer_token", "authorization"} {
		a.refuses("query: "+name, good, query(name, good))
		a.refuses("form: "+name, good, body(form, url.Values{name: {good}}.Encode()))
		a.refuses("cookie: "+name, good, field("Cookie", name+"="+good))
	}
	a.refuses("query, with GET", good, query("access_token", good), method(http.MethodGet))
	a.refuses("query and header", good, query("access_token", good), header("Bearer "+good))
	a.refuses("header and a broken one in the query", good, query("access_token", "x"), header("Bearer "+good))
	a.refuses("query and a broken one in the header", good, query("access_token", good), header("Bearer x"))
	for _, name := range []string{"Proxy-Authorization", "X-Authorization", "X-Forwarded-Authorization", "X-Original-Authorization"} {
		a.refuses("header: "+name, good, field(name, "Bearer "+good))
	}
	for _, name := range []string{"X-Access-Token", "X-Forwarded-Access-Token", "X-Auth-Request-Access-Token", "X-Api-Key", "Mcp-Session-Id"} {
		a.refuses("header: "+name, good, field(name, good))
	}
	// Headers by which proxies of other servers identify a person.
	for _, name := range []string{"X-Forwarded-User", "X-Auth-Request-User", "X-Remote-User", "Remote-User", "X-User-Id", "X-Forwarded-Email"} {
		a.refuses("header: "+name, "", field(name, "reader"))
	}
}

// methods sends no token with all methods but OPTIONS, which a preflight needs.
func (a attacker) methods() {
	a.Helper()
	for _, name := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "PROPFIND", "options", "post"} {
		a.refuses("method "+name, "", method(name))
		a.refuses("method "+name+", overridden", "", method(name), field("X-Http-Method-Override", "OPTIONS"))
	}
}
