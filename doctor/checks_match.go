package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// variant is a redirect URI that resembles a registered one. A server must not accept it.
type variant struct {
	name     string // the finding is redirect-NAME
	severity Severity
	rule     string
	what     string // what differs
	symptom  string
	mend     string
	of       func(known) string // the registered one, "" if the client has none that can be varied
	make     func(url.URL) string
}

const exactly9700 = "RFC 9700 section 2.1; RFC 3986 section 6.2.1"

// variants are tried in this order.
var variants = []variant{
	{"subdomain", Error, exactly9700, "at a subdomain", "open redirector by a subdomain", "Compare the whole redirect URI as a string: who controls one subdomain gets the codes otherwise.",
		webOnly, func(u url.URL) string { u.Host = "other." + u.Host; return u.String() }},
	{"traversal", Error, exactly9700, "with /../ in its path", "redirect_uri with path traversal", "Compare the whole redirect URI as a string: browsers resolve dot segments, so that the code comes to another page.",
		webFirst, func(u url.URL) string { return u.String() + "/../other" }},
	{"port", Error, exactly9700 + "; RFC 8252 section 7.3", "with another port at a host that is not loopback", "redirect_uri with another port", "Ignore the port on loopback only. Behind another port of a host there may be a program of somebody else.",
		webOnly, func(u url.URL) string { u.Host = net.JoinHostPort(u.Hostname(), "8443"); return u.String() }},
	{"http", Error, "RFC 9700 section 2.1", "with http in place of https", "redirect_uri with http accepted", "Compare the scheme too: who listens on the way reads the code otherwise.",
		webOnly, func(u url.URL) string { u.Scheme = "http"; return u.String() }},
	{"userinfo", Warning, exactly9700, "with a user name before its host", "redirect_uri with @", "Compare the whole redirect URI as a string. What is before @ deceives people and programs about the host.",
		webFirst, func(u url.URL) string { u.User = url.User("doctor"); return u.String() }},
	{"query", Error, exactly9700, "with a parameter more", "redirect_uri with an added query", "Compare the query too: a parameter may make the page of the client send its visitor, and the code, to another place.",
		webFirst, func(u url.URL) string { u.RawQuery = "added=1"; return u.String() }},
	{"case", Warning, exactly9700, "with a path in capitals", "redirect_uri compared without case", "Compare the path with its case: it may be another page.",
		webFirst, func(u url.URL) string { u.Path = strings.ToUpper(u.Path); return u.String() }},
	{"slash", Warning, exactly9700, "with a slash more at its end", "redirect_uri with a trailing slash", "Compare the whole redirect URI as a string: with a slash it may be another page.",
		webFirst, func(u url.URL) string { return u.String() + "/" }},
	{"fragment", Warning, "RFC 6749 section 3.1.2; RFC 9700 section 2.1", "with a fragment", "redirect_uri with #", "Refuse redirect URIs with a fragment.",
		webFirst, func(u url.URL) string { return u.String() + "#part" }},
	{"localhost", Warning, "RFC 9700 section 2.1; RFC 8252 section 8.3", "at localhost in place of 127.0.0.1", "localhost accepted for 127.0.0.1", "Compare the host too. Where localhost is looked up, it may be another machine.",
		func(k known) string { return literal(k.loopback) }, func(u url.URL) string {
			return strings.Replace(u.String(), "//127.0.0.1", "//localhost", 1)
		}},
}

func webOnly(k known) string  { return k.web }
func webFirst(k known) string { return cmp.Or(k.web, k.loopback) }

// literal returns a redirect URI if it is at 127.0.0.1.
func literal(redirect string) string {
	if u, err := url.Parse(redirect); err != nil || u.Hostname() != "127.0.0.1" {
		return ""
	}
	return redirect
}

// vary sends authorization requests with redirect URIs that are not registered, and with PKCE that is
// wrong.
func (w *walker) vary(ctx context.Context, s *server, d *document) {
	for _, p := range wrongProofs {
		w.try(ctx, s, d, p.name, p.what, p.change)
	}
	if s.known.web != "" && s.known.loopback != "" {
		w.try(ctx, s, d, "valid-web", "with a redirect URI with https", url.Values{"redirect_uri": {s.known.web}})
	}
	for _, v := range variants {
		u, err := url.Parse(v.of(s.known))
		if err != nil || u.Host == "" {
			continue
		}
		w.try(ctx, s, d, "redirect-"+v.name, "with a redirect URI "+v.what, url.Values{"redirect_uri": {v.make(*u)}})
	}
}

// correct returns the answer to the correct request for a redirect URI of the known client.
func (s *server) correct(redirect string) *exchange {
	if e := s.call("try.valid-web"); e != nil && redirect == s.known.web {
		return e
	}
	return s.call("try.valid")
}

// matchChecks are about redirect URIs that resemble a registered one.
var matchChecks = func() (all []check) {
	for _, v := range variants {
		all = append(all, check{Entry{
			ID: "redirect-" + v.name, Severity: v.severity, Rule: v.rule,
			Title:    "A redirect URI " + v.what + " is accepted",
			Symptoms: []string{v.symptom},
			Mend:     v.mend,
		}, v.look()})
	}
	return append(all,
		check{Entry{
			ID: "redirects-unmatched", Severity: Error, Rule: "RFC 6749 section 4.1.2.1; RFC 9700 section 4.11.2",
			Title:    "The authorization endpoint redirects to a URI that its client has not registered",
			Symptoms: []string{"open redirector", "error redirect to an unregistered redirect_uri"},
			Mend:     "Check the redirect URI before everything else, and show a page with status 400 when it is wrong. No error may be sent there.",
		}, lands(sentBack)},
		check{Entry{
			ID: "refusal-status", Severity: Note, Rule: "RFC 6749 section 4.1.2.1; RFC 9110 section 15.5",
			Title:    "A wrong redirect URI is answered otherwise than by a page with a status of 4xx",
			Symptoms: []string{"error page with status 200", "redirect to an error page"},
			Mend:     "Show the error at the authorization endpoint itself, with status 400: programs and proxies then see that it is one.",
		}, lands(elsewhere)},
	)
}()

// look reports that the variant came to where the registered redirect URI comes to.
func (v variant) look() func(*walk) []string {
	return eachServer(func(s *server) []string {
		e, base := s.call("try.redirect-"+v.name), v.of(s.known)
		return saw(s.landing(e, s.correct(base)) == atSignIn, fmt.Sprintf("%s for the redirect URI %s, known is %s", e, quoted(redirectOf(e)), quoted(base)))
	})
}

// lands reports the variants that came to a place where none may come to.
func lands(where landing) func(*walk) []string {
	return eachServer(func(s *server) (found []string) {
		for _, v := range variants {
			e := s.call("try.redirect-" + v.name)
			if s.landing(e, s.correct(v.of(s.known))) == where {
				found = append(found, fmt.Sprintf("%s%s for the redirect URI %s", e, seenAt(e), quoted(redirectOf(e))))
			}
		}
		return few(found)
	})
}
