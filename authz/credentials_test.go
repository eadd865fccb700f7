package authz_test

import (
	"context"
	"encoding/base32"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"

	"gatehouse.example/authz/internal/secondfactor"
	"gatehouse.example/storage"
)

// key is an authenticator with one passkey, for a person at secureIssuer.
type key struct {
	virtualwebauthn.Authenticator
	virtualwebauthn.Credential
	at virtualwebauthn.RelyingParty
}

func newPasskey(u storage.User) *key {
	return &key{
		virtualwebauthn.NewAuthenticatorWithOptions(virtualwebauthn.AuthenticatorOptions{UserHandle: []byte(u.Subject)}),
		newCredential(),
		virtualwebauthn.RelyingParty{ID: "auth.example.com", Origin: "https://auth.example.com"},
	}
}

// newCredential returns a key for ES256. The library writes a coordinate that begins with a zero byte
// without that byte, so one key of 128 would not be read: such keys are not used.
func newCredential() virtualwebauthn.Credential {
	for {
		key := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
		if len(key.Key.AttestationData()) == 77 {
			return key
		}
	}
}

var passkeyForm = regexp.MustCompile(`(?s)<form((?:[^<]|<[^/]|</[^f])*?)data-options="([^"]*)"(.*?)formaction="([^"]*)"`)

// prompt returns the form of a page that the script fills in.
func (r reply) prompt(t testing.TB) (action, options string, values url.Values) {
	t.Helper()
	found := passkeyForm.FindStringSubmatch(r.body)
	if found == nil {
		t.Fatalf("no form for a passkey: %s", r)
	}
	values = url.Values{}
	for _, tag := range inputTag.FindAllString(found[1]+found[3], -1) {
		if name, value := nameAttr.FindStringSubmatch(tag), valAttr.FindStringSubmatch(tag); name != nil && value != nil {
			values.Set(name[1], html.UnescapeString(value[1]))
		}
	}
	values.Set("do", "add")
	return html.UnescapeString(found[4]), html.UnescapeString(found[2]), values
}

func (k *key) make(t testing.TB, options string) string {
	t.Helper()
	parsed, err := virtualwebauthn.ParseAttestationOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	return virtualwebauthn.CreateAttestationResponse(k.at, k.Authenticator, k.Credential, *parsed)
}

func (k *key) sign(t testing.TB, options string) string {
	t.Helper()
	parsed, err := virtualwebauthn.ParseAssertionOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	k.Counter++
	return virtualwebauthn.CreateAssertionResponse(k.at, k.Authenticator, k.Credential, *parsed)
}

// post sends a form as a browser does.
func (b *browser) post(action string, values url.Values) reply {
	b.h.t.Helper()
	r := b.h.newRequest(http.MethodPost, action, values)
	r.Header.Set("Origin", origin(b.h.issuer))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.do(r)
}

// answer fills in the form for passkeys of the last page with a form, and sends it.
func (b *browser) answer(k *key, change func(url.Values)) reply {
	b.h.t.Helper()
	action, options, values := b.page.prompt(b.h.t)
	credential := ""
	if strings.Contains(options, `"user"`) {
		credential = k.make(b.h.t, options)
	} else {
		credential = k.sign(b.h.t, options)
	}
	values.Set("credential", credential)
	if change != nil {
		change(values)
	}
	return b.post(action, values)
}

// signIn signs in for a page of the server, by name and password.
func (b *browser) signIn(path, name, password string) reply {
	b.h.t.Helper()
	b.open(b.h.issuer + path)
	if b.last.status == http.StatusSeeOther {
		b.follow()
	}
	return b.submit("username", name, "password", password)
}

// signedInAt signs the person of the tests in and opens a page.
func (h *harness) signedInAt(path string) *browser {
	h.t.Helper()
	b := h.newBrowser()
	b.signIn(path, personName, personPassword)
	if b.follow(); b.last.status != http.StatusOK {
		h.t.Fatalf("%s after signing in: %s", path, b.last)
	}
	return b
}

func (h *harness) person() storage.User {
	h.t.Helper()
	u, err := h.store.User(h.t.Context(), personName)
	if err != nil {
		h.t.Fatal(err)
	}
	return u
}

// withPasskey makes a passkey for the person of the tests, on its page.
func (h *harness) withPasskey() (*browser, *key) {
	h.t.Helper()
	b, k := h.signedInAt("/account/passkeys"), newPasskey(h.person())
	if r := b.answer(k, nil); r.status != http.StatusSeeOther {
		h.t.Fatalf("making a passkey: %s", r)
	}
	b.follow()
	return b, k
}

// atSignIn returns a browser at the sign-in page of an authorization request.
func (h *harness) atSignIn() *browser {
	h.t.Helper()
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + asks(testClients()["native"]).Encode())
	b.follow()
	return b
}

// isIn reports whether the browser is signed in: its pages of the account open.
func (b *browser) isIn() bool {
	b.h.t.Helper()
	r := b.h.with(b.jar, b.h.newRequest(http.MethodGet, b.h.issuer+"/account/password", nil))
	return r.status == http.StatusOK
}

// app is an authenticator app.
type app struct {
	h      *harness
	secret []byte
}

var shownKey = regexp.MustCompile(`<code>([A-Z2-7 ]{39})</code>`)

// secretOn returns the secret of the key for an app that a page shows.
func secretOn(t testing.TB, page reply) []byte {
	t.Helper()
	found := shownKey.FindStringSubmatch(page.body)
	if found == nil {
		t.Fatalf("no key for an app: %s", page)
	}
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ReplaceAll(found[1], " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// withFactor sets up a second factor for the person of the tests, and returns the recovery codes.
func (h *harness) withFactor() (*browser, app, []string) {
	h.t.Helper()
	b := h.signedInAt("/account/second-factor")
	a := app{h, secretOn(h.t, b.page)}
	r := b.submit("code", a.code())
	var codes []string
	for _, c := range regexp.MustCompile(`<li><code>([0-9a-z-]{19})</code></li>`).FindAllStringSubmatch(r.body, -1) {
		codes = append(codes, c[1])
	}
	if r.status != http.StatusOK || len(codes) != 10 {
		h.t.Fatalf("setting up: %s", r)
	}
	h.clock.advance(time.Minute) // the code that set it up is over
	return b, a, codes
}

// changeUser changes the record of the person of the tests.
func (h *harness) changeUser(change func(*storage.User)) {
	h.t.Helper()
	u := h.person()
	change(&u)
	if err := h.store.UpdateUser(context.Background(), u); err != nil {
		h.t.Fatal(err)
	}
}

func wantRefusal(t *testing.T, what string, r reply, status int, says string) {
	t.Helper()
	if r.status != status || !strings.Contains(r.body, says) {
		t.Errorf("%s: want %d with %q: %s", what, status, says, r)
	}
}

// withoutSession drops the session cookie of a browser, and keeps that of the device.
func (b *browser) withoutSession() *browser {
	b.h.t.Helper()
	here, err := url.Parse(b.h.issuer)
	if err != nil {
		b.h.t.Fatal(err)
	}
	for _, c := range b.jar.Cookies(here) {
		if strings.Contains(c.Name, "session") {
			b.jar.SetCookies(here, []*http.Cookie{{Name: c.Name, Path: "/", Secure: true, MaxAge: -1}})
		}
	}
	return b
}

func names(u storage.User) (all []string) {
	for _, k := range u.Passkeys {
		all = append(all, k.Name)
	}
	return slices.Sorted(slices.Values(all))
}

// code returns what the app shows now.
func (a app) code() string { return secondfactor.Code(a.secret, a.h.clock.Now()) }
