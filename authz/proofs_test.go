package authz_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"gatehouse.example/internal/webtest"
)

// TestEveryBitOfTheCodeCounts: the grant id in a code is not secret; with that half alone a
// request is refused and does not use up the code.
func TestEveryBitOfTheCodeCounts(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	const prefix = "gate_ac_"
	code := h.newBrowser().code(asks(c))
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(code, prefix))
	if err != nil || len(raw) != 16+32 {
		t.Fatalf("the code %q has %d bytes, %v", code, len(raw), err)
	}
	for _, at := range []int{16, 17, 31, 32, 46, 47} {
		other := append([]byte(nil), raw...)
		other[at] ^= 1
		got := h.toToken(c, redemption(c, prefix+base64.RawURLEncoding.EncodeToString(other)))
		if got.status != http.StatusBadRequest || got.member(t, "error") != "invalid_grant" {
			t.Errorf("with another bit in byte %d: %s", at, got)
		}
	}
	if got := h.toToken(c, redemption(c, code)); got.status != http.StatusOK {
		t.Errorf("the code itself: %s", got)
	}
}

// TestPromptLoginHoldsAtTheDecision: a decision with a session from before prompt=login
// does not count, even if it is sent without opening the page.
func TestPromptLoginHoldsAtTheDecision(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser().atConsent(personName)
	h.clock.advance(time.Second)
	answer := b.open(h.issuer + "/authorize?" + replaced(asks(c), "prompt", "login").Encode())
	transaction := answer.location(t).Query().Get("transaction")
	home, _ := url.Parse(h.issuer)
	cookies := map[string]string{}
	for _, cookie := range b.jar.Cookies(home) {
		cookies[cookie.Name] = cookie.Value
	}
	mac := hmac.New(sha256.New, []byte(cookies[hostBrowser]))
	for _, part := range []string{"consent", transaction, cookies[hostSession]} {
		fmt.Fprintf(mac, "%s\x00", part)
	}
	token := base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	decision := form("transaction", transaction, "csrf", token, "decision", "allow", "scope", "notes:read")
	got := h.with(b.jar, postForm(h, "/consent", decision))
	if got.status != http.StatusSeeOther || !strings.HasPrefix(got.header.Get("Location"), "/login?") && !strings.HasPrefix(got.header.Get("Location"), h.issuer+"/login?") {
		t.Errorf("a decision of the old session: %s %v", got, got.header)
	}
	b.open(got.location(t).String())
	b.submit("username", personName, "password", personPassword)
	b.follow()
	if b.submit("decision", "allow").location(t).Query().Get("code") == "" {
		t.Errorf("after signing in again: %s", b.last)
	}
}

// TestDocumentsNameTheirAddressToTheLetter: a document whose client_id is another spelling
// of its URL is refused.
func TestDocumentsNameTheirAddressToTheLetter(t *testing.T) {
	t.Parallel()
	h, web := withDocuments(t, nil)
	for i, other := range []func(string) string{
		func(id string) string { return strings.Replace(id, "/Client", "/client", 1) },
		func(id string) string { return id + "/" },
		func(id string) string { return strings.Replace(id, clientHost, strings.ToUpper(clientHost), 1) },
		func(id string) string { return strings.Replace(id, "/Client", "/%43lient", 1) },
		func(id string) string { return strings.Replace(id, "https", "HTTPS", 1) },
		func(id string) string { return id + "?" },
	} {
		if got := asksWithDocument(h, web, i, other); got.status != http.StatusBadRequest || !strings.Contains(got.body, "cannot be identified") {
			t.Errorf("spelling %d: %s", i, got)
		}
	}
	if got := asksWithDocument(h, web, 100, func(id string) string { return id }); got.status != http.StatusSeeOther {
		t.Errorf("its own: %s", got)
	}
}

// asksWithDocument sends the authorization request of a client whose document names a
// spelling of its URL.
func asksWithDocument(h *harness, web *webtest.Web, i int, spelling func(string) string) reply {
	h.t.Helper()
	id := web.URL(clientHost, fmt.Sprint("/Client", i, ".json"))
	web.Document(id, fmt.Sprintf(`{"client_id":%q,"client_name":"Notes","redirect_uris":["http://127.0.0.1/callback"]}`, spelling(id)))
	return h.newBrowser().open("/authorize?" + asks(described(id, "http://127.0.0.1:49152/callback")).Encode())
}
