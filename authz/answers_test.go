package authz_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// mustRefuse checks an error of an API route: status, registered code, a sentence, not
// cached, no internals.
func mustRefuse(t testing.TB, r reply, status int, code string) {
	t.Helper()
	if faults := refusalFaults(r, status, code); len(faults) > 0 {
		t.Errorf("%s\n%s", strings.Join(faults, "\n"), r)
	}
}

// nqschar matches the values that an error_description may have (RFC 6749 section 5.2).
var nqschar = regexp.MustCompile(`^[\x20-\x21\x23-\x5b\x5d-\x7e]+$`)

// internals are words that must not appear in any answer.
var internals = []string{"storage:", "storagetest", "engine", "fosite", "keyring", "redis", "gatehouse:", "goroutine", "panic", ".go:"}

func refusalFaults(r reply, status int, code string) (faults []string) {
	check := func(ok bool, fault string) {
		if !ok {
			faults = append(faults, fault)
		}
	}
	var body struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	check(r.status == status, "the status is wrong, want "+http.StatusText(status))
	check(json.Unmarshal([]byte(r.body), &body) == nil, "the body is not JSON")
	check(body.Error == code, "the error is "+body.Error+", want "+code)
	check(len(body.Description) > 10 && strings.Contains(body.Description, " "), "there is no sentence")
	check(nqschar.MatchString(body.Description), "the sentence holds characters that RFC 6749 section 5.2 forbids")
	check(r.header.Get("Content-Type") == "application/json", "the type is not JSON")
	check(r.header.Get("Cache-Control") == "no-store", "the answer may be cached")
	check(r.header.Get("Location") == "", "a program was redirected")
	check(len(r.header.Values("Set-Cookie")) == 0, "a program got a cookie")
	check((status == http.StatusUnauthorized) == (r.header.Get("WWW-Authenticate") != ""), "401 has WWW-Authenticate and nothing else has")
	check((status == http.StatusServiceUnavailable) == (r.header.Get("Retry-After") != ""), "503 has Retry-After and nothing else has")
	for _, word := range internals {
		check(!strings.Contains(r.body, word), "the answer speaks of "+word)
	}
	return faults
}

// pageFaults checks what all pages have in common.
func pageFaults(r reply, status int) (faults []string) {
	check := func(ok bool, fault string) {
		if !ok {
			faults = append(faults, fault)
		}
	}
	policy, body := withoutPasskeys(r)
	check(r.status == status, "the status is wrong, want "+http.StatusText(status))
	check(strings.HasPrefix(r.header.Get("Content-Type"), "text/html"), "the type is not HTML")
	check(r.header.Get("Cache-Control") == "no-store", "the page may be cached")
	check(r.header.Get("X-Content-Type-Options") == "nosniff", "the type may be sniffed")
	check(r.header.Get("X-Frame-Options") == "DENY" && strings.Contains(policy, "frame-ancestors 'none'"), "the page may be framed")
	check(strings.Contains(policy, "default-src 'none'") && !strings.Contains(policy, "unsafe") && !strings.Contains(policy, "script-src"), "the policy lets something in: "+policy)
	check(!strings.Contains(policy, "form-action"), "form-action would keep the person from returning to the client")
	check(r.header.Get("Referrer-Policy") == "same-origin", "with this Referrer-Policy forms are refused or addresses leak")
	check(r.header.Get("Access-Control-Allow-Origin") == "", "another site may read the page")
	check(r.header.Get("Location") == "", "the page redirects")
	check(!strings.Contains(strings.ToLower(body), "<script"), "the page has a script")
	for _, word := range internals {
		check(!strings.Contains(r.body, word), "the page speaks of "+word)
	}
	return faults
}

// passkeyScript is the one script that a page may have: that for passkeys, if the policy of the page
// names it and nothing else.
var passkeyScript = regexp.MustCompile(`<script src="(https?://[^" ]+/passkey\.js)" defer></script>`)

// withoutPasskeys returns the policy and the body of a page without that script.
func withoutPasskeys(r reply) (policy, body string) {
	policy = r.header.Get("Content-Security-Policy")
	found := passkeyScript.FindStringSubmatch(r.body)
	if found == nil {
		return policy, r.body
	}
	before, named := strings.CutSuffix(policy, "; script-src "+found[1])
	if !named {
		return policy, r.body
	}
	return before, strings.Replace(r.body, found[0], "", 1)
}

// mustShow checks an error page.
func mustShow(t testing.TB, r reply, status int, code string) {
	t.Helper()
	faults := pageFaults(r, status)
	if !strings.Contains(r.body, "<code>"+code+"</code>") {
		faults = append(faults, "the page does not name "+code)
	}
	if len(faults) > 0 {
		t.Errorf("%s\n%s", strings.Join(faults, "\n"), r)
	}
}
