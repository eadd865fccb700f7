package authz_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"gatehouse.example/authz"
)

// pageVisitor calls the handler as a signed-in browser does, without a connection and with little
// work of its own.
type pageVisitor struct {
	h       *harness
	cookies string
}

func (v pageVisitor) send(b *testing.B, r *http.Request, status int) *httptest.ResponseRecorder {
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Accept-Language", "en")
	w := httptest.NewRecorder()
	v.h.handler.Load().ServeHTTP(w, r)
	if w.Code != status {
		b.Fatalf("%s: status %d: %s", r.URL.Path, w.Code, w.Body)
	}
	return w
}

// between returns the text after one and before another.
func between(text, after, before string) string {
	_, rest, _ := strings.Cut(text, after)
	found, _, _ := strings.Cut(rest, before)
	return found
}

// BenchmarkPages is the code flow of a signed-in person: /authorize, the consent page, the decision,
// the exchange.
func BenchmarkPages(b *testing.B) {
	h, c := newHarness(b, setup{config: func(c *authz.Config) { c.Logger = slog.New(slog.DiscardHandler) }}), testClients()["web"]
	browser := h.newBrowser()
	browser.code(asks(c))
	home, _ := url.Parse(h.issuer)
	v := pageVisitor{h: h}
	for _, cookie := range browser.jar.Cookies(home) {
		if !strings.Contains(cookie.Name, "transaction") {
			v.cookies += cookie.Name + "=" + cookie.Value + "; "
		}
	}
	ask := h.issuer + "/authorize?" + asks(c).Encode()
	before := h.roundTrips.Load()
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodGet, ask, nil)
		r.Header.Set("Cookie", v.cookies)
		w := v.send(b, r, http.StatusSeeOther)
		kept := ""
		for _, line := range w.Header()["Set-Cookie"] {
			if strings.Contains(line, "transaction") {
				kept, _, _ = strings.Cut(line, ";")
			}
		}
		page := w.Header().Get("Location")
		r = httptest.NewRequest(http.MethodGet, page, nil)
		r.Header.Set("Cookie", v.cookies+kept)
		body := v.send(b, r, http.StatusOK).Body.String()
		r = postRequest(h.issuer+"/consent", url.Values{
			"transaction": {between(page, "transaction=", "&")}, "csrf": {between(body, `name="csrf" value="`, `"`)},
			"decision": {"allow"}, "scope": {"notes:read", "notes:write"},
		})
		r.Header.Set("Cookie", v.cookies+kept)
		to, err := url.Parse(v.send(b, r, http.StatusSeeOther).Header().Get("Location"))
		if err != nil {
			b.Fatal(err)
		}
		h.serve(postRequest(h.issuer+"/token", redemption(c, to.Query().Get("code"))))
	}
	h.reportRoundTrips(b, before)
}
