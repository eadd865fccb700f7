package authz

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/authz/internal/passkey"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// The pages on which people change how they sign in, below the issuer.
const (
	passkeysPath     = "/account/passkeys"
	secondFactorPath = "/account/second-factor"
	passwordPath     = "/account/password"
)

// recentSignIn is how long ago a person may have signed in to change how to sign in: a browser that
// was left alone is not enough.
const recentSignIn = 10 * time.Minute

// selfForm reads a form of one of these pages. It reports false if the answer is a redirect to
// sign in again.
func (s *Server) selfForm(w http.ResponseWriter, r *http.Request, ff formFilter, path string) (form, liveSession, bool, error) {
	f, err := ff.body(w, r)
	if err != nil {
		return form{}, liveSession{}, false, err
	}
	session, ok, err := s.signedInHere(w, r, path)
	if err != nil || !ok {
		return form{}, liveSession{}, false, err
	}
	return f, session, true, s.checkCSRF(r, storage.Transaction{}, path, session, f.get("csrf"))
}

// signedInHere is [Server.signedIn] for these pages. They are for people of this server: whoever a
// provider vouches for must not get a way in that stays when the provider lets them go.
func (s *Server) signedInHere(w http.ResponseWriter, r *http.Request, path string) (liveSession, bool, error) {
	session, ok, err := s.signedIn(w, r, path, recentSignIn)
	if err != nil || !ok || !ofProvider(session.UserName) {
		return session, ok, err
	}
	return liveSession{}, false, &displayedError{
		status: http.StatusForbidden, code: codeAccessDenied,
		title:   language.Say("error.elsewhere.title"),
		message: language.Say("error.elsewhere.message"),
		steps:   []language.Text{language.Say("error.elsewhere.step")},
	}
}

// showPasskeys handles GET /account/passkeys.
func (s *Server) showPasskeys(w http.ResponseWriter, r *http.Request) error {
	session, ok, err := s.signedInHere(w, r, passkeysPath)
	if err != nil || !ok {
		return err
	}
	return s.passkeysPage(w, r, session, http.StatusOK, language.Text{})
}

func (s *Server) passkeysPage(w http.ResponseWriter, r *http.Request, session liveSession, status int, problem language.Text) error {
	page := templates.Passkeys{
		Action: s.cfg.Issuer + passkeysPath, CSRF: s.csrf(r, storage.Transaction{}, passkeysPath, session),
		Back: s.cfg.Issuer + accountPath, Problem: problem,
	}
	for _, k := range session.person.Passkeys {
		page.Keys = append(page.Keys, templates.Passkey{
			ID: base64.RawURLEncoding.EncodeToString(k.ID), Name: k.Name, Created: k.Created, Used: k.Used, Synced: k.BackedUp,
		})
	}
	var err error
	if page.Prompt, err = s.enrolPrompt(w, r, page.Action, session.person, session); err != nil {
		return err
	}
	w.WriteHeader(status)
	return s.pagesFor(r, s.path(passkeysPath)).Passkeys(w, page)
}

// changePasskeys handles POST /account/passkeys: it adds, names or removes a passkey.
func (s *Server) changePasskeys(w http.ResponseWriter, r *http.Request) error {
	f, session, ok, err := s.selfForm(w, r, passkeysForm, passkeysPath)
	if err != nil || !ok {
		return err
	}
	switch f.get("do") {
	case "add":
		err = s.addPasskey(r, session, []byte(f.get("credential")))
	case "rename":
		err = s.renamePasskey(r, session, f.get("id"), f.get("name"))
	case "remove":
		err = s.removePasskey(w, r, session, f.get("id"))
	default:
		return invalidRequest("do must be add, rename or remove")
	}
	if problem := s.mendable(r, session.UserName, err); !problem.IsZero() {
		return s.passkeysPage(w, r, session, http.StatusBadRequest, problem)
	}
	if err != nil {
		return err
	}
	seeOther(w, s.cfg.Issuer+passkeysPath)
	return nil
}

// mendable returns what the page says of an error that the person can mend in the form, no text for
// any other one.
func (s *Server) mendable(r *http.Request, userName string, err error) language.Text {
	var refused *passkey.Refused
	var problem *formProblem
	switch {
	case errors.As(err, &refused):
		s.cfg.Logger.InfoContext(r.Context(), "passkey refused", "user", userName, "reason", refused.Reason)
		return language.Say("passkey.refused")
	case errors.As(err, &problem):
		return problem.text
	}
	return language.Text{}
}

// formProblem is a mistake that the person can mend in the form.
type formProblem struct{ text language.Text }

func (e *formProblem) Error() string { return e.text.String() }

func (s *Server) addPasskey(r *http.Request, session liveSession, answer []byte) error {
	if s.party == nil {
		return gone()
	}
	challenge := passkey.CreationChallenge(answer)
	if !s.ownChallenge(r, storage.Transaction{}, purposeEnrol, session, challenge) {
		return &passkey.Refused{Reason: "the challenge is not of this page"}
	}
	user, err := s.enrol(r.Context(), session.person, challenge, answer, func(u *storage.User) error {
		if !sessionValid(*u, session.Session) {
			return gone()
		}
		return nil
	})
	if err == nil {
		s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "passkey added", "user", user.Name, "sub", user.Subject)
		s.happened(r.Context(), fact{kind: audit.PersonChanged, person: user.Subject, shown: eventPasskeyAdded, about: user.Passkeys[len(user.Passkeys)-1].Name})
	}
	return err
}

// findPasskey returns the place of a passkey in a person's record by the id in a form.
func findPasskey(u storage.User, id string) (int, error) {
	i := slices.IndexFunc(u.Passkeys, func(k storage.Passkey) bool { return base64.RawURLEncoding.EncodeToString(k.ID) == id })
	if i < 0 {
		return 0, &formProblem{language.Say("passkeys.gone")}
	}
	return i, nil
}

// maxPasskeyName is the greatest length of the name of a passkey, in characters.
const maxPasskeyName = 80

func (s *Server) renamePasskey(r *http.Request, session liveSession, id, name string) error {
	if name == "" || len([]rune(name)) > maxPasskeyName {
		return &formProblem{language.Say("passkeys.badName")}
	}
	_, err := s.changeSelf(r.Context(), session, func(u *storage.User) error {
		i, err := findPasskey(*u, id)
		if err != nil {
			return err
		}
		u.Passkeys = slices.Clone(u.Passkeys)
		u.Passkeys[i].Name = name
		return nil
	})
	return err
}

// removePasskey removes a passkey and ends the person's other sessions, which may have begun with
// it. The last way to sign in stays.
func (s *Server) removePasskey(w http.ResponseWriter, r *http.Request, session liveSession, id string) error {
	var removed storage.Passkey
	at, err := findPasskey(session.person, id)
	if err != nil {
		return err
	}
	name := storage.PasskeyAlias(session.person.Passkeys[at].ID)
	alias, err := s.aliasBefore(r.Context(), name)
	if err != nil {
		return err
	}
	user, err := s.changeSignIn(w, r, session, func(u *storage.User) error {
		i, err := findPasskey(*u, id)
		if err != nil {
			return err
		}
		removed = u.Passkeys[i]
		u.Passkeys = slices.Delete(slices.Clone(u.Passkeys), i, i+1)
		if s.waysToSignIn(*u) == 0 {
			return &formProblem{language.Say("passkeys.last")}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "passkey removed", "user", user.Name, "sub", user.Subject)
	s.happened(r.Context(), fact{kind: audit.PersonChanged, person: user.Subject, shown: eventPasskeyRemoved, about: removed.Name})
	return s.endAlias(r.Context(), name, alias, user)
}
