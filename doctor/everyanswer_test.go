package doctor_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/doctor"
)

// TestEveryAnswer: whatever is answered in whatever place, the table and the findings of one report
// say the same.
func TestEveryAnswer(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"200 page": answer(200, "text/html", html), "200 {}": answer(200, jsonType, `{}`), "200 []": answer(200, jsonType, `[]`), "200 half": answer(200, jsonType, `{"resource":`),
		"202 page": answer(202, "text/html", html), "204": answer(204, "", ""), "301 without a place": answer(301, "", ""), "302 away": answer(302, "", "", "Location", "https://login.example.com/"),
		"307 here": answer(307, "", "", "Location", "/other"), "304": answer(304, "", ""), "400": answer(400, jsonType, `{}`), "400 page": answer(400, "text/html", html), "401": answer(401, "", ""),
		"403": answer(403, jsonType, `{}`), "403 page": answer(403, "text/html", html), "404": answer(404, "", ""), "404 page": answer(404, "text/html", html), "405": answer(405, "", ""),
		"429": later("60"), "500": answer(500, "", ""), "502 page": answer(502, "text/html", html), "503": answer(503, "", ""), "503 later": answer(503, "", "", "Retry-After", "60"),
		"too large": answer(200, jsonType, `{"a":"`+strings.Repeat("a", 300<<10)), "null": answer(200, jsonType, `null`), "other types": answer(200, jsonType, `{"resource":1,"issuer":{},"authorization_servers":"a"}`),
	}
	where := map[string][]string{
		"calls": {"POST " + notes}, "all calls": {"POST " + notes, "GET " + notes}, "stream": {"GET " + notes}, "inserted": {"GET " + placed}, "root": {"GET " + places},
		"both": {"GET " + placed, "GET " + places}, "oauth": {"GET " + servers}, "openid": {"GET " + openid}, "all metadata": {"GET " + servers, "GET " + openid},
		"register": {"POST " + issuer + "/register"}, "token": {"POST " + issuer + "/token"}, "authorize": {"GET " + issuer + "/authorize"},
	}
	for place, routes := range where {
		for name, handler := range answers {
			for _, linked := range []bool{true, false} {
				if !linked && !strings.Contains(routes[0], places) {
					continue
				}
				s := healthy(notes, issuer)
				for _, route := range routes {
					s.with(route, handler)
				}
				if !linked {
					s.challenge = "Bearer"
				}
				o := options(s.open())
				o.Register, o.Token = place == "register" || place == "authorize", ""
				report, err := doctor.Check(t.Context(), s.target, o)
				if err != nil {
					t.Fatal(err)
				}
				for id, clients := range stops(report) {
					if got := slices.Sorted(slices.Values(named(report, id))); !slices.Equal(got, slices.Sorted(slices.Values(clients))) {
						t.Errorf("%s at %s (linked: %t): %s names %v, by the table it stops %v; found %v", name, place, linked, id, got, clients, above(report))
					}
				}
			}
		}
	}
}
