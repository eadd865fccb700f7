package authz

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"gatehouse.example/storage"
)

// description matches the values that an error_description may have (RFC 6749 section 5.2).
var description = regexp.MustCompile(`^[\x20-\x21\x23-\x5b\x5d-\x7e]*$`)

// FuzzFormFilter: whatever the input, a handler gets only known names, each value valid and
// short, no name twice unless it may be repeated, and every error description is valid.
func FuzzFormFilter(f *testing.F) {
	for _, seed := range []string{
		"", "&", "=", "a=b", "client_id=x&client_id=y", "resource=a&resource=b", "scope=%00", "scope=%0a", "scope=%ff", "state=a;b",
		"code=%zz", "client_id=&scope=", "CLIENT_ID=x", "client_id[]=x", "client%5fid=x", "scope=+", "grant_type=a%20b", "x=%22%5c",
		"resource=" + strings.Repeat("a", 5000), strings.Repeat("a&", 300), strings.Repeat("resource=a&", 40), "token=" + strings.Repeat("%41", 9000),
		"token=" + strings.Repeat("a", 20000), "code=%00", "refresh_token=%ff", "client_id=%0a", "client_secret=" + strings.Repeat("a", 600),
	} {
		f.Add(seed)
	}
	filters := map[string]formFilter{
		"authorize": authorizeForm, "token": tokenForm, "revoke": revokeForm, "introspect": introspectForm,
		"page": pageForm, "login": loginForm, "consent": consentForm,
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for name, filter := range filters {
			form, err := filter.parse(raw)
			if err != nil {
				if !description.MatchString(printableLong(err.Error())) {
					t.Errorf("%s: %q cannot be written down", name, err)
				}
				continue
			}
			mustBeFiltered(t, name, filter, form, raw)
		}
	})
}

// mustBeFiltered checks one parsed form against its filter.
func mustBeFiltered(t *testing.T, name string, filter formFilter, form form, raw string) {
	t.Helper()
	sent, err := url.ParseQuery(raw)
	if err != nil {
		t.Fatalf("%s: %q was parsed and cannot be: %v", name, raw, err)
	}
	for _, one := range form.parameters {
		parameter, values := one.name, one.values
		if len(values) == 0 {
			continue // empty, or with a problem
		}
		rule, known := filter[parameter]
		if !known || form.problems[parameter] != "" || (len(values) > 1 && !rule.many) {
			t.Errorf("%s: %s=%q got through", name, parameter, values)
		}
		for _, v := range values {
			if v == "" || len(v) > rule.max || unclean(v) {
				t.Errorf("%s: the value %q of %s got through", name, v, parameter)
			}
			if !slices.Contains(sent[parameter], v) && !(rule.issued && v == unissued) {
				t.Errorf("%s: %s=%q was never sent", name, parameter, v)
			}
		}
	}
	for parameter, values := range sent {
		if _, known := filter[parameter]; !known || form.problems[parameter] != "" {
			continue
		}
		kept := slices.DeleteFunc(values, func(v string) bool { return v == "" })
		if rule := filter[parameter]; rule.issued && len(kept) == 1 && (len(kept[0]) > rule.max || unclean(kept[0])) {
			kept = []string{unissued}
		}
		if !slices.Equal(kept, form.all(parameter)) {
			t.Errorf("%s: %s=%q became %q", name, parameter, kept, form.all(parameter))
		}
	}
	if problem := form.problem(); (problem == "") != (len(form.problems) == 0) || !description.MatchString(printableLong(problem)) {
		t.Errorf("%s: problems %v and problem %q", name, form.problems, problem)
	}
}

func unclean(v string) bool {
	return !utf8.ValidString(v) || strings.ContainsFunc(v, func(c rune) bool { return c < ' ' || c == 0x7f })
}

func s256(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// FuzzVerifier: a verifier is accepted if and only if its hash is the challenge and it has
// the form of RFC 7636 section 4.1.
func FuzzVerifier(f *testing.F) {
	for _, seed := range []string{
		"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "", "short", strings.Repeat("a", 42), strings.Repeat("~", 43), strings.Repeat(".", 128), strings.Repeat("a", 129),
		strings.Repeat("a", 43) + "\x00", strings.Repeat("é", 30),
	} {
		f.Add(seed, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
	}
	unreserved := regexp.MustCompile(`^[A-Za-z0-9._~-]{43,128}$`)
	f.Fuzz(func(t *testing.T, verifier, challenge string) {
		verifies := func(challenge string) bool {
			g := storage.Grant{Code: storage.HashSecret("code"), Challenge: challenge}
			return codeMatches(g, storage.Client{}, form{parameters: []sent{{"code", []string{"code"}}, {"code_verifier", []string{verifier}}}})
		}
		right := s256(verifier)
		if got, want := verifies(right), unreserved.MatchString(verifier); got != want {
			t.Errorf("%q with its own hash: %t, want %t", verifier, got, want)
		}
		if challenge != right && verifies(challenge) {
			t.Errorf("%q verifies %q", verifier, challenge)
		}
		if verifies("") || verifies(right+"=") || verifies(right[:42]) {
			t.Errorf("%q verifies something else", verifier)
		}
	})
}

// FuzzScope: the result of parsing a scope parameter contains only scope tokens of the input,
// each once.
func FuzzScope(f *testing.F) {
	for _, seed := range []string{"", " ", "a", "a b", "a  a", "a\tb", `a"b`, "é", strings.Repeat("a", 200), "a\u00a0b"} {
		f.Add(seed)
	}
	token := regexp.MustCompile(`^[\x21\x23-\x5b\x5d-\x7e]{1,128}$`)
	f.Fuzz(func(t *testing.T, raw string) {
		scopes, problem := parseScope(raw)
		if problem != "" && (scopes != nil || !description.MatchString(printableLong(problem))) {
			t.Errorf("%q: %v and the problem %q", raw, scopes, problem)
		}
		seen := map[string]bool{}
		for _, scope := range scopes {
			if seen[scope] || !token.MatchString(scope) || !slices.Contains(strings.Split(raw, " "), scope) {
				t.Errorf("%q: %q", raw, scope)
			}
			seen[scope] = true
		}
	})
}

// FuzzBasic: every reading of HTTP Basic credentials consists of parts of the input, and the
// readings include those that a client meant, raw and percent-encoded.
func FuzzBasic(f *testing.F) {
	for _, seed := range [][2]string{{"id", "secret"}, {"https://notes.example.com/mcp", "secret"}, {"a%3Ab", "c+d"}, {"", ""}, {"a", "%zz"}, {"http://127.0.0.1:8081/mcp", "x"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, id, secret string) {
		encoded := readings(url.QueryEscape(id) + ":" + url.QueryEscape(secret))
		if !slices.Contains(encoded, reading{id, secret}) {
			t.Errorf("percent-encoded %q:%q is read as %q", id, secret, encoded)
		}
		if strings.Contains(secret, ":") {
			return // such a secret has to be percent-encoded when the id has a colon
		}
		raw := readings(id + ":" + secret)
		if !slices.Contains(raw, reading{id, secret}) {
			t.Errorf("raw %q:%q is read as %q", id, secret, raw)
		}
		if len(raw) > 3 {
			t.Errorf("%d readings", len(raw))
		}
	})
}
