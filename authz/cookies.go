package authz

import (
	"cmp"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// onlyCookie returns the value of the cookie with a name, and "" if there are none or two.
func onlyCookie(r *http.Request, name string) string {
	if value, n := cookieNamed(r, name); n == 1 {
		return value
	}
	return ""
}

// usualCookies bounds the cookies of a request that are looked at here.
const usualCookies = 100

// cookieNamed returns the value of the first cookie with a name, and how many there are, as net/http
// reads them. A header that is not of the usual form is left to net/http.
func cookieNamed(r *http.Request, name string) (first string, n int) {
	lines := r.Header["Cookie"]
	if len(lines) == 0 {
		return "", 0
	}
	if len(lines) > 1 || strings.Count(lines[0], ";") > usualCookies {
		return readCookies(r, name)
	}
	rest := lines[0]
	for rest != "" {
		var pair string
		pair, rest, _ = strings.Cut(rest, ";")
		named, value, _ := strings.Cut(textproto.TrimString(pair), "=")
		switch {
		case textproto.TrimString(named) != name:
			continue
		case !plainCookie(value):
			return readCookies(r, name)
		}
		if n++; n == 1 {
			first = value
		}
	}
	return first, n
}

func readCookies(r *http.Request, name string) (first string, n int) {
	found := r.CookiesNamed(name)
	if len(found) == 0 {
		return "", 0
	}
	return found[0].Value, len(found)
}

// plainCookie reports whether a value consists of what is in the values that this server gives cookies:
// base64url and dots. net/http quotes some other characters, or leaves them out.
func plainCookie(value string) bool {
	for i := range len(value) {
		if !inCookie[value[i]] {
			return false
		}
	}
	return true
}

var inCookie = func() (in [256]bool) {
	for c := range rune(len(in)) {
		in[c] = !notBase64URL(c) || c == '.'
	}
	return in
}()

// setCookie sets a cookie, as [http.SetCookie] writes it. With a lifetime of 0 seconds the browser drops
// it. The name is a token.
func setCookie(w http.ResponseWriter, name, value string, seconds int, secure bool) {
	if !plainCookie(value) {
		http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: cmp.Or(seconds, -1), HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode})
		return
	}
	attributes := "; HttpOnly; SameSite=Lax"
	if secure {
		attributes = "; HttpOnly; Secure; SameSite=Lax"
	}
	line := name + "=" + value + "; Path=/; Max-Age=" + strconv.Itoa(seconds) + attributes
	h := w.Header()
	h["Set-Cookie"] = append(h["Set-Cookie"], line)
}
