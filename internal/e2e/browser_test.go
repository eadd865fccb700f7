//go:build e2e

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const (
	cursorRedirect = "cursor://anysphere.cursor-mcp/oauth/callback"
	// verifier is the PKCE code verifier of every request here.
	verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
)

// TestBrowser walks a person through sign-in and consent in Chromium, for each kind of
// redirect URI that a client may have. No click is needed between consent and client.
func TestBrowser(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"loopback", "https", "private-use"} {
		t.Run(kind, func(t *testing.T) {
			server := startAuthz(t, nil)
			chrome := openChromium(t)
			redirect, arrival := destination(t, kind, chrome)
			client := register(t, server.URL, redirect, "Example Client")

			signInWrongThenRight(t, chrome, client.authorizeURL("state-1"))
			allowWithoutWriting(t, chrome, client, arrival)
			denySecondTime(t, chrome, client, arrival)
			chrome.checkCalm(server.URL, 4)
		})
	}
}

func signInWrongThenRight(t *testing.T, chrome *chromium, authorizeURL string) {
	t.Helper()
	chrome.open(authorizeURL)
	chrome.await(`input[name="username"]`)
	if chrome.has(`[role="alert"]`) {
		t.Error("the first sign-in page already shows a problem")
	}
	chrome.picture("login")
	chrome.typeInto(`input[name="username"]`, personName)
	chrome.typeInto(`input[name="password"]`, "not the password"+kb.Enter)
	if got := chrome.await(`[role="alert"]`); strings.TrimSpace(got) == "" {
		t.Error("a wrong password is answered with an empty problem")
	}
	if got := chrome.value(`input[name="username"]`); got != personName {
		t.Errorf("the user name is now %q, want it kept", got)
	}
	if got := chrome.value(`input[name="password"]`); got != "" {
		t.Error("the wrong password came back in the page")
	}
	chrome.picture("login-wrong")
	chrome.typeInto(`input[name="password"]`, personPassword)
	chrome.click(`form button[type="submit"]`)
	chrome.await(`button[name="decision"][value="allow"]`)
}

func allowWithoutWriting(t *testing.T, chrome *chromium, client client, arrival func() url.Values) {
	t.Helper()
	text := chrome.await("body")
	for _, want := range []string{"Example Client", client.redirectHost(t), devResource, personName, "notes:read", "notes:write"} {
		if !strings.Contains(text, want) {
			t.Errorf("the consent page does not say %q:\n%s", want, text)
		}
	}
	chrome.picture("consent")
	chrome.click(`input[name="scope"][value="notes:write"]`)
	chrome.click(`button[name="decision"][value="allow"]`)
	answer := arrival()
	check(t, answer, "iss", client.issuer)
	check(t, answer, "state", "state-1")
	if answer.Has("error") || answer.Get("code") == "" {
		t.Fatalf("the client received %v, want a code", answer)
	}
	if got := client.redeem(t, answer.Get("code")); got != "notes:read" {
		t.Errorf("the token has the scopes %q, want notes:read alone", got)
	}
}

// denySecondTime asks again in the same browser: the sign-in is skipped, the consent is
// not.
func denySecondTime(t *testing.T, chrome *chromium, client client, arrival func() url.Values) {
	t.Helper()
	chrome.clear()
	chrome.open(client.authorizeURL("state-2"))
	chrome.await(`button[name="decision"][value="deny"]`)
	if chrome.has(`input[name="password"]`) {
		t.Error("a live session is asked to sign in again")
	}
	chrome.click(`button[name="decision"][value="deny"]`)
	answer := arrival()
	check(t, answer, "iss", client.issuer)
	check(t, answer, "state", "state-2")
	check(t, answer, "error", "access_denied")
	if answer.Has("code") {
		t.Error("a denied client received a code")
	}
}

func check(t *testing.T, answer url.Values, name, want string) {
	t.Helper()
	if got := answer[name]; len(got) != 1 || got[0] != want {
		t.Errorf("the client received %s %q, want %q once", name, got, want)
	}
}

// TestBrowserPages checks each page on a narrow screen, with a client whose name contains markup.
func TestBrowserPages(t *testing.T) {
	t.Parallel()
	server := startAuthz(t, nil)
	chrome := openChromium(t)
	nasty := "\u202eevil \u2066<script>alert(1)</script><img src=x onerror=alert(1)> " + strings.Repeat("W", 120)
	client := register(t, server.URL, "http://127.0.0.1/callback", nasty)
	chrome.do("narrow the screen", chromedp.EmulateViewport(320, 640))

	chrome.open(client.authorizeURL("state"))
	chrome.await(`input[name="username"]`)
	chrome.checkLayout("login")
	chrome.typeInto(`input[name="username"]`, personName)
	chrome.typeInto(`input[name="password"]`, personPassword+kb.Enter)
	chrome.await(`button[name="decision"][value="allow"]`)
	chrome.checkLayout("consent")
	_, err := chromedp.Call(chrome.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	chrome.checkLayout("consent-dark")

	web := register(t, server.URL, "https://app.example.org/cb", nasty)
	chrome.open(strings.ReplaceAll(web.authorizeURL("state"), "notes%3Awrite", "notes%3Afly"))
	if got, err := url.Parse(chrome.attribute("main a", "href")); err != nil || got.Host != "app.example.org" || got.Query().Get("error") != "invalid_scope" {
		t.Errorf("the error page links to %v (%v), want the application with invalid_scope", got, err)
	}
	chrome.checkLayout("error-link")

	chrome.open(server.URL + "/authorize?response_type=code&client_id=unknown&redirect_uri=https%3A%2F%2Fexample.org%2Fcb")
	chrome.await("h1")
	chrome.checkLayout("error")
	if chrome.has(`a[href]`) || chrome.has("form") {
		t.Error("the error page of an unknown client leads somewhere")
	}
	chrome.checkCalm(server.URL, 1)
}

// checkLayout fails when a page is wider than the screen, has no style, or contains elements that
// are not in its template.
func (c *chromium) checkLayout(name string) {
	c.t.Helper()
	c.picture(name)
	if !c.holds(`document.documentElement.scrollWidth <= document.documentElement.clientWidth`) {
		c.t.Errorf("%s is wider than the screen", name)
	}
	if !c.holds(`getComputedStyle(document.querySelector("main")).borderTopStyle === "solid"`) {
		c.t.Errorf("%s is shown without its style", name)
	}
	if c.has("script, img, iframe, [style]") {
		c.t.Errorf("%s has an element that does not belong there", name)
	}
}

// TestBrowserSeesViolations shows that the other tests would fail: a page whose policy names
// form-action cannot send the person on to the client.
func TestBrowserSeesViolations(t *testing.T) {
	t.Parallel()
	chrome := openChromium(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; form-action 'self'")
		if r.Method == http.MethodPost {
			w.Header().Set("Location", cursorRedirect+"?code=x")
			w.WriteHeader(http.StatusSeeOther)
			return
		}
		_, _ = io.WriteString(w, `<!doctype html><form method="post" action="/go"><button>Go</button></form>`)
	}))
	t.Cleanup(server.Close)
	chrome.open(server.URL)
	chrome.click("button")
	chrome.until("the browser complains", func() bool { return len(chrome.complaints) > 0 })
}

func (c *chromium) value(selector string) string {
	c.t.Helper()
	return ask(c, "read "+selector, chromedp.Value(chromedp.CSS(selector)))
}

func (c *chromium) attribute(selector, name string) string {
	c.t.Helper()
	return ask(c, "read "+selector, chromedp.AttributeValue(chromedp.CSS(selector), name)).Value
}

// destination returns a redirect URI of a kind, and a function that waits for the
// parameters with which the person arrives there.
func destination(t *testing.T, kind string, chrome *chromium) (string, func() url.Values) {
	t.Helper()
	if kind == "private-use" {
		return cursorRedirect, func() url.Values {
			t.Helper()
			u, err := url.Parse(chrome.awaitRequest(cursorRedirect + "?"))
			if err != nil {
				t.Fatal(err)
			}
			return u.Query()
		}
	}
	arrived := make(chan url.Values, 4)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cb" {
			arrived <- r.URL.Query()
		}
		_, _ = io.WriteString(w, "You may close this page.")
	}))
	if kind == "https" {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server.URL + "/cb", func() url.Values {
		t.Helper()
		select {
		case values := <-arrived:
			return values
		case <-time.After(patience):
			t.Fatal("the person never arrived at the client")
			return nil
		}
	}
}

// client is a registered public client.
type client struct{ issuer, id, redirect string }

func register(t *testing.T, issuer, redirect, name string) client {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"client_name": name, "redirect_uris": []string{redirect}, "token_endpoint_auth_method": "none",
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"application_type": map[bool]string{true: "web", false: "native"}[strings.HasPrefix(redirect, "https:")],
	})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(issuer+"/register", "application/json", bytes.NewReader(body))
	var registered struct {
		ClientID string `json:"client_id"`
	}
	decodeInto(t, resp, err, http.StatusCreated, &registered)
	return client{issuer: issuer, id: registered.ClientID, redirect: redirect}
}

func (c client) authorizeURL(state string) string {
	sum := sha256.Sum256([]byte(verifier))
	return c.issuer + "/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {c.id}, "redirect_uri": {c.redirect}, "state": {state},
		"resource": {devResource}, "scope": {"notes:read notes:write"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode()
}

func (c client) redirectHost(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(c.redirect)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// redeem exchanges a code and returns the scopes of the access token.
func (c client) redeem(t *testing.T, code string) string {
	t.Helper()
	resp, err := http.PostForm(c.issuer+"/token", url.Values{
		"grant_type": {"authorization_code"}, "client_id": {c.id}, "code": {code},
		"redirect_uri": {c.redirect}, "code_verifier": {verifier}, "resource": {devResource},
	})
	var token struct {
		AccessToken string `json:"access_token"`
		Scope       string `json:"scope"`
	}
	decodeInto(t, resp, err, http.StatusOK, &token)
	if token.AccessToken == "" {
		t.Error("no access token")
	}
	return token.Scope
}

func decodeInto(t *testing.T, resp *http.Response, err error, status int, v any) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != status {
		t.Fatalf("%s: %s, want %d: %s", resp.Request.URL, resp.Status, status, body)
	}
	if err := json.Unmarshal(body, v); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", resp.Request.URL, err))
	}
}
