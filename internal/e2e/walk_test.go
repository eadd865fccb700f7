//go:build e2e

package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gatehouse.example/authz/upstream/upstreamtest"
	"gatehouse.example/storage/redis/redistest"
)

// pageHeadings are the headings of the pages, by the name of the template. A page with an empty
// heading has several.
var pageHeadings = map[string]string{
	"account": "Your account", "activity": "What happened lately", "applications": "Applications that act for you",
	"closed": "Your account may not use this", "code": "Enter your code", "connected": "Sign in with other accounts",
	"consent": "Allow access?", "done": "", "error": "", "home": "Sign-in for your servers", "invite": "Choose how you sign in",
	"login": "Sign in", "passkeys": "Your passkeys", "password": "Change your password", "provider": "Continue with Example Company?",
	"recovery": "Your recovery codes", "registry-list": "", "registry-server": "",
	"remembered": "Applications that need not ask you again", "second-factor": "Second factor", "sessions": "Where you are signed in",
}

// site is an authorization server with everything that has a page: several resources, one of
// which is not for the person demo, a provider, a registry and a store that the commands reach.
type site struct {
	issuer   string
	provider *upstreamtest.Provider
	env      []string
}

const siteConfig = `
resources:
  - uri: http://127.0.0.1:8081/mcp
    name: Notes
    default: true
    scopes:
      notes:read: Read your notes
      notes:write: Add and change notes
  - uri: https://calendar.example.com/mcp
    name: Calendar
    scopes:
      calendar:read: See when you are busy
  - uri: https://vault.example.com/mcp
    name: Vault
    scopes:
      vault:read: Read what is locked away
    allow: {people: [ada]}
sign-in:
  providers:
    - {id: company, preset: oidc, name: Example Company, issuer: %q, client_id: %s, client_secret: %q, allow: {anybody: true}}
`

func startSite(t testing.TB) site {
	t.Helper()
	s := site{provider: upstreamtest.New(t)}
	config := filepath.Join(t.TempDir(), "authz.yaml")
	text := fmt.Sprintf(siteConfig, s.provider.URL(), upstreamtest.ClientID, upstreamtest.ClientSecret)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args, address := withListen(t, nil)
	_, port, _ := strings.Cut(address, ":")
	s.issuer = "http://localhost:" + port
	s.env = []string{"AUTHZ_STORE=" + redistest.StartServer(t), "AUTHZ_MASTER_KEYS=" + base64.StdEncoding.EncodeToString(sha256.New().Sum(nil)), "AUTHZ_ISSUER=" + s.issuer}
	startAuthz(t, s.env, append(args, "--config", config, "--registry-at", "/catalogue", "--insecure-remember-unvouched")...)
	return s
}

// run runs a command of authz that works on the store, and returns its first line.
func (s site) run(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command(build(t, "authz"), args...)
	cmd.Env = append(cleanEnvironment(), s.env...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("authz %v: %v", args, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// walk is a person at a browser who looks at every page.
type walk struct {
	*chromium
	site
	source string          // of axe-core
	walked map[string]bool // names of templates
}

// await waits until an element is visible and returns its text. It asks the browser less than that
// of other tests, and is too soon for a mouse: clicks on a page that was never painted are lost.
func (w *walk) await(selector string) string {
	w.t.Helper()
	const look = `(e => e && e.checkVisibility({visibilityProperty: true}) ? {text: e.innerText} : null)(document.querySelector(%q))`
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		found, err := chromedp.Run(w.ctx, chromedp.Evaluate[*struct{ Text string }](fmt.Sprintf(look, selector)))
		switch {
		case err == nil && found != nil: // while the browser is between two pages there is an error
			return found.Text
		case time.Now().After(end):
			w.t.Fatalf("wait for %s: %v\n%s", selector, err, w.story())
		}
	}
}

// look checks the page that is shown, which must be made from a template.
func (w *walk) look(template, view string) {
	w.t.Helper()
	heading := w.await("h1")
	if want, known := pageHeadings[template]; !known || want != "" && heading != want {
		w.t.Fatalf("%s has the heading %q, want the page %s", view, heading, template)
	}
	w.walked[template] = true
	w.checkAccessible(w.source, view)
	for _, fault := range w.round() {
		w.t.Errorf("%s by keyboard: %s", view, fault)
	}
}

// at opens a page below the issuer and checks it.
func (w *walk) at(path, template, view string) {
	w.t.Helper()
	w.open(w.issuer + path)
	w.look(template, view)
}

// leave uses what leads to another page, and waits until that is there.
func (w *walk) leave(selector string) {
	w.t.Helper()
	w.leaveBy(func() { w.use(selector) })
}

// enter writes into an input, presses Enter, and waits until another page is there.
func (w *walk) enter(selector, text string) {
	w.t.Helper()
	w.write(selector, text)
	w.leaveBy(func() { w.keys(kb.Enter) })
}

// leaveBy waits until what is done has led to another page.
func (w *walk) leaveBy(do func()) {
	w.t.Helper()
	w.holds(`window.left = true`)
	do()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		there, err := chromedp.Run(w.ctx, chromedp.Evaluate[bool](`window.left !== true && document.readyState === "complete"`))
		switch {
		case err == nil && there: // while the browser is between two pages there is an error
			return
		case time.Now().After(end):
			here := ask(w.chromium, "read the page", chromedp.Evaluate[string](`location.href + " with the focus on " + document.activeElement.outerHTML.slice(0, 200)`))
			w.t.Fatalf("%s leads to no other page: %v\n%s", here, err, w.story())
		}
	}
}

// signIn fills in the form of the sign-in page, and waits for what comes next.
func (w *walk) signIn(password, next string) {
	w.t.Helper()
	w.write(`input[name="username"]`, personName)
	w.enter(`input[name="password"]`, password)
	w.await(next)
}

// decideHere allows or denies on the page that is shown, when its buttons can be used.
func (w *walk) decideHere(value string) {
	w.t.Helper()
	w.use(`button[name="decision"][value="` + value + `"]`)
}

// TestEveryPageIsWalked: a person with an account and one with a provider meet every page in a
// real server, on a phone and a desktop, in light and in dark. They have no mouse: on each page
// the Tab key reaches everything that can be used, in the order of the document, the focus can be
// seen, and it leaves the page behind the end. No page breaks a rule of axe-core or is wider than
// the screen, and the browser has nothing to say. A page that nobody meets here fails the test.
func TestEveryPageIsWalked(t *testing.T) {
	t.Parallel()
	w := &walk{chromium: openChromium(t), site: startSite(t), source: axe(t), walked: map[string]bool{}}
	w.authenticator()
	redirect, arrival := destination(t, "loopback", w.chromium)
	notes := register(t, w.issuer, redirect, "Example Client")
	tasks := register(t, w.issuer, redirect, "Example Tasks")

	w.atProvider(notes, arrival)
	w.requests(notes, tasks, arrival)
	w.account()
	w.passkeysAndPassword()
	w.secondFactor()
	w.others(notes)

	want := templateNames(t)
	if got := slices.Sorted(maps.Keys(w.walked)); !slices.Equal(got, want) {
		t.Errorf("these pages were walked: %q\nthere are:             %q", got, want)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, complaint := range w.complaints {
		t.Errorf("the browser complains: %s", complaint)
	}
}

// choose chooses a language, unless the page is in it already.
func (w *walk) choose(tag string) {
	w.t.Helper()
	if !w.has(`html[lang="` + tag + `"]`) {
		w.leave(`.languages a[lang="` + tag + `"]`)
	}
}

// templateNames returns the names of the files that are a page.
func templateNames(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../../templates/pages/*.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.Contains(read(t, file), `{{define "page"}}`) {
			names = append(names, strings.TrimSuffix(filepath.Base(file), ".html"))
		}
	}
	return names
}

// severally asks for two resources at once.
func (c client) severally() string {
	return strings.ReplaceAll(c.authorizeURL("state"), "notes%3Awrite", "notes%3Awrite+calendar%3Aread") + "&resource=" + url.QueryEscape("https://calendar.example.com/mcp")
}

// atProvider signs in with the provider, and ends with the pages of nobody.
func (w *walk) atProvider(notes client, arrival func() url.Values) {
	w.t.Helper()
	w.at("/", "home", "home")
	w.at("/account", "login", "sign-in-account")
	w.open(notes.severally())
	w.look("login", "sign-in")
	w.leave(`button[name="provider"]`)
	w.look("provider", "provider")
	w.leave(allowButton)
	w.look("consent", "consent-provider")
	w.decideHere("deny")
	if got := arrival().Get("error"); got != "access_denied" {
		w.t.Errorf("the client received %q", got)
	}
	w.at("/account/providers", "connected", "connected-only")
	w.at("/account/passkeys", "error", "error-elsewhere")
	w.forgetSession()
}

// requests walks what a person with a password meets because of applications.
func (w *walk) requests(notes, tasks client, arrival func() url.Values) {
	w.t.Helper()
	w.open(notes.severally())
	w.await(`input[name="username"]`)
	w.signIn("not the password", `p#problem`)
	w.look("login", "sign-in-wrong")
	w.signIn(personPassword, allowButton)
	w.look("consent", "consent-several")
	w.pick(`input[name="remember"]`, `#remember-always`)
	w.decideHere("allow")
	if arrival().Get("code") == "" {
		w.t.Error("no code")
	}
	w.at("/account/applications", "applications", "applications-one")
	w.open(tasks.authorizeURL("state"))
	w.await(allowButton)
	w.look("consent", "consent")
	w.tick(`input[name="scope"][value="notes:write"]`)
	w.decideHere("allow")
	if got := tasks.redeem(w.t.(*testing.T), arrival().Get("code")); got != "notes:read" {
		w.t.Errorf("the token has the scopes %q, want notes:read alone", got)
	}

	w.open(strings.ReplaceAll(strings.ReplaceAll(notes.authorizeURL("state"), url.QueryEscape(devResource), url.QueryEscape("https://vault.example.com/mcp")),
		"notes%3Aread+notes%3Awrite", "vault%3Aread"))
	w.look("closed", "closed")
	web := register(w.t.(*testing.T), w.issuer, "https://app.example.org/cb", "Example Web Client")
	w.open(strings.ReplaceAll(web.authorizeURL("state"), "notes%3Awrite", "notes%3Afly"))
	w.await("main a")
	w.look("error", "error-with-link")
	w.at("/authorize?response_type=code&client_id=unknown", "error", "error")
	w.at("/login?transaction=gone", "error", "error-gone")
}

// account walks what a person sees and ends.
func (w *walk) account() {
	w.t.Helper()
	t := w.t.(*testing.T)
	elsewhere := register(t, w.issuer, "http://127.0.0.1/callback", "Example Elsewhere")
	allow(t, newBrowser(t), elsewhere.authorizeURL("state"))

	w.at("/", "home", "home-signed-in")
	w.at("/account", "account", "account")
	w.at("/account/activity", "activity", "activity")
	w.at("/account/applications", "applications", "applications-many")
	w.leave(`button[name="end-application"]`)
	w.look("done", "done-ended")
	w.at("/account/applications/end-all", "done", "done-asked")
	w.at("/account/remembered", "remembered", "remembered")
	w.leave(`button[name="forget"]`)
	w.look("done", "done-forgotten")
	w.at("/account/remembered", "remembered", "remembered-none")
	w.at("/account/sessions", "sessions", "sessions-many")
	w.leave(`button[name="end-others"]`)
	w.look("done", "done-others")
	w.at("/account/sessions", "sessions", "sessions-one")
	w.provider.SignIn(upstreamtest.Person{Subject: "2", Claims: map[string]any{"email": "reader@example.com", "email_verified": true}})
	w.at("/account/providers", "connected", "connected-none")
	w.leave(`button[name="connect"]`)
	w.await("#connected")
	w.look("connected", "connected")
	w.open(w.issuer + "/account")
	if !strings.Contains(w.await(`section[aria-labelledby="ways"]`), "Example Company") {
		w.t.Error("the page of the account does not name the provider as its button does")
	}
}

// passkeysAndPassword changes how the person signs in.
func (w *walk) passkeysAndPassword() {
	w.t.Helper()
	w.at("/account/passkeys", "passkeys", "passkeys-none")
	w.leave(passkeyButton)
	w.await("#key-0")
	w.write("#name-0", "Example laptop")
	w.leave(`button[value="rename"]`)
	ask(w.chromium, "wait for the name", chromedp.Poll[bool](`document.querySelector("#key-0")?.textContent === "Example laptop"`))
	w.look("passkeys", "passkeys-one")
	w.leave(`button[value="remove"]`)
	w.await("main:not(:has(#key-0)) #add")
	w.authenticator() // the first would offer what was removed at the next sign-in, by itself
	w.at("/account/password", "password", "password")
	w.write(`input[name="current"]`, "not the password")
	w.enter(`input[name="new"]`, "another long password")
	w.await("p#problem")
	w.look("password", "password-wrong")
	w.write(`input[name="current"]`, personPassword)
	w.enter(`input[name="new"]`, walkPassword)
	w.await("#next")
	w.look("error", "notice-password")
}

// walkPassword is the password that the person chooses.
const walkPassword = "another long password"

// secondFactor sets up a second factor, signs in with it, and removes it.
func (w *walk) secondFactor() {
	w.t.Helper()
	w.at("/account/second-factor", "second-factor", "factor-new")
	w.enter(`input[name="code"]`, "000000")
	w.await("p#problem")
	w.look("second-factor", "factor-wrong")
	secret := w.await(".note code")
	w.enter(`input[name="code"]`, oneTimeCode(w.t, secret, 0))
	w.await(".codes")
	w.look("recovery", "recovery")
	w.at("/account/second-factor", "second-factor", "factor-set")
	w.open(w.issuer + "/account")
	w.leave(`button[name="sign-out"]`)
	w.await("#next")
	w.look("error", "notice-signed-out")
	w.open(w.issuer + "/account/second-factor")
	w.await(`input[name="username"]`)
	w.signIn(walkPassword, `input[name="code"]`)
	w.look("code", "code")
	w.enter(`input[name="code"]`, "000000")
	w.await("p#problem")
	w.look("code", "code-wrong")
	w.enter(`input[name="code"]`, oneTimeCode(w.t, secret, 1))
	w.leave(`button[value="remove"]`)
	if !w.has("svg.qr") {
		w.t.Error("after its removal, no second factor can be set up")
	}
}

// others walks the pages of a one-time link, of the registry and, for pictures only, those in
// other languages.
func (w *walk) others(notes client) {
	w.t.Helper()
	w.at("/catalogue/", "registry-list", "registry")
	w.leave("main ul a")
	w.look("registry-server", "registry-server")
	for _, tag := range []string{"de", "ja"} {
		for path, name := range map[string]string{"/account": "account", "/account/applications": "applications", "/account/second-factor": "factor"} {
			w.open(w.issuer + path)
			w.choose(tag)
			w.await(`html[lang="` + tag + `"] h1`)
			w.do("show it on a phone", chromedp.EmulateViewport(360, 740))
			w.checkWidth(name + "-" + tag)
			w.picture(name + "-" + tag)
		}
	}
	w.choose("en")
	w.forgetSession()
	link := w.run(w.t, "user", "invite", "reader")
	w.open(link)
	w.look("invite", "invite")
	w.leave(`button[value="add"]`)
	w.look("account", "account-new")
	w.open(link)
	w.look("error", "error-link")
}
