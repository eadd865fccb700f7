package authz

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestFormLimits: what a form may have at most, and what is one too many.
func TestFormLimits(t *testing.T) {
	t.Parallel()
	times := func(s string, n int) string { return strings.Repeat(s, n) }
	for name, tt := range map[string]struct {
		filter    formFilter
		raw       string
		parameter string
		want      []string
		problem   string // a part of it, "error" if nothing is read
	}{
		"as many parameters as there may be": {tokenForm, times("x=1&", maxParameters-1) + "code=a", "code", []string{"a"}, ""},
		"one more":                           {tokenForm, times("x=1&", maxParameters) + "code=a", "code", nil, "error"},
		"as long as it may be":               {tokenForm, "code=a&x=" + times("x", maxForm-len("code=a&x=")), "code", []string{"a"}, ""},
		"one byte more":                      {tokenForm, "code=a&x=" + times("x", maxForm-len("code=a&x=")+1), "code", nil, "error"},
		"twice":                              {tokenForm, "code=a&code=b", "code", nil, "more than once"},
		"twice the same":                     {tokenForm, "code=a&code=a", "code", nil, "more than once"},
		"twice, once empty":                  {tokenForm, "code=a&code=", "code", nil, "more than once"},
		"twice, written in two ways":         {tokenForm, "code=a&%63ode=a", "code", nil, "more than once"},
		"in another case":                    {tokenForm, "code=a&Code=b", "code", []string{"a"}, ""},
		"as often as it may be repeated":     {tokenForm, times("resource=r&", maxTimes-1) + "resource=s", "resource", append(slices.Repeat([]string{"r"}, maxTimes-1), "s"), ""},
		"once more":                          {tokenForm, times("resource=r&", maxTimes) + "resource=s", "resource", nil, "too often"},
		"scopes of a page":                   {consentForm, times("scope=r&", maxParameters-1) + "scope=s", "scope", append(slices.Repeat([]string{"r"}, maxParameters-1), "s"), ""},
		"others between its values":          {tokenForm, "resource=a&code=c&resource=b&scope=s&resource=c", "resource", []string{"a", "b", "c"}, ""},
		"between the values of another":      {tokenForm, "resource=a&code=c&resource=b&scope=s&resource=c", "code", []string{"c"}, ""},
		"a long value":                       {authorizeForm, "state=" + times("s", longText), "state", []string{times("s", longText)}, ""},
		"one byte longer":                    {authorizeForm, "state=" + times("s", longText+1), "state", nil, "too long"},
		"a long value that was issued":       {tokenForm, "code=" + times("s", shortText), "code", []string{times("s", shortText)}, ""},
		"one byte longer than was issued":    {tokenForm, "code=" + times("s", shortText+1), "code", []string{unissued}, ""},
		"a space":                            {authorizeForm, "state=%20", "state", []string{" "}, ""},
		"the last control character below":   {authorizeForm, "state=%1f", "state", nil, "not allowed"},
		"the one above":                      {authorizeForm, "state=a%7f", "state", nil, "not allowed"},
		"half a character":                   {authorizeForm, "state=%c3", "state", nil, "not allowed"},
		"a control character in a code":      {tokenForm, "code=a%7f", "code", []string{unissued}, ""},
		"half a character in a code":         {tokenForm, "code=%c3", "code", []string{unissued}, ""},
		"a name that is no name":             {tokenForm, "%zz=a&code=a", "code", nil, "error"},
		"a semicolon":                        {tokenForm, "x=a;code=a", "code", nil, "error"},
	} {
		f, err := tt.filter.parse(tt.raw)
		if (err != nil) != (tt.problem == "error") || !slices.Equal(f.all(tt.parameter), tt.want) {
			t.Errorf("%s: %.100q, %v", name, f.all(tt.parameter), err)
		}
		if p := f.problem(); err == nil && ((p == "") != (tt.problem == "") || !strings.Contains(p, tt.problem)) {
			t.Errorf("%s: the problem %q, not %q", name, p, tt.problem)
		}
	}
}

// TestFormBodies: a form is taken from a body of its type alone, and not if it has a problem or if there
// is one of its parameters in the query.
func TestFormBodies(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		query, contentType, body string
		taken                    bool
	}{
		"a form":                       {"", formType, "code=a", true},
		"with a parameter of its type": {"", formType + "; charset=utf-8", "code=a", true},
		"in capitals":                  {"", strings.ToUpper(formType), "code=a", true},
		"no type":                      {"", "", "code=a", false},
		"a longer type":                {"", formType + "-v2", "code=a", false},
		"another type":                 {"", "text/plain", "code=a", false},
		"as a parameter of another":    {"", "text/plain; a=" + formType, "code=a", false},
		"two types":                    {"", formType + ", text/plain", "code=a", false},
		"two header fields":            {"", formType + "\n" + "text/plain", "code=a", false},
		"a type that is broken":        {"", formType + "; a=b; a=c", "code=a", false},
		"another query":                {"x=1", formType, "code=a", true},
		"in the query":                 {"code=a", formType, "", false},
		"in both":                      {"code=a", formType, "code=a", false},
		"another one in the query":     {"x=1&client_secret=", formType, "code=a", false},
		"a query that is broken":       {"client_secret=s&%zz", formType, "code=a", false},
		"a query with a semicolon":     {"a=1;client_secret=s", formType, "code=a", false},
		"a parameter twice":            {"", formType, "code=a&grant_type=x&grant_type=x", false},
		"not a form":                   {"", formType, "code=%zz", false},
		"longer than a form may be":    {"", formType, "code=a&x=" + strings.Repeat("x", maxForm), false},
	} {
		r := httptest.NewRequest(http.MethodPost, "/token", strings.NewReader(tt.body))
		r.URL.RawQuery = tt.query
		r.Header["Content-Type"] = strings.Split(tt.contentType, "\n")
		f, err := tokenForm.body(httptest.NewRecorder(), r)
		var refused *apiError
		if tt.taken != (err == nil) || (f.get("code") == "a") != tt.taken || err != nil && !errors.As(err, &refused) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
}

// TestPrintable: a description has the characters that RFC 6749 section 5.2 allows, and an end.
func TestPrintable(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"": "", " !#[]~": " !#[]~", "a\"b\\c": "a?b?c", "\x1f\x7fé\xff\n": "?????", strings.Repeat("a", 120): strings.Repeat("a", 120), strings.Repeat("a", 121): strings.Repeat("a", 120) + "...",
	} {
		if got := printable(s); got != want {
			t.Errorf("%q becomes %q, not %q", s, got, want)
		}
	}
}
