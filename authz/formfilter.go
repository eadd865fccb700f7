package authz

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"gatehouse.example/authz/internal/passkey"
	"gatehouse.example/internal/passwords"
)

// maxForm is the greatest length of a query or form body in bytes, maxParameters the
// greatest number of its parameters.
const (
	maxForm       = 64 << 10
	maxParameters = 256
)

// parameter holds the limits of one parameter.
type parameter struct {
	max   int  // bytes
	many  bool // may be repeated: OAuth 2.1 section 3.1 allows that for resource alone
	times int  // the greatest number of values, if more than maxTimes
	// issued marks parameters whose valid values this server issued. A value that is too long
	// or malformed is then treated like any other value that it did not issue. Clients
	// recover from the error for an invalid token, and seldom from invalid_request.
	issued bool
}

// maxTimes is the usual limit on the values of a parameter that may be repeated.
const maxTimes = 32

// unissued replaces values that this server cannot have issued.
const unissued = "?"

// formFilter holds the parameters that one endpoint reads. All others are ignored (OAuth 2.1
// section 3.1: unrecognised parameters MUST be ignored).
type formFilter map[string]parameter

const (
	shortText = 512
	longText  = 4096
)

// The form filters, one per endpoint. Handlers see only these parameters.
var (
	authorizeForm = formFilter{
		"response_type": {max: 64}, "response_mode": {max: 64}, "client_id": {max: longText}, "redirect_uri": {max: longText},
		"scope": {max: longText}, "state": {max: longText}, "code_challenge": {max: shortText}, "code_challenge_method": {max: 64},
		"resource": {max: longText, many: true}, "prompt": {max: 128}, "max_age": {max: 64}, "login_hint": {max: shortText},
		"request": {max: maxForm}, "request_uri": {max: longText}, "registration": {max: maxForm},
	}
	tokenForm = withClientParameters(formFilter{
		"grant_type": {max: 128}, "code": {max: shortText, issued: true}, "redirect_uri": {max: longText}, "code_verifier": {max: shortText},
		"refresh_token": {max: shortText, issued: true}, "scope": {max: longText}, "resource": {max: longText, many: true},
	})
	revokeForm = withClientParameters(formFilter{"token": {max: 16 << 10, issued: true}, "token_type_hint": {max: 64}})
	// introspectForm lacks client_id and client_secret: resource servers use HTTP Basic.
	introspectForm   = formFilter{"token": {max: 16 << 10, issued: true}, "token_type_hint": {max: 64}}
	pageForm         = formFilter{"transaction": {max: 64}}
	loginForm        = formFilter{"transaction": {max: 64}, "csrf": {max: 64}, "username": {max: shortText}, "password": {max: passwords.Longest}, "provider": {max: 64}, "decision": {max: 16}}
	logoutForm       = formFilter{"transaction": {max: 64}, "sign-out": {max: 64}, "not-you": {max: 64}}
	languageForm     = formFilter{"language": {max: 64}, "return": {max: maxReturn}}
	listForm         = formFilter{"before": {max: shortText}}
	endForm          = formFilter{"csrf": {max: 64}, "end-grant": {max: 64}, "end-application": {max: longText}, "end-all": {max: 8}, "forget": {max: longText}}
	sessionsForm     = formFilter{"csrf": {max: 64}, "end": {max: 128}, "end-others": {max: 8}}
	passkeyForm      = formFilter{"transaction": {max: 64}, "csrf": {max: 64}, "credential": {max: passkey.MaxAnswer}}
	codeForm         = formFilter{"transaction": {max: 64}, "csrf": {max: 64}, "code": {max: 64}}
	passkeysForm     = formFilter{"csrf": {max: 64}, "do": {max: 16}, "id": {max: 2048}, "name": {max: shortText}, "credential": {max: passkey.MaxAnswer}}
	secondFactorForm = formFilter{"csrf": {max: 64}, "do": {max: 16}, "setup": {max: 256}, "code": {max: 64}}
	passwordForm     = formFilter{"csrf": {max: 64}, "current": {max: passwords.Longest}, "new": {max: passwords.Longest}}
	inviteForm       = formFilter{"token": {max: 128, issued: true}}
	acceptForm       = formFilter{"csrf": {max: 64}, "do": {max: 16}, "new": {max: passwords.Longest}, "credential": {max: passkey.MaxAnswer}}
	consentForm      = formFilter{"transaction": {max: 64}, "csrf": {max: 64}, "decision": {max: 16}, "remember": {max: 16}, "scope": {max: longText + 1 + maxScope, many: true, times: maxParameters}}
	// callbackForm is what a provider sends back (OpenID Connect Core section 3.1.2.5, RFC 9207).
	callbackForm = formFilter{"state": {max: 128, issued: true}, "code": {max: longText}, "iss": {max: longText}, "error": {max: shortText}, "error_description": {max: longText}}
	// backChannelForm is a logout at a provider (OpenID Connect Back-Channel Logout 1.0 section 2.5).
	backChannelForm = formFilter{"logout_token": {max: 16 << 10}}
	providersForm   = formFilter{"csrf": {max: 64}, "connect": {max: 64}, "disconnect": {max: 64}}
)

// withClientParameters adds the parameters of client authentication (OAuth 2.1 section 2.4).
func withClientParameters(g formFilter) formFilter {
	g["client_id"] = parameter{max: longText, issued: true}
	g["client_secret"] = parameter{max: shortText, issued: true}
	g["client_assertion"] = parameter{max: 16 << 10, issued: true}
	g["client_assertion_type"] = parameter{max: shortText}
	return g
}

// form holds the parameters that passed a form filter. An empty value counts as absent (OAuth
// 2.1 section 3.1). problems describes, by name, the parameters that were dropped.
type form struct {
	parameters []sent
	problems   map[string]string
}

// sent is a parameter with its values, in the order in which they were sent.
type sent struct {
	name   string
	values []string
}

func (f form) get(name string) string {
	if v := f.all(name); len(v) > 0 {
		return v[0]
	}
	return ""
}

func (f form) all(name string) []string {
	for i := range f.parameters {
		if f.parameters[i].name == name {
			return f.parameters[i].values
		}
	}
	return nil
}

// problem returns a sentence about the first parameter by name that was refused, or "".
func (f form) problem() string {
	if len(f.problems) == 0 {
		return ""
	}
	return f.problems[slices.Min(slices.Collect(maps.Keys(f.problems)))]
}

// parse reads an urlencoded string. The error is a sentence for the client.
func (ff formFilter) parse(raw string) (form, error) {
	if len(raw) > maxForm {
		return form{}, fmt.Errorf("the parameters are longer than %d bytes", maxForm)
	}
	if strings.Count(raw, "&") >= maxParameters {
		return form{}, fmt.Errorf("there are more than %d parameters", maxParameters)
	}
	f, room := form{parameters: make([]sent, 0, 8)}, make([]string, 8)
	for pair := range strings.SplitSeq(raw, "&") {
		if !f.add(ff, pair, &room) {
			return form{}, fmt.Errorf("the parameters are not properly form-urlencoded")
		}
	}
	for i, one := range f.parameters {
		kept, problem := ff[one.name].check(one.name, one.values)
		f.parameters[i].values = kept
		if problem == "" {
			continue
		}
		if f.problems == nil {
			f.problems = map[string]string{}
		}
		f.problems[one.name] = problem
	}
	return f, nil
}

// add adds a parameter if the filter has it. It reports whether the pair is well-formed, by the rules
// of [url.ParseQuery]. The first value of a parameter gets its place from room, while there is any.
func (f *form) add(ff formFilter, pair string, room *[]string) bool {
	if pair == "" {
		return true
	}
	if strings.Contains(pair, ";") {
		return false
	}
	name, value, _ := strings.Cut(pair, "=")
	name, wrongName := url.QueryUnescape(name)
	value, wrongValue := url.QueryUnescape(value)
	if wrongName != nil || wrongValue != nil {
		return false
	}
	if _, known := ff[name]; !known {
		return true
	}
	for i := range f.parameters {
		if f.parameters[i].name == name {
			f.parameters[i].values = append(f.parameters[i].values, value)
			return true
		}
	}
	var values []string
	if len(*room) > 0 {
		values, *room = (*room)[:0:1], (*room)[1:]
	}
	f.parameters = append(f.parameters, sent{name, append(values, value)})
	return true
}

func (p parameter) check(name string, values []string) (kept []string, problem string) {
	if len(values) > 1 && !p.many {
		// OAuth 2.1 section 3.1: parameters MUST NOT be included more than once.
		return nil, fmt.Sprintf("the parameter %s is given more than once", name)
	}
	if len(values) > max(p.times, maxTimes) {
		return nil, fmt.Sprintf("the parameter %s is repeated too often", name)
	}
	kept = values[:0]
	for _, v := range values {
		clean := utf8.ValidString(v) && !hasControl(v)
		switch {
		case v == "":
		case p.issued && (len(v) > p.max || !clean):
			kept = append(kept, unissued)
		case len(v) > p.max:
			return nil, fmt.Sprintf("the parameter %s is too long", name)
		case !clean:
			return nil, fmt.Sprintf("the parameter %s holds characters that are not allowed", name)
		default:
			kept = append(kept, v)
		}
	}
	return kept, ""
}

// hasControl reports whether a text has a control character of ASCII.
func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// body reads the form of a POST. It refuses parameters in the query: secrets do not belong
// into URLs (OAuth 2.1 section 2.4.1).
func (ff formFilter) body(w http.ResponseWriter, r *http.Request) (form, error) {
	if err := ff.notIn(r.URL.RawQuery); err != nil {
		return form{}, err
	}
	// Two header fields are one list (RFC 9110 section 5.3), and no list is a type.
	if !isForm(strings.Join(r.Header.Values("Content-Type"), ",")) {
		return form{}, invalidRequest("the Content-Type must be application/x-www-form-urlencoded")
	}
	raw, err := wholeBody(w, r)
	if err != nil {
		return form{}, invalidRequest("the body is larger than %d bytes or was not sent whole", maxForm)
	}
	f, err := ff.parse(string(raw))
	if err != nil {
		return form{}, invalidRequest("%s", err.Error())
	}
	if p := f.problem(); p != "" {
		return form{}, invalidRequest("%s", p)
	}
	return f, nil
}

// notIn refuses parameters of the filter in a query.
func (ff formFilter) notIn(rawQuery string) error {
	if rawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return invalidRequest("the query is not properly form-urlencoded")
	}
	for name := range query {
		if _, known := ff[name]; known {
			return invalidRequest("send the parameter %s in the body, not in the query", name)
		}
	}
	return nil
}

const formType = "application/x-www-form-urlencoded"

// isForm reports whether a Content-Type is that of a form, with any parameters.
func isForm(contentType string) bool {
	if contentType == formType {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == formType
}

// printable returns s with the characters that an error_description may contain: RFC 6749
// section 5.2 allows %x20-21 / %x23-5B / %x5D-7E. The result has at most 123 bytes.
func printable(s string) string {
	s = strings.Map(func(c rune) rune {
		if c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return '?'
		}
		return c
	}, s)
	if len(s) > 120 {
		s = s[:120] + "..."
	}
	return s
}
