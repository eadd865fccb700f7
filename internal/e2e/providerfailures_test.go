//go:build e2e

package e2e

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// abortLink is the link with which a person leaves a page of panva's provider.
var abortLink = regexp.MustCompile(`href="([^"]+/abort)"`)

// loggedReason is where the log names a provider and the reason.
var loggedReason = regexp.MustCompile(`provider (?:company|other): ([a-z-]+)`)

func reasonLogged(log string) string {
	if found := loggedReason.FindStringSubmatch(log); found != nil {
		return found[1]
	}
	return ""
}

// changed returns an address with other values in its query; an empty one is taken away.
func changed(address *url.URL, pairs ...string) string {
	values := address.Query()
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
		if pairs[i+1] == "" {
			values.Del(pairs[i])
		}
	}
	other := *address
	other.RawQuery = values.Encode()
	return other.String()
}

// failure is a sign-in that comes to nothing.
type failure struct {
	// last is the browser that opens the last address; the page there is the answer.
	last   func(s *throughProviders, b *http.Client) (*http.Client, string)
	status int
	code   string // on the page
	reason string // in the log, if the provider had a part in it
}

// opens is a failure at an address that a browser opens itself.
func opens(address func(s *throughProviders, b *http.Client) string) func(*throughProviders, *http.Client) (*http.Client, string) {
	return func(s *throughProviders, b *http.Client) (*http.Client, string) { return b, address(s, b) }
}

// back is a failure at a callback whose values are changed.
func back(pairs ...string) func(*throughProviders, *http.Client) (*http.Client, string) {
	return opens(func(s *throughProviders, b *http.Client) string {
		return changed(s.comeBack(b, "company", "eve"), pairs...)
	})
}

// sent is a failure after a sign-in at the provider that was asked for with other values.
func sent(pairs ...string) func(*throughProviders, *http.Client) (*http.Client, string) {
	return opens(func(s *throughProviders, b *http.Client) string {
		address, err := url.Parse(s.depart(b, "company"))
		if err != nil {
			s.Fatal(err)
		}
		return s.company.visit(b, changed(address, pairs...), s.URL+"/login/", "eve").String()
	})
}

var signInFailures = map[string]failure{
	"no state":    {back("state", ""), 400, "invalid_request", ""},
	"wrong state": {back("state", "made.up"), 400, "invalid_request", ""},
	"replay": {opens(func(s *throughProviders, b *http.Client) string {
		callback := s.comeBack(b, "company", "ada").String()
		if answer, page := s.open(s.newVisitor(), callback); answer.StatusCode != http.StatusBadRequest {
			s.Errorf("in another browser first: %s %s", answer.Status, page)
		}
		if answer, page := s.open(b, callback); answer.StatusCode != http.StatusOK || !s.signedIn(b) {
			s.Errorf("the callback itself: %s %s", answer.Status, page)
		}
		b.Jar = newBrowser(s.T).Jar // what follows must not be helped by the session, nor end it
		return callback
	}), 400, "invalid_request", ""},
	"another browser": {func(s *throughProviders, b *http.Client) (*http.Client, string) {
		return s.newVisitor(), s.comeBack(b, "company", "eve").String()
	}, 400, "invalid_request", ""},
	"another browser with a transaction": {func(s *throughProviders, b *http.Client) (*http.Client, string) {
		other := s.newVisitor()
		s.depart(other, "company")
		return other, s.comeBack(b, "company", "eve").String()
	}, 400, "invalid_request", ""},
	"the state of another transaction": {opens(func(s *throughProviders, b *http.Client) string {
		one := s.comeBack(b, "company", "eve").Query().Get("state")
		two := s.comeBack(b, "company", "eve")
		transaction, _, _ := strings.Cut(two.Query().Get("state"), ".")
		_, secret, _ := strings.Cut(one, ".")
		return changed(two, "state", transaction+"."+secret)
	}), 400, "invalid_request", ""},
	"the code of another transaction": {opens(func(s *throughProviders, b *http.Client) string {
		one := s.comeBack(b, "company", "eve").Query().Get("code")
		return changed(s.comeBack(b, "company", "eve"), "code", one)
	}), 400, "invalid_request", "code"},
	"the code of another browser": {opens(func(s *throughProviders, b *http.Client) string {
		stolen := s.comeBack(s.newVisitor(), "company", "eve").Query().Get("code")
		return changed(s.comeBack(b, "company", "eve"), "code", stolen)
	}), 400, "invalid_request", "code"},
	"a made-up code":         {back("code", "made-up"), 400, "invalid_request", "code"},
	"another nonce":          {sent("nonce", "of another sign-in"), 502, "server_error", "nonce"},
	"another code challenge": {sent("code_challenge", strings.Repeat("A", 43)), 400, "invalid_request", "code"},
	"no iss":                 {back("iss", ""), 502, "server_error", "issuer"},
	"another iss":            {back("iss", "https://other.example.com"), 502, "server_error", "issuer"},
	"mix-up: the other callback": {mixUp(func(s *throughProviders, company, _ *url.URL) string {
		return strings.Replace(company.String(), "/company/", "/other/", 1)
	}), 400, "invalid_request", ""},
	"mix-up: the other state": {mixUp(func(_ *throughProviders, company, other *url.URL) string {
		return changed(other, "code", company.Query().Get("code"), "iss", company.Query().Get("iss"))
	}), 502, "server_error", "issuer"},
	"mix-up: the other state, with its iss": {mixUp(func(_ *throughProviders, company, other *url.URL) string {
		return changed(other, "code", company.Query().Get("code"))
	}), 400, "invalid_request", "code"},
	"the person aborts": {opens(func(s *throughProviders, b *http.Client) string {
		anywhere := *b
		anywhere.CheckRedirect = nil
		_, page := s.open(&anywhere, s.depart(b, "company"))
		link := abortLink.FindStringSubmatch(page)
		if link == nil {
			s.Fatalf("nothing to abort in %s", page)
		}
		return s.company.visit(b, link[1], s.URL+"/login/", "eve").String()
	}), 403, "access_denied", "denied"},
	"the provider may show no page": {sent("prompt", "none"), 403, "access_denied", "denied"},
	"the person was removed": {opens(func(s *throughProviders, b *http.Client) string {
		callback := s.comeBack(b, "company", "gone").String()
		s.company.tell("remove gone")
		return callback
	}), 400, "invalid_request", "code"},
	"the provider is down": {opens(func(s *throughProviders, b *http.Client) string {
		callback := s.comeBack(b, "company", "eve").String()
		s.company.tell("down")
		return callback
	}), 503, "temporarily_unavailable", "down"},
}

// mixUp is a failure of somebody who has come back from both providers with one browser.
func mixUp(address func(s *throughProviders, company, other *url.URL) string) func(*throughProviders, *http.Client) (*http.Client, string) {
	return opens(func(s *throughProviders, b *http.Client) string {
		return address(s, s.comeBack(b, "company", "eve"), s.comeBack(b, "other", "eve"))
	})
}

// TestSignInThroughOIDCProviderFails: whatever goes wrong on the way to panva's provider and back is
// a page with a code, leaves no account, session and grant, and keeps nobody from signing in.
func TestSignInThroughOIDCProviderFails(t *testing.T) {
	t.Parallel()
	s := startThroughProviders(t, nil)
	held := s.signIn(s.newVisitor(), "ada").tokens(t)["access_token"].(string)
	worked := &flow{authz: s.process, resource: devResource}
	for name, f := range signInFailures {
		t.Run(name, func(t *testing.T) {
			here := *s
			here.T = t
			here.fails(f)
			s.company.tell("up")
			b := s.newVisitor()
			if page, _ := load(t, b, newGet(t, here.comeBack(b, "company", "ada").String())); len(page.fields["decision"]) != 2 || !here.signedIn(b) {
				t.Errorf("an honest sign-in after it: %s", page.text)
			}
			if !worked.active(t, held) {
				t.Error("a grant of somebody else ended")
			}
		})
	}
	if users, grants := s.records("user"), s.records("grant"); len(users) != 2 || len(grants) != 1 {
		t.Errorf("people %v, grants %v; want the demo's person and ada, and her one grant", users, grants)
	}
}

// fails expects the page of a failure, and nobody who is signed in.
func (s *throughProviders) fails(f failure) {
	s.Helper()
	b := s.newVisitor()
	last, address := f.last(s, b)
	logged := len(s.Stderr())
	answer, page := s.open(last, address)
	if answer.StatusCode != f.status || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") ||
		!strings.Contains(page, "<h1") || !strings.Contains(page, "<code>"+f.code+"</code>") || answer.Header.Get("Location") != "" {
		s.Errorf("%s %s\nwant a page with %d and %s", answer.Status, page, f.status, f.code)
	}
	if f.reason != "" && (!strings.Contains(page, "Example Company") && !strings.Contains(page, "Other Company")) {
		s.Errorf("the page does not name the provider: %s", page)
	}
	if f.reason != "" {
		until(s.T, "the log has the reason "+f.reason, func() bool { return reasonLogged(s.Stderr()[logged:]) == f.reason })
	}
	if (f.status == http.StatusServiceUnavailable) != (answer.Header.Get("Retry-After") != "") {
		s.Errorf("Retry-After is %q with %s", answer.Header.Get("Retry-After"), answer.Status)
	}
	for who, b := range map[string]*http.Client{"who began": b, "who came back": last} {
		if s.signedIn(b) {
			s.Errorf("the browser %s is signed in", who)
		}
	}
}
