package authz

import (
	"cmp"
	"crypto/hmac"
	"net/http"

	"gatehouse.example/audit"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// account returns what a page shows about the signed-in person: the name and the buttons that
// end the session.
func (s *Server) account(r *http.Request, session liveSession) templates.Account {
	if session.secret == "" {
		return templates.Account{}
	}
	return templates.Account{UserName: s.shownName(r, session), SignOut: s.urls.logout, Token: s.logoutToken(r, session)}
}

// logoutToken returns a token that is bound to browser and session only, so that a person can
// also sign out from a page whose transaction is over.
func (s *Server) logoutToken(r *http.Request, session liveSession) string {
	return s.csrf(r, storage.Transaction{}, "logout", session)
}

// logout handles POST /logout: it ends the session of this browser. Grants remain. The button
// "Not you?" continues with the same authorization request at the sign-in page.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) error {
	f, err := logoutForm.body(w, r)
	if err != nil {
		return err
	}
	session, err := s.session(r)
	if err != nil {
		return err
	}
	token := cmp.Or(f.get("not-you"), f.get("sign-out"))
	if session.secret != "" && !hmac.Equal([]byte(token), []byte(s.logoutToken(r, session))) {
		return foreignForm()
	}
	if err := s.endSession(w, r, session); err != nil {
		return err
	}
	if f.get("not-you") != "" && f.get("transaction") != "" {
		t, err := s.transaction(r, f.get("transaction"))
		if err != nil {
			return err
		}
		seeOther(w, s.urls.login+"?transaction="+t.ID)
		return nil
	}
	return s.signedOut(w, r)
}

// signedOut writes the page that says that the session of this browser ended.
func (s *Server) signedOut(w http.ResponseWriter, r *http.Request) error {
	return s.pagesFor(r, "").Notice(w, templates.Notice{
		Title:   language.Say("logout.title"),
		Message: language.Say("logout.message"),
		Steps:   []language.Text{language.Say("logout.continue"), language.Say("logout.close")},
	})
}

// endSession ends the session in the store first: while the store does not answer, the
// browser keeps its cookie, and the page tells the person that nothing was changed.
func (s *Server) endSession(w http.ResponseWriter, r *http.Request, session liveSession) error {
	if session.secret != "" {
		if err := s.cfg.Store.DeleteSession(r.Context(), session.secret); err != nil {
			return err
		}
		s.happened(r.Context(), fact{kind: audit.SignedOut, person: session.Subject})
		s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "signed out", "user", session.UserName, "sub", session.Subject)
	}
	s.cookies.end(w, sessionCookie)
	return nil
}
