package e2e

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// newBrowser returns an HTTP client with cookies, for allow and deny.
func newBrowser(t testing.TB) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, Timeout: patience}
}

// allow opens authorizeURL, signs the person in when asked, allows everything that is
// ticked, and returns the redirect back to the client without following it.
func allow(t testing.TB, client *http.Client, authorizeURL string) (redirect *url.URL) {
	t.Helper()
	return decide(t, client, authorizeURL, "allow", func(string) bool { return true })
}

// deny is like allow, but the person denies.
func deny(t testing.TB, client *http.Client, authorizeURL string) (redirect *url.URL) {
	t.Helper()
	return decide(t, client, authorizeURL, "deny", func(string) bool { return true })
}

// decide fills in the forms. Of the scopes that are ticked only those that keep accepts
// stay so.
func decide(t testing.TB, client *http.Client, authorizeURL, decision string, keep func(scope string) bool) *url.URL {
	t.Helper()
	browser := *client
	browser.CheckRedirect = staysAt(authorizeURL)
	page, redirect := load(t, &browser, newGet(t, authorizeURL))
	for range 4 {
		switch {
		case redirect != nil:
			return redirect
		case page.fields["username"] != nil:
			page, redirect = submit(t, &browser, page, page.signIn(personName, personPassword))
		case page.fields["decision"] != nil:
			page, redirect = submit(t, &browser, page, page.consent(decision, keep))
		default:
			t.Fatalf("%s has no form to fill in:\n%s", page.url, page.text)
		}
	}
	t.Fatalf("%s keeps asking:\n%s", page.url, page.text)
	return nil
}

// staysAt follows redirects as long as they lead to the host of address; what leads
// elsewhere is the answer to the client.
func staysAt(address string) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, _ []*http.Request) error {
		home, err := url.Parse(address)
		if err != nil || next.URL.Scheme != home.Scheme || next.URL.Host != home.Host {
			return http.ErrUseLastResponse
		}
		return nil
	}
}

// form is a page with its one form.
type form struct {
	url    *url.URL
	text   string
	action string
	fields map[string][]field // by name
}

type field struct {
	kind, value string
	checked     bool
}

func (f form) hidden() url.Values {
	values := url.Values{}
	for name, fields := range f.fields {
		for _, field := range fields {
			if field.kind == "hidden" {
				values.Add(name, field.value)
			}
		}
	}
	return values
}

func (f form) signIn(name, password string) url.Values {
	values := f.hidden()
	values.Set("username", name)
	values.Set("password", password)
	return values
}

func (f form) consent(decision string, keep func(scope string) bool) url.Values {
	values := f.hidden()
	values.Set("decision", decision)
	for _, box := range f.fields["scope"] {
		if box.checked && keep(box.value) {
			values.Add("scope", box.value)
		}
	}
	return values
}

func newGet(t testing.TB, address string) *http.Request {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// submit posts values to the form's action with the headers that browsers send.
func submit(t testing.TB, browser *http.Client, f form, values url.Values) (form, *url.URL) {
	t.Helper()
	action, err := f.url.Parse(f.action)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPost, action.String(), strings.NewReader(values.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", action.Scheme+"://"+action.Host)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	return load(t, browser, req)
}

// load returns the page that answers req, or the redirect that leads away.
func load(t testing.TB, browser *http.Client, req *http.Request) (form, *url.URL) {
	t.Helper()
	resp, err := browser.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if location, err := resp.Location(); err == nil {
		return form{}, location
	}
	return parseForm(resp.Request.URL, string(body)), nil
}

var (
	tagPattern       = regexp.MustCompile(`<(form|input|button)\b([^>]*)>`)
	attributePattern = regexp.MustCompile(`([a-z-]+)(?:="([^"]*)")?`)
)

func parseForm(address *url.URL, text string) form {
	f := form{url: address, text: text, fields: map[string][]field{}}
	for _, tag := range tagPattern.FindAllStringSubmatch(text, -1) {
		attributes := map[string]string{}
		for _, a := range attributePattern.FindAllStringSubmatch(tag[2], -1) {
			attributes[a[1]] = html.UnescapeString(a[2])
		}
		if tag[1] == "form" {
			f.action = attributes["action"]
			continue
		}
		_, checked := attributes["checked"]
		name := attributes["name"]
		f.fields[name] = append(f.fields[name], field{attributes["type"], attributes["value"], checked})
	}
	return f
}

// TestDenialReachesTheClient: in a browser without JavaScript a denial reaches the client, and
// does not affect the code of an earlier consent.
func TestDenialReachesTheClient(t *testing.T) {
	server := startAuthz(t, nil)
	known := newFlow(t, server, devResource)
	redirect := deny(t, newBrowser(t), server.URL+"/authorize?"+url.Values{
		"response_type": {"code"}, "client_id": {known.client}, "redirect_uri": {flowRedirect}, "state": {"x y&z"},
		"code_challenge": {strings.Repeat("A", 43)}, "code_challenge_method": {"S256"},
	}.Encode())
	if got := redirect.Scheme + "://" + redirect.Host + redirect.Path; got != flowRedirect {
		t.Errorf("the person was sent to %s, want %s", got, flowRedirect)
	}
	answer := redirect.Query()
	for name, want := range map[string]string{"error": "access_denied", "state": "x y&z", "iss": server.URL} {
		if got := answer[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q once", name, got, want)
		}
	}
	if answer.Has("code") {
		t.Error("a denied client received a code")
	}
}
