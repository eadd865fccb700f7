package authz

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"

	"gatehouse.example/storage"
)

// shownLen is the length of what shownOf returns.
const shownLen = 20

// shownOf returns a digest of what a consent page shows: what a person may allow, and whether the operator
// approved all of it, so that there is nothing to choose.
func shownOf(offered storage.Access, approved bool) string {
	page := strconv.AppendBool(make([]byte, 0, 256), approved)
	for _, p := range offered {
		page = append(append(page, '\n'), p.Resource...)
		for _, scope := range p.Scopes {
			page = append(append(page, ' '), scope...)
		}
	}
	sum := sha256.Sum256(page)
	return base64.RawURLEncoding.EncodeToString(sum[:15])
}

// consentToken returns the token of the form of a consent page. It says what the page shows, so that the
// answer to it counts for that and nothing else: what a person may allow, and what the operator approved,
// may change while the page is open.
func (s *Server) consentToken(r *http.Request, t storage.Transaction, session liveSession, shown string) string {
	return shown + s.csrf(r, t, consentTo+shown, session)
}

const consentTo = "consent to "

// answered returns what the page showed whose form is answered. It refuses a form that was not made for
// this browser, transaction and session.
func (s *Server) answered(r *http.Request, t storage.Transaction, session liveSession, f form) (shown string, err error) {
	token := f.get("csrf")
	shown = token[:min(shownLen, len(token))]
	return shown, s.checkCSRF(r, t, consentTo+shown, session, token[len(shown):])
}
