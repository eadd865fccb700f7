package authz

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

const (
	languageCookie = "authz_language" // the language that the person chose
	languageTTL    = 365 * 24 * time.Hour
	maxReturn      = 4 << 10 // the longest path that a choice of language returns to
)

// languageOf returns the language for a request: what the person chose in this browser, or
// the best one for Accept-Language (RFC 9110 section 12.5.4).
func (s *Server) languageOf(r *http.Request) *language.Language {
	if chosen := language.Tagged(s.cookies.get(r, languageCookie)); chosen != nil {
		return chosen
	}
	return language.Choose(r.Header.Get("Accept-Language"))
}

// pagesFor returns the pages in the language of a request. To is the path that the page returns to
// after the choice of another language; a page that offers no choice has "".
func (s *Server) pagesFor(r *http.Request, to string) *templates.Set {
	if !s.returnable(to) {
		to = ""
	}
	return s.pages.For(templates.Reader{Language: s.languageOf(r), Action: s.path("/language"), Return: to})
}

// here returns the path of the requested page with its query, and "" for an answer to a form,
// which must not be sent twice.
func here(r *http.Request) string {
	if r.Method != http.MethodGet {
		return ""
	}
	return r.URL.RequestURI()
}

// returnable reports whether a choice of language may return to a path: to a page of this
// server, so that the link cannot lead a person elsewhere.
func (s *Server) returnable(to string) bool {
	u, err := url.ParseRequestURI(to)
	if err != nil || len(to) > maxReturn || u.Host != "" || u.Scheme != "" || u.Path != u.EscapedPath() || strings.TrimSuffix(u.Path, "/") != strings.TrimSuffix(path.Clean(u.Path), "/") {
		return false
	}
	page, ours := strings.CutPrefix(u.Path, strings.TrimSuffix(s.urls.base.Path, "/"))
	return ours && (slices.Contains(returnPages, page) || strings.HasPrefix(page, "/account/"))
}

// returnPages are the pages that can be opened again. An authorization request is not among
// them: its errors would repeat its parameters, which anybody may have written.
var returnPages = []string{"", "/", "/login", "/login/code", "/consent", "/account", "/invite"}

// chooseLanguage handles GET /language: it remembers the choice in this browser and returns to the
// page. It is a link and no form, so that the form of a page is the only one on it. The choice is
// harmless, but a link on another site does not change it.
func (s *Server) chooseLanguage(w http.ResponseWriter, r *http.Request) error {
	f, err := languageForm.parse(r.URL.RawQuery)
	if err != nil {
		return malformed(err.Error())
	}
	if problem := f.problem(); problem != "" {
		return malformed(problem)
	}
	chosen := language.Tagged(f.get("language"))
	if chosen == nil {
		return malformed("the parameter language does not name a language of this server")
	}
	to := f.get("return")
	if !s.returnable(to) {
		to = s.path("/")
	}
	if from := r.Header.Get("Sec-Fetch-Site"); from == "" || from == "same-origin" {
		s.cookies.set(w, languageCookie, chosen.Tag, languageTTL)
	}
	seeOther(w, s.urls.base.Scheme+"://"+s.urls.base.Host+to)
	return nil
}
