package doctor

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// outcome is what an authorization request leads to.
type outcome string

const (
	toSignIn outcome = "sign-in" // a page, or a redirect to one
	toClient outcome = "client"  // a redirect to the redirect URI
	toError  outcome = "error"   // a page with a status of 400 or more
	toUnsure outcome = "unsure"  // another page than that of a correct request: of an error, perhaps
)

// outcomeOf tells what an authorization request led to, and with which parameters it was
// redirected to the client. Whether a page is that of the sign-in is for server.outcome.
func outcomeOf(e *exchange) (outcome, url.Values) {
	switch to, err := url.Parse(e.get("Location")); {
	case e.code() >= 400:
		return toError, nil
	case err == nil && comesBack(e):
		back := to.Query()
		if more, err := url.ParseQuery(to.EscapedFragment()); err == nil { // where tokens were asked for (RFC 6749 section 4.2.2.1)
			maps.Copy(back, more)
		}
		return toClient, back
	}
	return toSignIn, nil
}

// outcome tells what an authorization request led to, compared with a correct one: many servers show
// errors on a page with status 200, or redirect to one of their own. Where they show an unknown
// client the same as a known one, nothing can be told from a page.
func (s *server) outcome(e *exchange) (outcome, url.Values) {
	o, back := outcomeOf(e)
	valid := s.call("try.valid")
	if o == toSignIn && e != valid && (!kin(e, valid) || kin(s.call("authorize.unknown"), valid)) {
		return toUnsure, back
	}
	return o, back
}

// alike reports whether two answers are the same page: the same redirect but for its query, or a
// document with the same words.
func alike(a, b *exchange) bool {
	if !a.answered() || !b.answered() || a.redirect() != b.redirect() {
		return false
	}
	if a.redirect() {
		return leads(a) == leads(b)
	}
	return a.code() == b.code() && a.media() == b.media() && slices.Equal(words(a.body), words(b.body))
}

// leads returns where a redirect leads, without its query.
func leads(e *exchange) string {
	from, err := url.Parse(e.url)
	if err != nil {
		return ""
	}
	to, err := from.Parse(e.get("Location"))
	if err != nil {
		return ""
	}
	return to.Scheme + "://" + to.Host + to.Path
}

// The expressions are compiled when a page is first read: a server that never looks for mistakes of
// others starts without them.
var (
	unread = compiled(`(?is)<(script|style)\b.*?</(script|style)>|<!--.*?-->|<[^>]*>|https?://[^\s<]+`)
	field  = compiled(`(?i)<(input|button|select|form)\b`)
	word   = compiled(`[\p{L}\p{N}_-]+`)
	random = compiled(`[\p{N}_]|^.{25}`)
)

// compiled returns a function that compiles an expression at its first call.
func compiled(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// words returns what a person reads on a page, without URLs and what may be random, and the fields of
// its forms.
func words(page []byte) []string {
	var all []string
	for _, w := range word().FindAllString(unread().ReplaceAllString(string(page), " "), -1) {
		if !random().MatchString(w) {
			all = append(all, strings.ToLower(w))
		}
	}
	return append(all, field().FindAllString(string(page), -1)...)
}
