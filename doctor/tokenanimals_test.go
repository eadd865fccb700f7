package doctor_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/doctor"
)

// withToken returns a change of the token that is accepted.
func withToken(claims map[string]any) func(*stable) {
	return func(s *stable) { s.token = jwt(claims) }
}

// served returns a change of the answers to requests with the token.
func served(fits func(r *http.Request, body string) bool, handler http.HandlerFunc) func(*stable) {
	return func(s *stable) {
		guard := func(w http.ResponseWriter, r *http.Request) {
			body := make([]byte, 300)
			n, _ := r.Body.Read(body)
			if r.Header.Get("Authorization") == "Bearer "+s.token && fits(r, string(body[:n])) {
				handler(w, r)
				return
			}
			r.Body = http.NoBody
			if n > 0 {
				r.Body = io.NopCloser(strings.NewReader(string(body[:n])))
			}
			s.guard(w, r)
		}
		s.with("POST "+notes, guard)
	}
}

var tokenAnimals = []animal{
	{"refuses every token", "token-refused", served(func(*http.Request, string) bool { return true }, answer(401, "", "", "WWW-Authenticate", `Bearer error="invalid_token"`,
		"Access-Control-Allow-Origin", "*")), ""},
	{"no answer with a token", "token-no-answer", served(func(*http.Request, string) bool { return true }, answer(406, jsonType, `{}`)), ""},
	{"takes tokens for others", "token-other-audience", withToken(map[string]any{"iss": issuer, "aud": "https://other.example.com", "exp": now.Add(time.Hour).Unix()}), ""},
	{"takes tokens for nobody", "token-other-audience", withToken(map[string]any{"iss": issuer, "exp": now.Add(time.Hour).Unix()}), ""},
	{"takes tokens of yesterday", "token-expired-accepted", withToken(map[string]any{"iss": issuer, "aud": notes, "exp": now.Add(-24 * time.Hour).Unix()}), ""},
	{"tokens for a year", "token-long", withToken(map[string]any{"iss": issuer, "aud": []string{notes}, "exp": now.Add(365 * 24 * time.Hour).Unix()}), ""},
	{"tokens for ever", "token-long", withToken(map[string]any{"iss": issuer, "aud": notes}), ""},
	{"decodes and does not verify", "altered-token-accepted", func(s *stable) {
		payload := strings.Split(s.token, ".")[1]
		s.with("POST "+notes, s.unless(func(token string) bool { return strings.Contains(token, payload) }, 200))
	}, ""},
	{"400 for a lost session", "session-lost", served(func(r *http.Request, _ string) bool {
		return r.Header.Get("Mcp-Session-Id") == "doctor-no-such-session"
	},
		answer(400, jsonType, `{"error":"Bad Request: No valid session ID provided"}`)), ""},
	{"500 for an unknown method", "unknown-method", served(func(_ *http.Request, body string) bool { return strings.Contains(body, "doctor/unknown") },
		answer(500, "text/plain", "panic")), "server-fault"},
	{"sessions alone", "sessions-only", served(func(r *http.Request, _ string) bool { return r.Header.Get("Mcp-Protocol-Version") == "2026-07-28" },
		answer(400, jsonType, `{}`)), ""},
}

// TestTokenStays: the token goes to the protected server only, in the header, and no report shows
// it.
func TestTokenStays(t *testing.T) {
	s := healthy(notes, issuer)
	s.token += strings.Repeat("x", 400)
	s.with("POST "+notes, func(w http.ResponseWriter, r *http.Request) {
		answer(401, "text/plain", r.Header.Get("Authorization"), "WWW-Authenticate", `Bearer error_description="`+r.Header.Get("Authorization")+`"`)(w, r)
	})
	s.open()
	for route, handler := range s.routes {
		s.routes[route] = func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(route, " "+notes) && strings.Contains(r.Header.Get("Authorization"), s.token) || strings.Contains(r.URL.String(), s.token) {
				t.Errorf("%s got the token", route)
			}
			handler(w, r)
		}
	}
	o := options(s)
	report, err := doctor.Check(t.Context(), notes, o)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report.WriteText(&out, false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "token-refused") || strings.Contains(out.String(), s.token[:40]) {
		t.Errorf("the report:\n%s", out.String())
	}
}
