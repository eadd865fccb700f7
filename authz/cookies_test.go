package authz_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"gatehouse.example/authz"
)

// FuzzCookies: cookies are read as net/http reads them, and written as it writes them.
func FuzzCookies(f *testing.F) {
	for _, line := range []string{
		"", "a=b", "a=b; a=c", "b=a; a=b", "a = b", " a=b ;; ", `a="b"; a=c`, "a", "a=b=c", "a=b c; a=d", "a=\x00", "xa=b; ax=c", "a=b,c", "\ta=b\t", `a=b\c`, "a=\"", "=b",
	} {
		f.Add(line, "", "value", 600, true)
		f.Add("x=y", line, line, 0, false)
	}
	f.Fuzz(func(t *testing.T, line, other, value string, seconds int, secure bool) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Cookie"] = []string{line}
		if other != "" {
			r.Header["Cookie"] = []string{line, other}
		}
		want := r.CookiesNamed("a")
		first, n := authz.CookieNamed(r, "a")
		if n != len(want) || n > 0 && first != want[0].Value {
			t.Errorf("%q: %q, %d cookies, not %v", r.Header["Cookie"], first, n, want)
		}
		seconds = max(seconds, 0)
		a, b := httptest.NewRecorder(), httptest.NewRecorder()
		authz.SetCookie(a, "a", value, seconds, secure)
		age := seconds
		if seconds == 0 {
			age = -1
		}
		http.SetCookie(b, &http.Cookie{Name: "a", Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode})
		if !slices.Equal(a.Header()["Set-Cookie"], b.Header()["Set-Cookie"]) {
			t.Errorf("%q, not %q", a.Header(), b.Header())
		}
	})
}
