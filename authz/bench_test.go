package authz_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// newBenchHarness returns a harness without a log. Benchmarks call the handler directly, so
// they measure neither sockets nor TLS; the embedded store is part of the time.
func newBenchHarness(b *testing.B) *harness {
	b.Helper()
	return newHarness(b, setup{config: func(c *authz.Config) { c.Logger = slog.New(slog.DiscardHandler) }})
}

// serve calls the handler and requires a success.
func (h *harness) serve(r *http.Request) *httptest.ResponseRecorder {
	h.t.Helper()
	w := httptest.NewRecorder()
	h.handler.Load().ServeHTTP(w, r)
	if w.Code >= 300 {
		h.t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w
}

func postRequest(target string, values url.Values) *http.Request {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// newCode stores a grant as consent does, and returns its code.
func (h *harness) newCode(c testClient) string {
	h.t.Helper()
	grant, code, err := h.store.PrepareGrant(storage.NewGrant{
		ClientID: c.ID, Subject: "subject", Resources: []string{notes}, Scopes: []string{"notes:read", "notes:write"}, AuthTime: h.clock.Now(),
		RedirectURI: c.redirect, Challenge: challenge, Refreshable: true, CodeTTL: time.Minute,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.store.CreateGrant(h.t.Context(), grant); err != nil {
		h.t.Fatal(err)
	}
	return code
}

// reportRoundTrips reports the round trips to the store per operation.
func (h *harness) reportRoundTrips(b *testing.B, before int64) {
	b.ReportMetric(float64(h.roundTrips.Load()-before)/float64(b.N), "roundtrips/op")
}

func BenchmarkCodeExchange(b *testing.B) {
	h, c := newBenchHarness(b), testClients()["native"]
	h.serve(postRequest(h.issuer+"/token", redemption(c, h.newCode(c)))) // the client is cached now
	b.ReportAllocs()
	var exchanged int64
	for b.Loop() {
		b.StopTimer()
		r := postRequest(h.issuer+"/token", redemption(c, h.newCode(c)))
		before := h.roundTrips.Load()
		b.StartTimer()
		h.serve(r)
		exchanged += h.roundTrips.Load() - before
	}
	b.ReportMetric(float64(exchanged)/float64(b.N), "roundtrips/op")
}

func BenchmarkRefresh(b *testing.B) {
	h, c := newBenchHarness(b), testClients()["native"]
	answer := h.serve(postRequest(h.issuer+"/token", redemption(c, h.newCode(c))))
	token := reply{body: answer.Body.String()}.member(b, "refresh_token")
	before := h.roundTrips.Load()
	b.ReportAllocs()
	for b.Loop() {
		body := h.serve(postRequest(h.issuer+"/token", refreshing(c, token))).Body.String()
		_, rest, _ := strings.Cut(body, `"refresh_token":"`)
		token, _, _ = strings.Cut(rest, `"`)
	}
	h.reportRoundTrips(b, before)
}

func BenchmarkIntrospection(b *testing.B) {
	h, c := newBenchHarness(b), testClients()["native"]
	answer := h.serve(postRequest(h.issuer+"/token", redemption(c, h.newCode(c))))
	values := form("token", reply{body: answer.Body.String()}.member(b, "access_token"))
	before := h.roundTrips.Load()
	b.ReportAllocs()
	for b.Loop() {
		r := postRequest(h.issuer+"/introspect", values)
		r.SetBasicAuth(url.QueryEscape(notes), notesSecret)
		if w := h.serve(r); !strings.HasPrefix(w.Body.String(), `{"active":true`) {
			b.Fatal(w.Body)
		}
	}
	h.reportRoundTrips(b, before)
}

func BenchmarkMetadata(b *testing.B) {
	h := newBenchHarness(b)
	r := httptest.NewRequest(http.MethodGet, h.issuer+"/.well-known/oauth-authorization-server", nil)
	b.ReportAllocs()
	for b.Loop() {
		h.serve(r)
	}
}

func BenchmarkRegistration(b *testing.B) {
	h := newBenchHarness(b)
	const body = `{"client_name":"A client","redirect_uris":["http://127.0.0.1/callback"],"token_endpoint_auth_method":"` + metadata.AuthMethodNone +
		`","grant_types":["authorization_code","refresh_token"],"response_types":["code"]}`
	before := h.roundTrips.Load()
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, h.issuer+"/register", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		h.serve(r)
	}
	h.reportRoundTrips(b, before)
}

func BenchmarkAuthorize(b *testing.B) {
	h, c := newBenchHarness(b), testClients()["native"]
	target := h.issuer + "/authorize?" + asks(c).Encode()
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		h.handler.Load().ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		if w.Code != http.StatusSeeOther {
			b.Fatalf("status %d", w.Code)
		}
	}
}
