package middleware_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"gatehouse.example/middleware/middlewaretest"
)

// notText are JSON strings that decoders turn into the same text, although they differ.
var notText = map[string]string{
	"invalid UTF-8":        "\"a\xff\"",
	"other invalid UTF-8":  "\"a\xfe\"",
	"a surrogate in UTF-8": "\"a\xed\xa0\x80\"",
	"a lone high one":      `"a\ud800"`,
	"a lone low one":       `"a\udc00"`,
	"two in wrong order":   `"a\udc00\ud800"`,
	"a cut-off sequence":   "\"a\xe2\x82\"",
}

// TestClaimsAreText checks that a subject that is not valid text is refused, so that no two
// subjects become equal.
func TestClaimsAreText(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	now := time.Now()
	payload := func(sub, extra string) string {
		return fmt.Sprintf(`{"iss":%q,"aud":%q,"sub":%s,"client_id":"c","jti":"j","iat":%d,"exp":%d%s}`, issuer.URL(), resource, sub, now.Unix(), now.Add(time.Minute).Unix(), extra)
	}
	passes(t, guard, withToken(issuer.MintRaw(payload(`"a\ud83d\ude00"`, ""))))
	for name, text := range notText {
		for where, p := range map[string]string{
			"the subject": payload(text, ""), "a claim that nobody asks for": payload(`"a"`, `,"x":`+text), "one inside of another": payload(`"a"`, `,"x":{"y":[`+text+`]}`),
		} {
			c := refused(t, guard, withToken(issuer.MintRaw(p)), http.StatusUnauthorized)
			if get(c, "error") != "invalid_token" {
				t.Errorf("%s in %s: %s", name, where, c)
			}
		}
	}
}

// TestAnswersAreText checks the same for introspection responses: one that cannot be read leads
// to 503.
func TestAnswersAreText(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for name, text := range notText {
		for where, extra := range map[string]string{"the subject": `"sub":` + text, "another member": `"sub":"a","x":[` + text + `]`} {
			guard := newGuard(t, issuer, introspects(issuer, opaque))
			answers(issuer, fmt.Sprintf(`{"active":true,"aud":%q,"client_id":"c","exp":%d,%s}`, resource, time.Now().Add(time.Minute).Unix(), extra))
			res := serve(guard.Protect(http.NotFoundHandler()), withToken("opaque"))
			if res.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("%s in %s: %s", name, where, res.Status)
			}
		}
	}
}

// TestScopeIsSplitAtSpaces checks that no other character separates scopes (RFC 6749 section
// 3.3).
func TestScopeIsSplitAtSpaces(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	for scope, want := range map[string][]string{
		"":                              {},
		" ":                             {},
		"notes:read":                    {"notes:read"},
		" notes:read  notes:write ":     {"notes:read", "notes:write"},
		"notes:read\tnotes:write":       {},
		"notes:read\nnotes:write":       {},
		"notes:read\u00a0notes:write":   {},
		"notes:read\u2003notes:write x": {"x"},
		"notes:read\vnotes:write x":     {"x"},
	} {
		token := passes(t, guard, withToken(issuer.Mint(claims{"aud": resource, "scope": scope})))
		if !slices.Equal(token.Scopes, want) {
			t.Errorf("%q has the scopes %q, want %q", scope, token.Scopes, want)
		}
	}
}

// TestEmptyScopeOfAnAnswer checks that an introspection response with an empty scope withdraws
// all scopes, and one without the member withdraws none.
func TestEmptyScopeOfAnAnswer(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token := issuer.Mint(claims{"aud": resource, "sub": "a", "client_id": "c", "scope": "notes:read notes:write"})
	for member, want := range map[string]int{``: 2, `,"scope":""`: 0, `,"scope":" "`: 0, `,"scope":"notes:read"`: 1, `,"scope":"other"`: 0} {
		guard := newGuard(t, issuer, introspects(issuer))
		answers(issuer, fmt.Sprintf(`{"active":true,"aud":%q,"sub":"a","client_id":"c","exp":%d%s}`, resource, time.Now().Add(time.Minute).Unix(), member))
		if got := passes(t, guard, withToken(token)).Scopes; len(got) != want {
			t.Errorf("an answer with %s leaves %q", member, got)
		}
	}
}
