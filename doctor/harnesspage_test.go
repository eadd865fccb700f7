package doctor_test

import (
	"net/http"
	"net/url"
	"slices"
	"testing"

	"gatehouse.example/doctor"
)

// protect sets the headers of a page for people.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Strict-Transport-Security", "max-age=31536000")
	h.Set("Cache-Control", "no-store")
}

// paging returns a change of the headers of the page of the sign-in.
func paging(change func(http.Header)) func(*stable) {
	return authorizing(correct, always(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		change(w.Header())
		answer(200, "text/html; charset=utf-8", html)(w, r)
	}))
}

// correct reports whether an authorization request is one that a server accepts.
func correct(v url.Values) bool {
	return matches(v.Get("redirect_uri")) && challengeOf256(v.Get("code_challenge")) && v.Get("code_challenge_method") == "S256" && v.Get("response_type") == "code"
}

func lacking(name string) func(*stable) { return paging(func(h http.Header) { h.Del(name) }) }

func having(name, value string) func(*stable) {
	return paging(func(h http.Header) { h.Set(name, value) })
}

var pageAnimals = []animal{
	{"a page for frames", "page-framing", lacking("Content-Security-Policy"), ""},
	{"frames of everybody", "page-framing", having("Content-Security-Policy", "frame-ancestors *"), ""},
	{"a page for caches", "page-cacheable", having("Cache-Control", "private, max-age=60"), ""},
	{"no promise of https", "page-hsts", lacking("Strict-Transport-Security"), ""},
	{"https is taken back", "page-hsts", having("Strict-Transport-Security", "max-age=0"), ""},
	{"a page of any type", "page-sniffed", lacking("X-Content-Type-Options"), ""},
	{"an address for everybody", "page-referrer", having("Referrer-Policy", "unsafe-url"), ""},
	{"an address for old browsers", "page-referrer", lacking("Referrer-Policy"), ""},
	{"a bare error page", "error-page-headers", func(s *stable) {
		s.with("GET "+issuer+"/authorize", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("client_id") == "doctor-unknown-client" {
				answer(400, "text/html", html)(w, r)
				return
			}
			s.authorize(w, r)
		})
	}, ""},
	{"a cookie over http", "cookie-secure", having("Set-Cookie", "session=one; Path=/; HttpOnly; SameSite=Lax"), ""},
	{"a cookie for scripts", "cookie-script", having("Set-Cookie", "session=one; Path=/; Secure; SameSite=Lax"), ""},
	{"a cookie for all sites", "cookie-site", having("Set-Cookie", "session=one; Path=/; Secure; HttpOnly; SameSite=None"), ""},
	{"a bare page behind a redirect", "page-framing", func(s *stable) {
		authorizing(correct, always(answer(303, "", "", "Location", "/login", "Set-Cookie", "visit=two; Secure; HttpOnly; SameSite=Lax")))(s)
		s.with("GET "+issuer+"/login", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Cookie") == "visit=two" {
				protect(w.Header())
				w.Header().Del("Content-Security-Policy")
			}
			answer(200, "text/html", html)(w, r)
		})
	}, ""},
}

// TestPageHeaders: what protects a page in another way is no fault.
func TestPageHeaders(t *testing.T) {
	for name, change := range map[string]func(*stable){
		"X-Frame-Options alone": paging(func(h http.Header) { h.Del("Content-Security-Policy"); h.Set("X-Frame-Options", "sameorigin") }),
		"several policies":      having("Content-Security-Policy", "default-src 'self', frame-ancestors 'self'"),
		"a fallback first":      having("Referrer-Policy", "unsafe-url, strict-origin-when-cross-origin"),
		"a cookie is removed":   having("Set-Cookie", "session=; Max-Age=0"),
		"a cookie for a script": having("Set-Cookie", "XSRF-TOKEN=one; Secure; SameSite=Strict"),
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy(notes, issuer)
			change(s)
			report := alone(t, s, func(*doctor.Options) {})
			notes := slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return f.ID != "left-out" })
			if len(above(report)) > 0 || notes {
				t.Errorf("found %+v", report.Findings)
			}
		})
	}
}

var originAnimals = []animal{
	{"keys for no page", "cors-keys", header("GET "+issuer+"/jwks.json", "Access-Control-Allow-Origin", ""), ""},
	{"a preflight for no sign-out", "cors-revoke", route("OPTIONS "+issuer+"/revoke", answer(405, "", "")), ""},
	{"no sign-out for pages", "cors-revoke", header("POST "+issuer+"/revoke", "Access-Control-Allow-Origin", ""), ""},
	{"a registration for no page", "cors-register-answer", header("POST "+issuer+"/register", "Access-Control-Allow-Origin", ""), ""},
	{"the authorization endpoint for pages", "cors-authorize", header("GET "+issuer+"/authorize", "Access-Control-Allow-Origin", "*"), ""},
	{"a preflight for the authorization endpoint", "cors-authorize", route("OPTIONS "+issuer+"/authorize", permit("GET", "Content-Type")), ""},
}
