package authz

import (
	"net/http"
	"time"

	"gatehouse.example/storage"
)

// signedIn returns the session for a page of this server that only signed-in people see. If
// there is none, or if the person authenticated longer ago than recent (zero for any time),
// signedIn begins a sign-in that returns to path, redirects, and reports false.
func (s *Server) signedIn(w http.ResponseWriter, r *http.Request, path string, recent time.Duration) (liveSession, bool, error) {
	session, err := s.session(r)
	if err != nil {
		return liveSession{}, false, err
	}
	old := session.secret != "" && recent > 0 && s.cfg.Now().Sub(session.AuthTime) > recent
	if session.secret != "" && !old {
		return session, true, nil
	}
	return liveSession{}, false, s.beginSignIn(w, r, path, old)
}

// beginSignIn starts a sign-in without a client. It leads to path, a path of this server
// below the issuer. With again, a session from before does not count.
func (s *Server) beginSignIn(w http.ResponseWriter, r *http.Request, path string, again bool) error {
	browser, err := s.browser(w, r)
	if err != nil {
		return err
	}
	id, err := s.cfg.Store.NewID()
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	t := storage.Transaction{
		ID: id, Browser: storage.HashSecret(browser), Return: path, ForceLogin: again, Created: now, Expires: now.Add(transactionTTL),
	}
	if err := s.keepTransaction(w, r, t); err != nil {
		return err
	}
	seeOther(w, s.urls.login+"?transaction="+id)
	return nil
}
