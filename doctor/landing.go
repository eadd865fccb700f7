package doctor

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// landing is where an authorization request that a server should refuse led to, compared with a
// correct one.
type landing int

const (
	unclear   landing = iota // nothing can be told
	atSignIn                 // to the same page as the correct request
	refused                  // to a page with a status of 4xx
	sentBack                 // to the redirect URI of the request
	elsewhere                // to a page with another status, or to another place
)

// landing compares an answer with that to a correct request.
func (s *server) landing(e, valid *exchange) landing {
	o, back := outcomeOf(valid)
	stranger := s.call("authorize.unknown")
	switch {
	case !e.answered() || !valid.answered() || o != toSignIn && !back.Has("code") || e.code() >= 500 || e.code() == http.StatusTooManyRequests:
		return unclear
	case comesBack(e):
		return sentBack
	case e.code() >= 400:
		return refused
	case kin(e, valid) && !kin(stranger, valid):
		return atSignIn
	}
	return elsewhere
}

// redirectOf returns the redirect URI of an authorization request.
func redirectOf(e *exchange) string {
	if e == nil {
		return ""
	}
	u, err := url.Parse(e.url)
	if err != nil {
		return ""
	}
	return u.Query().Get("redirect_uri")
}

// comesBack reports whether an answer redirects to the redirect URI of its request: to that which was
// sent, and not to one that only resembles it.
func comesBack(e *exchange) bool {
	sent, err := url.Parse(redirectOf(e))
	if err != nil || sent.Scheme == "" || !e.redirect() {
		return false
	}
	to, err := url.Parse(e.get("Location"))
	if err != nil || to.Scheme != sent.Scheme || !strings.EqualFold(to.Host, sent.Host) || to.Path != sent.Path || to.User.String() != sent.User.String() {
		return false
	}
	for name := range sent.Query() {
		if !to.Query().Has(name) {
			return false
		}
	}
	return strings.HasPrefix(to.Fragment, sent.Fragment)
}

// kin reports whether two answers are the same page, also where a part of its address is random.
func kin(a, b *exchange) bool {
	if !a.answered() || !b.answered() || !a.redirect() || !b.redirect() {
		return alike(a, b)
	}
	one, other := strings.Split(leads(a), "/"), strings.Split(leads(b), "/")
	return len(one) == len(other) && slices.EqualFunc(one, other, func(x, y string) bool { return x == y || uncommon(x) && uncommon(y) })
}

// uncommon reports whether a part of a path looks random.
func uncommon(part string) bool {
	const least = 12
	return len(part) >= least && !strings.ContainsAny(part, ".:") && (strings.ContainsAny(part, "0123456789") || part != strings.ToLower(part))
}
