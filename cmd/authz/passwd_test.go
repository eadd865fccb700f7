package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// visitor is a browser in front of a running server.
type visitor struct {
	t       *testing.T
	issuer  string
	request string // of a client, that leads to the sign-in page
	client  http.Client
}

func newVisitor(t *testing.T, server *running, clientID string) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	issuer := server.shown("issuer")
	query := url.Values{
		"response_type": {"code"}, "client_id": {clientID}, "redirect_uri": {"http://127.0.0.1:49152/callback"}, "resource": {demoResource},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}
	return &visitor{t: t, issuer: issuer, request: issuer + "/authorize?" + query.Encode(), client: http.Client{Jar: jar}}
}

var hiddenInput = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// page opens the authorization request of a client and returns the page that it leads to.
func (v *visitor) page() string {
	v.t.Helper()
	return v.read(v.client.Get(v.request))
}

// signIn submits a name and a password, and reports whether that led to the consent page.
func (v *visitor) signIn(name, password string) bool {
	v.t.Helper()
	form := url.Values{"username": {name}, "password": {password}}
	for _, input := range hiddenInput.FindAllStringSubmatch(v.page(), -1) {
		form.Set(input[1], input[2])
	}
	return strings.Contains(v.read(v.client.PostForm(v.issuer+"/login", form)), `name="decision"`)
}

func (v *visitor) read(res *http.Response, err error) string {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return string(body)
}

// TestPasswdReachesTheServer: a running server accepts the new password at once and refuses the
// old one, and sessions that began with the old one end. A server that starts with the same
// AUTHZ_DEV_PASSWORD ends no session.
func TestPasswdReachesTheServer(t *testing.T) {
	store := miniredis.RunT(t)
	environ := []string{"AUTHZ_STORE=redis://" + store.Addr(), "AUTHZ_MASTER_KEYS=" + testKey(1), "AUTHZ_DEV_PASSWORD=first password"}
	server := start(t, environ, "--dev", "--listen", "127.0.0.1:0")
	r := openRecordsOf(t, server.shown("issuer"), store, testKey(1))
	r.client("editor", "Editor")
	signed := newVisitor(t, server, "editor")
	if !signed.signIn(demoPerson, "first password") {
		t.Fatal("the first password does not sign in")
	}
	start(t, append(environ, "AUTHZ_ISSUER="+r.issuer), "--dev", "--listen", "127.0.0.1:0")
	if !strings.Contains(signed.page(), `name="decision"`) {
		t.Error("another process with the same password signed the person out")
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("second password\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := r.verb(0, r.environ(), "user", "passwd", "Demo", "--password-file", file); out != "changed the password of Demo\n" {
		t.Errorf("it says %q", out)
	}
	if !strings.Contains(signed.page(), `name="password"`) {
		t.Error("who signed in with the old password still is")
	}
	if signed.signIn(demoPerson, "first password") {
		t.Error("the old password signs in")
	}
	if !signed.signIn(demoPerson, "second password") {
		t.Error("the new password does not sign in")
	}
}
