package middleware_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// answered returns the introspection response for a good token, with changes. A nil value removes
// a member.
func answered(changes claims) string {
	all := claims{"active": true, "sub": `"reader"`, "client_id": `"client"`, "aud": `"` + resource + `"`, "exp": time.Now().Add(time.Minute).Unix(), "scope": `"a"`}
	maps.Copy(all, changes)
	var members []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != nil {
			members = append(members, fmt.Sprintf("%q:%v", name, all[name]))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// answerTable has introspection responses, and the expected status for each.
func answerTable(issuer string) map[string]struct {
	text string
	want int
} {

	with, now := answered, time.Now()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	return map[string]struct {
		text string
		want int
	}{
		"as it is":            {with(nil), 418},
		"of this issuer":      {with(claims{"iss": `"` + issuer + `"`}), 418},
		"unknown members":     {with(claims{"ext": `{"a":[1,null,{}]}`, "username": `"x"`, "Active": false, "ACTIVE": 1}), 418},
		"bearer":              {with(claims{"token_type": `"bearer"`, "token_use": `"access_token"`}), 418},
		"aud among others":    {with(claims{"aud": `["https://other.example.org","` + resource + `"]`}), 418},
		"exp a moment ago":    {with(claims{"exp": at(-8 * time.Second)}), 418},
		"nbf a moment ahead":  {with(claims{"nbf": at(9 * time.Second)}), 418},
		"white space":         {" \n" + with(nil) + "\n ", 418},
		"inactive":            {`{"active":false}`, 401},
		"inactive and more":   {with(claims{"active": false}), 401},
		"inactive, odd":       {`{"active":false,"exp":0,"aud":null,"sub":7}`, 401},
		"aud absent":          {with(claims{"aud": nil}), 401},
		"aud empty":           {with(claims{"aud": `""`}), 401},
		"aud no values":       {with(claims{"aud": `[]`}), 401},
		"aud null":            {with(claims{"aud": "null"}), 401},
		"aud another":         {with(claims{"aud": `"https://other.example.org/mcp"`}), 401},
		"aud several others":  {with(claims{"aud": `["https://other.example.org/mcp","` + resource + `/admin"]`}), 401},
		"iss another":         {with(claims{"iss": `"https://other.example.org"`}), 401},
		"iss with a slash":    {with(claims{"iss": `"` + issuer + `/"`}), 401},
		"sub absent":          {with(claims{"sub": nil}), 401},
		"sub empty":           {with(claims{"sub": `""`}), 401},
		"client_id absent":    {with(claims{"client_id": nil}), 401},
		"client_id empty":     {with(claims{"client_id": `""`}), 401},
		"cnf: bound to a key": {with(claims{"cnf": `{"jkt":"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}`}), 401},
		"exp absent":          {with(claims{"exp": nil}), 401},
		"exp a minute ago":    {with(claims{"exp": at(-time.Minute)}), 401},
		"nbf a minute ahead":  {with(claims{"nbf": at(time.Minute)}), 401},
		"iat a minute ahead":  {with(claims{"iat": at(time.Minute)}), 401},
		"bound to a key":      {with(claims{"token_type": `"DPoP"`}), 401},
		"a refresh token":     {with(claims{"token_use": `"refresh_token"`}), 401},
		"an ID token":         {with(claims{"token_use": `"id"`}), 401},
		"a refresh token (2)": {with(claims{"token_type": `"refresh_token"`}), 401},
	}
}

// notAnswers are responses that do not decide about the token.
func notAnswers() map[string]string {
	with := answered
	return map[string]string{
		"active absent":         with(claims{"active": nil}),
		"active null":           with(claims{"active": "null"}),
		"active a string":       with(claims{"active": `"true"`}),
		"active a number":       with(claims{"active": 1}),
		"active in other case":  with(claims{"active": nil, "Active": true}),
		"active twice":          `{"active":false,` + with(nil)[1:],
		"active twice, escaped": `{"\u0061ctive":true,"active":false}`,
		"aud twice":             `{"aud":"https://other.example.org",` + with(nil)[1:],
		"aud an object":         with(claims{"aud": `{"a":"` + resource + `"}`}),
		"exp a string":          with(claims{"exp": fmt.Sprintf(`"%d"`, time.Now().Add(time.Minute).Unix())}),
		"exp milliseconds":      with(claims{"exp": time.Now().Add(time.Minute).UnixMilli()}),
		"sub a number":          with(claims{"sub": 7}),
		"scope an array":        with(claims{"scope": `["a"]`}),
		"empty":                 "",
		"an empty object":       "{}",
		"null":                  "null",
		"true":                  "true",
		"an array":              "[" + with(nil) + "]",
		"two answers":           with(nil) + with(nil),
		"cut off":               strings.TrimSuffix(with(nil), "}"),
		"a page":                "<!doctype html><title>Sign in</title>",
		"too large":             with(claims{"x": `"` + strings.Repeat("x", 64<<10) + `"`}),
	}
}

func TestAnswers(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for name, tt := range answerTable(issuer.URL()) {
		t.Run(name, func(t *testing.T) {
			answers(issuer, tt.text)
			wantAnswer(t, newGuard(t, issuer, introspects(issuer, opaque)), withToken("token"), tt.want)
		})
	}
	for name, text := range notAnswers() {
		t.Run(name, func(t *testing.T) {
			answers(issuer, text)
			wantAnswer(t, newGuard(t, issuer, introspects(issuer, opaque)), withToken("token"), http.StatusServiceUnavailable)
		})
	}
}

// wantAnswer checks the status and the challenge.
func wantAnswer(t *testing.T, guard *middleware.Guard, r *http.Request, want int) {
	t.Helper()
	if want == http.StatusTeapot {
		passes(t, guard, r)
		return
	}
	c := refused(t, guard, r, want)
	if code := get(c, "error"); want == http.StatusUnauthorized && code != "invalid_token" || want == http.StatusServiceUnavailable && code != "" {
		t.Errorf("the challenge is %s", c)
	}
	if want == http.StatusServiceUnavailable && wantStatus(t, guard, r, want).Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
}

// TestBothMustAgree looks up JWTs that are valid in themselves.
func TestBothMustAgree(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	exp := time.Now().Add(time.Minute).Truncate(time.Second)
	const usual = `"sub":"reader","client_id":"client"`
	aud := `,"aud":"` + resource + `"`
	for name, tt := range map[string]struct {
		members string
		want    int
	}{
		"the same":          {usual + aud, 418},
		"another sub":       {`"sub":"other","client_id":"client"` + aud, 401},
		"no sub":            {`"client_id":"client"` + aud, 401},
		"another client":    {`"sub":"reader","client_id":"other"` + aud, 401},
		"no client":         {`"sub":"reader"` + aud, 401},
		"another aud":       {usual + `,"aud":"https://other.example.org"`, 401},
		"no aud":            {usual, 401},
		"another issuer":    {usual + aud + `,"iss":"https://other.example.org"`, 401},
		"scopes as granted": {usual + aud + `,"scope":"a b c"`, 418},
		"scopes taken back": {usual + aud + `,"scope":"c a"`, 418},
	} {
		t.Run(name, func(t *testing.T) {
			answers(issuer, fmt.Sprintf(`{"active":true,"exp":%d,%s}`, exp.Unix(), tt.members))
			guard := newGuard(t, issuer, introspects(issuer))
			request := withToken(issuer.Mint(claims{"aud": resource, "scope": "a b"}))
			wantAnswer(t, guard, request, tt.want)
			if tt.want != 418 {
				return
			}
			token := passes(t, guard, request)
			if !token.Expiry.Equal(exp) {
				t.Errorf("the expiry is %v, not the earlier one", token.Expiry)
			}
			if taken := strings.Contains(tt.members, `"c a"`); !token.HasScope("a") || token.HasScope("b") == taken || token.HasScope("c") {
				t.Errorf("the scopes are %q", token.Scopes)
			}
		})
	}
	answers(issuer, fmt.Sprintf(`{"active":true,%s}`, usual+aud))
	wantStatus(t, newGuard(t, issuer, introspects(issuer)), withToken(issuer.Mint(claims{"aud": resource})), 401) // no exp
}

// TestBothAsksForGoodTokensOnly checks that invalid JWTs are not looked up.
func TestBothAsksForGoodTokensOnly(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, introspects(issuer))
	answers(issuer, fmt.Sprintf(`{"active":true,"sub":"reader","client_id":"client","aud":%q,"exp":%d}`, resource, time.Now().Add(time.Hour).Unix()))
	for _, broken := range issuer.Broken(resource) {
		if code, _ := status(guard, withToken(broken.Token)); code != 401 && code != 400 {
			t.Errorf("%s: %d", broken.Name, code)
		}
	}
	wantStatus(t, guard, withToken(issuer.MintOpaque(claims{"aud": resource})), 401)
	wantQuestions(t, issuer, 0)
	passes(t, guard, withToken(issuer.Mint(claims{"aud": resource})))
	wantQuestions(t, issuer, 1)
}

func TestBrokenTokensAreNotActive(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, introspects(issuer, opaque))
	for _, broken := range issuer.Broken(resource) {
		if code, _ := status(guard, withToken(broken.Token)); code != 401 && code != 400 {
			t.Errorf("%s: %d", broken.Name, code)
		}
	}
}
