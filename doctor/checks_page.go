package doctor

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// signInPage asks for the page to which the correct request is redirected at the same host, as a browser
// with the cookies that were set.
func (w *walker) signInPage(ctx context.Context, s *server) {
	e := s.call("try.valid")
	cookies := map[string]string{}
	for range 3 {
		if e == nil || !e.redirect() || comesBack(e) {
			break
		}
		to, ok := sameHost(e.url, e.get("Location"))
		if !ok || !w.room(ctx, "the page of the sign-in") {
			return
		}
		header := http.Header{"Accept": {"text/html"}}
		for _, c := range cookiesOf(e) {
			cookies[c.Name] = c.Value
		}
		for name, value := range cookies {
			header["Cookie"] = []string{strings.TrimPrefix(header.Get("Cookie")+"; "+name+"="+value, "; ")}
		}
		e = w.ask(ctx, question{"try.page", http.MethodGet, to, header, ""})
	}
	if e != s.call("try.valid") {
		s.calls = append(s.calls, e)
	}
}

// shows returns the page of the sign-in, nil if none was seen. What is shown to everybody may be an
// error.
func (s *server) shows() *exchange {
	if !s.comes() || alike(s.call("authorize.unknown"), s.call("try.valid")) {
		return nil
	}
	for _, place := range []string{"try.page", "try.valid"} {
		if e := s.call(place); e.ok() && e.html() {
			return e
		}
	}
	return nil
}

// html reports whether an answer is a page for people.
func (e *exchange) html() bool {
	return e.answered() && (e.media() == "text/html" || e.media() == "application/xhtml+xml")
}

// cookiesOf returns the cookies that an answer sets; those that it removes are left out.
func cookiesOf(e *exchange) (all []*http.Cookie) {
	for _, line := range e.headers("Set-Cookie") {
		c, err := http.ParseSetCookie(line)
		if err == nil && c.MaxAge >= 0 && (c.Expires.IsZero() || c.Expires.After(time.Unix(0, 0).AddDate(1, 0, 0))) {
			all = append(all, c)
		}
	}
	return all
}

// onPage looks at the page of the sign-in.
func onPage(look func(*exchange) string) func(*walk) []string {
	return eachServer(func(s *server) []string {
		e := s.shows()
		if e == nil {
			return nil
		}
		text := look(e)
		return saw(text != "", text)
	})
}

// pageChecks are about the headers of what people see.
var pageChecks = []check{
	{Entry{
		ID: "page-framing", Severity: Warning, Rule: "RFC 9700 section 4.16; OWASP ASVS 5.0 3.4.6",
		Title:    "The page of the sign-in can be framed by other pages",
		Symptoms: []string{"clickjacking", "sign-in page in an iframe"},
		Mend:     "Send Content-Security-Policy: frame-ancestors 'none' with every page of the sign-in and the consent, and X-Frame-Options: DENY for old browsers.",
	}, onPage(func(e *exchange) string {
		return when(framed(e), e.String()+" without frame-ancestors and X-Frame-Options")
	})},
	{Entry{
		ID: "page-cacheable", Severity: Warning, Rule: "RFC 9111 section 5.2.2.5; OWASP ASVS 5.0 14.3.2",
		Title:    "The page of the sign-in may be kept in a cache",
		Symptoms: []string{"old sign-in page after Back", "sign-in page of somebody else from a cache"},
		Mend:     "Send Cache-Control: no-store with every page of the sign-in and the consent: they have values that are for one browser and one request.",
	}, onPage(func(e *exchange) string {
		return when(!strings.Contains(strings.ToLower(e.get("Cache-Control")), "no-store"), fmt.Sprintf("%s with Cache-Control %s", e, quoted(e.get("Cache-Control"))))
	})},
	{Entry{
		ID: "page-hsts", Severity: Warning, Rule: "RFC 6797 section 7.1; OWASP ASVS 5.0 3.4.1",
		Title:    "Browsers are not told to use https only",
		Symptoms: []string{"no HSTS", "SSL stripping"},
		Mend:     "Send Strict-Transport-Security: max-age=31536000. Without it, who listens on the way can answer the first visit over http with a sign-in page of his own.",
		Mends:    map[string]string{"nginx": `add_header Strict-Transport-Security "max-age=31536000" always; without always, errors lack it.`},
	}, onPage(func(e *exchange) string {
		lacks := strings.HasPrefix(e.url, "https:") && !regexp.MustCompile(`(?i)max-age="?0*[1-9]`).MatchString(e.get("Strict-Transport-Security"))
		return when(lacks, fmt.Sprintf("%s with Strict-Transport-Security %s", e, quoted(e.get("Strict-Transport-Security"))))
	})},
	{Entry{
		ID: "page-sniffed", Severity: Note, Rule: "Fetch section 3.6; OWASP ASVS 5.0 3.4.4",
		Title:    "Browsers may guess the type of the page of the sign-in",
		Symptoms: []string{"X-Content-Type-Options"},
		Mend:     "Send X-Content-Type-Options: nosniff with every answer.",
	}, onPage(func(e *exchange) string {
		return when(sniffed(e), e.String()+" without X-Content-Type-Options: nosniff")
	})},
	{Entry{
		ID: "page-referrer", Severity: Note, Rule: "RFC 9700 section 4.2.4; OWASP ASVS 5.0 3.4.5",
		Title:    "The address of the page of the sign-in may be told to other servers",
		Symptoms: []string{"Referrer-Policy", "authorization request in Referer"},
		Mend:     "Send Referrer-Policy: no-referrer, or same-origin. Current browsers tell other servers the origin only, older ones the parameters too.",
	}, onPage(func(e *exchange) string {
		return when(refers(e), fmt.Sprintf("%s with Referrer-Policy %s", e, quoted(e.get("Referrer-Policy"))))
	})},
	{Entry{
		ID: "error-page-headers", Severity: Note, Rule: "OWASP ASVS 5.0 3.4.4, 3.4.5 and 3.4.6",
		Title:    "The page with an error lacks headers that protect it",
		Symptoms: []string{"X-Frame-Options missing on an error page"},
		Mend:     "Send the same headers with error pages as with others. They repeat parts of requests, which anybody can choose.",
	}, eachServer(func(s *server) []string {
		e := s.call("authorize.unknown")
		if !e.html() || e.redirect() {
			return nil
		}
		var lacks []string
		for _, h := range []struct {
			lacks bool
			name  string
		}{{framed(e), "frame-ancestors"}, {sniffed(e), "X-Content-Type-Options"}, {refers(e), "Referrer-Policy"}} {
			if h.lacks {
				lacks = append(lacks, h.name)
			}
		}
		return saw(len(lacks) > 0, e.String()+" without "+strings.Join(lacks, ", "))
	})},
	{Entry{
		ID: "cookie-secure", Severity: Warning, Rule: "RFC 6265 section 4.1.2.5; OWASP ASVS 5.0 3.3.1",
		Title:    "A cookie of the sign-in may travel over http",
		Symptoms: []string{"cookie without Secure"},
		Mend:     "Set Secure, and begin the name with __Host- where the cookie is for one host.",
	}, eachCookie(func(e *exchange, c *http.Cookie) bool { return strings.HasPrefix(e.url, "https:") && !c.Secure }, "Secure")},
	{Entry{
		ID: "cookie-script", Severity: Warning, Rule: "RFC 6265 section 4.1.2.6; OWASP ASVS 5.0 3.3.4",
		Title:    "Scripts can read a cookie of the sign-in",
		Symptoms: []string{"cookie without HttpOnly"},
		Mend:     "Set HttpOnly, unless a script of yours needs the cookie and it has nothing to do with the session.",
	}, eachCookie(func(_ *exchange, c *http.Cookie) bool { return !c.HttpOnly && !forScripts.MatchString(c.Name) }, "HttpOnly")},
	{Entry{
		ID: "cookie-site", Severity: Note, Rule: "OWASP ASVS 5.0 3.3.2; RFC 6265bis section 4.1.2.7",
		Title:    "A cookie of the sign-in does not say for which sites it is",
		Symptoms: []string{"cookie without SameSite"},
		Mend:     "Set SameSite=Lax, which lets a person come from the page of a client. None is needed only for pages in frames.",
	}, eachCookie(func(_ *exchange, c *http.Cookie) bool {
		return c.SameSite != http.SameSiteLaxMode && c.SameSite != http.SameSiteStrictMode
	}, "SameSite=Lax")},
}

// forScripts are names of cookies that are made for scripts.
var forScripts = regexp.MustCompile(`(?i)xsrf|csrf|lang|locale|theme`)

// framed reports whether other pages can show a page in a frame.
func framed(e *exchange) bool {
	for _, policy := range strings.Split(strings.ToLower(strings.Join(e.headers("Content-Security-Policy"), ",")), ",") {
		for _, directive := range strings.Split(policy, ";") {
			words := strings.Fields(directive)
			if len(words) > 0 && words[0] == "frame-ancestors" {
				return slices.ContainsFunc(words, func(w string) bool { return w == "*" || w == "https:" || w == "http:" })
			}
		}
	}
	options := strings.ToUpper(strings.TrimSpace(e.get("X-Frame-Options")))
	return options != "DENY" && options != "SAMEORIGIN"
}

// sniffed reports whether browsers may guess the type of an answer.
func sniffed(e *exchange) bool {
	return !strings.EqualFold(strings.TrimSpace(e.get("X-Content-Type-Options")), "nosniff")
}

// refers reports whether other servers may be told the address of a page.
func refers(e *exchange) bool {
	policies := split(e.headers("Referrer-Policy"))
	if len(policies) == 0 {
		return !regexp.MustCompile(`(?i)<meta[^>]+name=["']?referrer`).Match(e.body)
	}
	last := policies[len(policies)-1]
	return last == "unsafe-url" || last == "no-referrer-when-downgrade"
}

// eachCookie reports the cookies of the sign-in that lack an attribute.
func eachCookie(lacks func(*exchange, *http.Cookie) bool, attribute string) func(*walk) []string {
	return eachServer(func(s *server) []string {
		var names []string
		for _, place := range []string{"authorize.unknown", "try.valid", "try.page"} {
			e := s.call(place)
			for _, c := range cookiesOf(e) {
				if lacks(e, c) && !slices.Contains(names, c.Name) {
					names = append(names, c.Name)
				}
			}
		}
		return saw(len(names) > 0, fmt.Sprintf("at %s without %s: %s", clean(s.issuer), attribute, quotedAll(names)))
	})
}
