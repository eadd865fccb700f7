package authz_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
)

// cookiesOf returns the cookies that an answer sets, by name.
func cookiesOf(t *testing.T, r reply) map[string]*http.Cookie {
	t.Helper()
	set := map[string]*http.Cookie{}
	for _, line := range r.header.Values("Set-Cookie") {
		c, err := http.ParseSetCookie(line)
		if err != nil {
			t.Fatal(err)
		}
		set[c.Name] = c
	}
	return set
}

// cookieName returns the name of a cookie of an issuer, without the prefix for https.
func cookieName(issuer, base string) string {
	sum := sha256.Sum256([]byte(issuer))
	return base + "_" + hex.EncodeToString(sum[:6])
}

// The names of the cookies of secureIssuer.
var (
	hostBrowser = "__Host-" + cookieName(secureIssuer, "authz_browser")
	hostSession = "__Host-" + cookieName(secureIssuer, "authz_session")
)

// TestCookies: over https all cookies are Secure and bound to the host by their prefix. An
// http loopback issuer has other names, so that the two are never confused.
func TestCookies(t *testing.T) {
	t.Parallel()
	for issuer, prefix := range map[string]string{
		secureIssuer: "__Host-", secureIssuer + "/tenant": "__Host-", "https://127.0.0.1:8443": "__Host-",
		loopbackIssuer: "", "http://localhost:8080": "", "http://[::1]:8080": "",
	} {
		t.Run(issuer, func(t *testing.T) {
			t.Parallel()
			h, c := newHarness(t, setup{issuer: issuer}), testClients()["native"]
			b := h.newBrowser()
			set := cookiesOf(t, b.open(h.issuer+"/authorize?"+asks(c).Encode()))
			b.follow()
			for name, cookie := range cookiesOf(t, b.submit("username", personName, "password", personPassword)) {
				set[name] = cookie
			}
			transaction := prefix + cookieName(issuer, "authz_transaction_"+b.page.url.Query().Get("transaction"))
			names := []string{prefix + cookieName(issuer, "authz_browser"), prefix + cookieName(issuer, "authz_session"), prefix + cookieName(issuer, "authz_device"), transaction}
			if len(set) != 4 || set[names[0]] == nil || set[names[1]] == nil || set[names[2]] == nil || set[names[3]] == nil {
				t.Fatalf("cookies %v, want %v", set, names)
			}
			for name, cookie := range set {
				if cookie.Secure != (prefix != "") || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.Domain != "" {
					t.Errorf("%s: %s", name, cookie.Raw)
				}
				longest := 24 * 60 * 60
				if name == names[2] {
					longest *= 180
				}
				if cookie.MaxAge <= 0 || cookie.MaxAge > longest || len(cookie.Value) < 43 {
					t.Errorf("%s: it lives for %ds and has %d characters", name, cookie.MaxAge, len(cookie.Value))
				}
			}
			b.follow()
			if b.submit("decision", "allow").location(t).Query().Get("code") == "" {
				t.Error("the way through does not work with these cookies")
			}
		})
	}
}

// TestBrowserCookieIsRenewed: each authorization request extends the cookie that its
// transaction depends on, without changing its value.
func TestBrowserCookieIsRenewed(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	address := h.issuer + "/authorize?" + asks(c).Encode()
	first := cookiesOf(t, b.open(address))[hostBrowser]
	again := cookiesOf(t, b.open(address))[hostBrowser]
	if first == nil || again == nil || first.Value != again.Value {
		t.Errorf("first %v, again %v", first, again)
	}
}

// cookieHeader returns a Cookie header of alternating names and values.
func cookieHeader(pairs ...string) string {
	var parts []string
	for i := 0; i+1 < len(pairs); i += 2 {
		parts = append(parts, pairs[i]+"="+pairs[i+1])
	}
	return strings.Join(parts, "; ")
}

// TestForeignCookies: a session cookie under another name, sent twice, cut, or planted by a
// third party is ignored.
func TestForeignCookies(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	b.code(asks(c))
	home, err := url.Parse(h.issuer)
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{}
	for _, cookie := range b.jar.Cookies(home) {
		secrets[cookie.Name] = cookie.Value
	}
	session := secrets[hostSession]
	planted := "gate_se_" + strings.Repeat("A", 43)
	ask := func(cookies string) string {
		t.Helper()
		r := h.newRequest(http.MethodGet, h.issuer+"/authorize", replaced(asks(c), "prompt", "none"))
		r.Header.Set("Cookie", cookies)
		return h.send(r).location(t).Query().Get("error")
	}
	if got := ask(cookieHeader(hostSession, session)); got != "consent_required" {
		t.Fatalf("the session itself: %s", got)
	}
	for name, cookies := range map[string]string{
		"the name of http":    cookieHeader(cookieName(secureIssuer, "authz_session"), session),
		"without the prefix":  cookieHeader("Host-"+cookieName(secureIssuer, "authz_session"), session),
		"another capital":     cookieHeader("__host-"+cookieName(secureIssuer, "authz_session"), session),
		"two of them":         cookieHeader(hostSession, session, hostSession, planted),
		"two, planted first":  cookieHeader(hostSession, planted, hostSession, session),
		"the same one twice":  cookieHeader(hostSession, session, hostSession, session),
		"planted":             cookieHeader(hostSession, planted),
		"cut":                 cookieHeader(hostSession, session[:len(session)-1]),
		"longer":              cookieHeader(hostSession, session+"A"),
		"empty":               cookieHeader(hostSession, ""),
		"the browser's":       cookieHeader(hostSession, secrets[hostBrowser]),
		"in the other cookie": cookieHeader(hostBrowser, session),
		"very long":           cookieHeader(hostSession, "gate_se_"+strings.Repeat("A", 4000)),
	} {
		if got := ask(cookies); got != "login_required" {
			t.Errorf("%s: %s, want login_required", name, got)
		}
	}
}

// TestSessionFixation: whatever cookie a browser has before the sign-in, the new session has
// a new secret, and the previous session ends.
func TestSessionFixation(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	session := func() string {
		t.Helper()
		set := cookiesOf(t, b.last)[hostSession]
		if set == nil {
			t.Fatalf("no session: %s", b.last)
		}
		return set.Value
	}
	signIn := func() string {
		t.Helper()
		h.clock.advance(time.Second)
		b.open(h.issuer + "/authorize?" + replaced(asks(c), "prompt", "login").Encode())
		b.follow()
		b.submit("username", personName, "password", personPassword)
		return session()
	}
	first, second := signIn(), signIn()
	if first == second {
		t.Fatal("the session kept its secret over a sign-in")
	}
	r := h.newRequest(http.MethodGet, h.issuer+"/authorize", replaced(asks(c), "prompt", "none"))
	r.Header.Set("Cookie", cookieHeader(hostSession, first))
	if got := h.send(r).location(t).Query().Get("error"); got != "login_required" {
		t.Errorf("the session of before is still one: %s", got)
	}
}

// TestForeignForms: the token of a form fits no other transaction, page, browser or
// session.
func TestForeignForms(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	h.addPerson("writer")
	b := h.newBrowser()
	page := func(prompt string) (string, url.Values) {
		t.Helper()
		b.open(h.issuer + "/authorize?" + replaced(asks(c), "prompt", prompt).Encode())
		b.follow()
		return b.page.inputs(t)
	}
	_, loginOne := page("login")
	_, loginTwo := page("login")
	mustShow(t, b.submit("csrf", loginOne.Get("csrf"), "username", personName, "password", personPassword), http.StatusForbidden, "invalid_request")
	b.submit("username", personName, "password", personPassword)
	b.follow()
	_, consentTwo := b.page.inputs(t)
	mustShow(t, b.submit("csrf", loginTwo.Get("csrf"), "decision", "allow"), http.StatusForbidden, "invalid_request")
	_, consentThree := page("")
	mustShow(t, b.submit("csrf", consentTwo.Get("csrf"), "decision", "allow"), http.StatusForbidden, "invalid_request")
	mustShow(t, b.submit("transaction", consentTwo.Get("transaction"), "decision", "allow"), http.StatusForbidden, "invalid_request")

	// Somebody else signs in with the same browser; the page that the first one saw is not theirs to answer.
	h.clock.advance(time.Second)
	page("login")
	b.submit("username", "writer", "password", personPassword)
	mustShow(t, b.h.with(b.jar, postForm(h, "/consent", replaced(consentThree, "decision", "allow"))), http.StatusForbidden, "invalid_request")

	other := h.newBrowser()
	other.code(asks(c))
	mustShow(t, other.h.with(other.jar, postForm(h, "/consent", replaced(consentTwo, "decision", "allow"))), http.StatusBadRequest, "invalid_request")
}

func postForm(h *harness, path string, values url.Values) *http.Request {
	r := h.newRequest(http.MethodPost, h.issuer+path, values)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return r
}

// TestConsentTogether: of several concurrent answers to one consent page exactly one gives a
// code.
func TestConsentTogether(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	b.code(asks(c))
	b.open(h.issuer + "/authorize?" + asks(c).Encode())
	b.follow()
	_, values := b.page.inputs(t)
	values.Set("decision", "allow")
	codes := map[string]bool{}
	h.meter.holdReadsOf("transaction", crowd) // all have read that there is no decision
	for _, r := range together(func(int) reply { return h.with(b.jar, postForm(h, "/consent", values)) }) {
		if r.status == http.StatusSeeOther {
			codes[r.location(t).Query().Get("code")] = true
			continue
		}
		mustShow(t, r, http.StatusBadRequest, "invalid_request")
	}
	h.meter.after.Store(nil)
	if len(codes) != 1 || codes[""] {
		t.Errorf("%d codes for one consent", len(codes))
	}
}

// TestSignInSaysNothing: the answers for an unknown name, a disabled person and a wrong
// password look the same and take as long.
func TestSignInSaysNothing(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	h.addPerson("disabled")
	for _, name := range []string{personName, "disabled"} { // hashed with the default cost
		if err := admin.SetPassword(t.Context(), h.store, name, personPassword); err != nil {
			t.Fatal(err)
		}
	}
	if err := admin.DisableUser(t.Context(), h.store, "disabled"); err != nil {
		t.Fatal(err)
	}
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + asks(c).Encode())
	b.follow()
	type attempt struct{ name, password string }
	attempts := map[string]attempt{
		"wrong":    {personName, "wrong password"},
		"disabled": {"disabled", personPassword},
		"unknown":  {"nobody", personPassword},
		"no name":  {"<>", personPassword},
	}
	bodies, fastest := map[string]bool{}, map[string]time.Duration{}
	for range 3 {
		for kind, a := range attempts {
			start := time.Now()
			r := b.submit("username", a.name, "password", a.password)
			took := time.Since(start)
			if best, ok := fastest[kind]; !ok || took < best {
				fastest[kind] = took
			}
			if r.status != http.StatusForbidden || len(r.header.Values("Set-Cookie")) > 0 {
				t.Fatalf("%s: %s", kind, r)
			}
			bodies[regexp.MustCompile(`<input id="username"[^>]*>| data-options="[^"]*"`).ReplaceAllString(r.body, "")] = true
		}
	}
	if len(bodies) != 1 {
		t.Errorf("the answers differ in more than the name that was typed: %d kinds", len(bodies))
	}
	for kind, took := range fastest {
		// The fastest of three. Without hashing an answer takes a millisecond or two.
		if took < 5*time.Millisecond {
			t.Errorf("%s takes %s: nothing was hashed", kind, took)
		}
	}
}

// TestPages checks what all answers to a browser have in common.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, issuer := range []string{secureIssuer, loopbackIssuer} {
		t.Run(issuer, func(t *testing.T) {
			t.Parallel()
			h, c := newHarness(t, setup{issuer: issuer}), testClients()["native"]
			b := h.newBrowser()
			b.open(h.issuer + "/authorize?" + asks(c).Encode())
			pages := map[string]reply{"login": b.follow(), "error": b.h.get("/authorize")}
			b.submit("username", personName, "password", personPassword)
			pages["consent"] = b.follow()
			for name, page := range pages {
				want := map[string]int{"login": 200, "consent": 200, "error": 400}[name]
				if faults := pageFaults(page, want); len(faults) > 0 {
					t.Errorf("%s: %s", name, strings.Join(faults, "\n"))
				}
				secure := page.header.Get("Strict-Transport-Security") != ""
				if secure != strings.HasPrefix(issuer, "https:") {
					t.Errorf("%s: Strict-Transport-Security on %s: %t", name, issuer, secure)
				}
			}
		})
	}
}

// TestConsentNames: the page names client, redirect host, resources, scopes and person
// (requirement R-SEC-6), and warns where the redirect can be trusted less.
func TestConsentNames(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	b := h.newBrowser()
	b.code(asks(testClients()["native"]))
	for name, words := range map[string][]string{
		"native": {"127.0.0.1:49152", "The native client"},
		"web":    {"client.example.org", "The web client"},
		"app":    {"cursor://anysphere.cursor-mcp", "The app client"},
	} {
		c := testClients()[name]
		request := asks(c)
		request.Add("resource", tasks)
		request.Set("scope", "notes:read tasks:write")
		b.open(h.issuer + "/authorize?" + request.Encode())
		page := b.follow()
		for _, word := range append(words, "Notes", notes, "Tasks", tasks, "Read your notes", "Change your tasks", personName) {
			if !strings.Contains(page.body, word) {
				t.Errorf("%s: the page does not say %q:\n%s", name, word, page)
			}
		}
		for _, word := range []string{"Add and change notes", "See your tasks"} {
			if strings.Contains(page.body, word) {
				t.Errorf("%s: the page says %q, which was not asked for", name, word)
			}
		}
		_, values := page.inputs(t)
		if got := values["scope"]; !slices.Equal(got, []string{notes + " notes:read", tasks + " tasks:write"}) {
			t.Errorf("%s: boxes %v", name, got)
		}
		if !strings.Contains(page.body, "<legend><bdi>Notes</bdi></legend>") {
			t.Errorf("%s: with two resources the scopes are not grouped by them:\n%s", name, page)
		}
	}
}

// TestHostileClientName: a hostile client name cannot affect other parts of the page.
func TestHostileClientName(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	c.ID = "hostile-client"
	c.Metadata.ClientName = `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u202eetilop"
	h.addClient(c.Client)
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + asks(c).Encode())
	login := b.follow()
	b.submit("username", personName, "password", personPassword)
	for _, page := range []reply{login, b.follow()} {
		if faults := pageFaults(page, http.StatusOK); len(faults) > 0 {
			t.Error(faults)
		}
		if strings.Contains(page.body, "<img") || strings.ContainsRune(page.body, '\u202e') {
			t.Errorf("the name left its place: %s", page)
		}
	}
}

// TestUntrustedLink: the page that replaces a redirect links to exactly the address that the
// client would have received.
func TestUntrustedLink(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["web"]
	for _, broken := range [][]string{
		{"response_type", "token"}, {"code_challenge", ""}, {"scope", "notes:fly"}, {"resource", "https://unknown.example/"}, {"prompt", "none"},
	} {
		r := h.newBrowser().open(h.issuer + "/authorize?" + replaced(asks(c), broken...).Encode())
		link := regexp.MustCompile(`href="([^"]*)"`).FindStringSubmatch(r.body)
		if r.status != http.StatusBadRequest || link == nil {
			t.Errorf("%v: %s", broken, r)
			continue
		}
		u, err := url.Parse(html.UnescapeString(link[1]))
		if err != nil {
			t.Fatal(err)
		}
		query := u.Query()
		if u.Scheme+"://"+u.Host+u.Path != c.redirect || query.Get("state") != "af0ifjsldkj" || query.Get("iss") != h.issuer || query.Get("error") == "" {
			t.Errorf("%v: the link leads to %s", broken, u)
		}
	}
}

// TestHead: HEAD is answered like GET, without a body.
func TestHead(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	for path, status := range map[string]int{
		"/authorize?" + asks(c).Encode():    http.StatusSeeOther,
		"/authorize":                        http.StatusBadRequest,
		"/login":                            http.StatusBadRequest,
		"/consent":                          http.StatusBadRequest,
		"/jwks.json":                        http.StatusOK,
		"/.well-known/openid-configuration": http.StatusOK,
		"/healthz":                          http.StatusOK,
		"/token":                            http.StatusMethodNotAllowed,
		fmt.Sprintf("/authorize?client_id=%s&redirect_uri=x", c.Client.ID): http.StatusBadRequest,
	} {
		if r := h.send(h.newRequest(http.MethodHead, h.issuer+path, nil)); r.status != status || r.body != "" {
			t.Errorf("HEAD %s: %s", path, r)
		}
	}
}
