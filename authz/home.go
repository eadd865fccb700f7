package authz

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"gatehouse.example/templates"
)

// home answers at the issuer itself: a person gets a page, a program hears that there is
// nothing, as everywhere else. Metadata is not here (RFC 8414 section 3).
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
		return s.pages.Home(w, templates.Home{
			Issuer: s.cfg.Issuer, Catalogue: s.cfg.Catalogue, Account: s.account(r, session),
			Enclosed: s.egress.isMissing(r.Context()), Registers: s.cfg.Registration != RegistrationClosed, Pinned: pinnedNames(s.clients.Pinned()),
		})
	}).ServeHTTP(w, r)
}

// person reports whether a request asks for a page by name, as browsers do; "*/*" is what
// programs send.
func person(r *http.Request) bool {
	for _, accept := range r.Header["Accept"] {
		for part := range strings.SplitSeq(accept, ",") {
			kind, parameters, err := mime.ParseMediaType(part)
			if err != nil || kind != "text/html" {
				continue
			}
			weight, err := strconv.ParseFloat(parameters["q"], 64) // RFC 9110 section 12.4.2: 0 is "not this"
			return parameters["q"] == "" || err == nil && weight > 0
		}
	}
	return false
}
