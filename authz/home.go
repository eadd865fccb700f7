package authz

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"gatehouse.example/templates"
)

// home handles the issuer URL itself: people get a page, and programs the same 404 as at
// unknown paths. The server metadata is elsewhere (RFC 8414 section 3).
func (s *Server) home(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if r.Method != http.MethodGet && r.Method != http.MethodHead || !person(r) {
		notFound(w, r)
		return
	}
	s.page(func(w http.ResponseWriter, r *http.Request) error {
		session, err := s.session(r)
		if err != nil {
			return err
		}
		return s.pagesFor(r, here(r)).Home(w, templates.Home{
			Issuer: s.cfg.Issuer, Catalogue: s.cfg.Catalogue, Account: s.account(r, session), AccountPage: s.path(accountPath),
			Enclosed: s.egress.isMissing(r.Context()), Registers: s.cfg.Registration != RegistrationClosed, Pinned: pinnedNames(s.clients.Pinned()),
		})
	}).ServeHTTP(w, r)
}

// person reports whether a request names text/html in Accept, as browsers do. Programs send
// "*/*".
func person(r *http.Request) bool {
	for _, accept := range r.Header["Accept"] {
		for part := range strings.SplitSeq(accept, ",") {
			kind, parameters, err := mime.ParseMediaType(part)
			if err != nil || kind != "text/html" {
				continue
			}
			weight, err := strconv.ParseFloat(parameters["q"], 64) // RFC 9110 section 12.4.2: 0 means "not acceptable"
			return parameters["q"] == "" || err == nil && weight > 0
		}
	}
	return false
}
