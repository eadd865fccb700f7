package authz

import (
	"errors"
	"net/http"

	"gatehouse.example/audit"
	"gatehouse.example/authz/internal/account"
	"gatehouse.example/internal/fair"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// showPassword handles GET /account/password.
func (s *Server) showPassword(w http.ResponseWriter, r *http.Request) error {
	session, ok, err := s.signedInHere(w, r, passwordPath)
	if err != nil || !ok {
		return err
	}
	if s.cfg.NoPasswords {
		return noPasswords()
	}
	return s.passwordPage(w, r, session, http.StatusOK, language.Text{})
}

func (s *Server) passwordPage(w http.ResponseWriter, r *http.Request, session liveSession, status int, problem language.Text) error {
	w.WriteHeader(status)
	return s.pagesFor(r, s.path(passwordPath)).ChangePassword(w, templates.ChangePassword{
		Action: s.cfg.Issuer + passwordPath, CSRF: s.csrf(r, storage.Transaction{}, passwordPath, session), Back: s.cfg.Issuer + accountPath,
		UserName: session.UserName, Fresh: knowsNoPassword(session), Least: account.MinChosen, Problem: problem,
	})
}

// knowsNoPassword reports whether a person need not give the current password to choose a new one:
// there is none, or the sign-in, which was just now, was with a passkey.
func knowsNoPassword(session liveSession) bool {
	return session.person.Password == "" || session.Method == methodPasskey
}

// changePassword handles POST /account/password. The new password ends the person's other
// sessions, and this one goes on.
func (s *Server) changePassword(w http.ResponseWriter, r *http.Request) error {
	f, session, ok, err := s.selfForm(w, r, passwordForm, passwordPath)
	if err != nil || !ok {
		return err
	}
	if s.cfg.NoPasswords {
		return noPasswords()
	}
	if problem := passwordProblem(f.get("new")); !problem.IsZero() {
		return s.passwordPage(w, r, session, http.StatusBadRequest, problem)
	}
	compared := session.person.Password
	if !knowsNoPassword(session) {
		user, err := s.signIn(r, session.UserName, f.get("current"))
		var refused *refusedSignIn
		switch {
		case errors.As(err, &refused):
			s.happened(r.Context(), fact{kind: audit.SignInRefused, person: refused.subject, how: methodPassword})
			s.cfg.Logger.InfoContext(r.Context(), "password not changed", "user", session.UserName, "from", fair.Requester(r.Context()))
			return s.passwordPage(w, r, session, http.StatusForbidden, language.Say("password.wrong"))
		case err != nil:
			return err
		}
		compared = user.Password
	}
	hash, err := s.hashChosen(r, f.get("new"))
	if err != nil {
		return err
	}
	user, err := s.changeSignIn(w, r, session, func(u *storage.User) error {
		if u.Password != compared {
			return gone() // another one was set while this one was checked
		}
		u.Password, u.Invitation = hash, nil
		return nil
	})
	if err != nil {
		return err
	}
	s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "password changed", "user", user.Name, "sub", user.Subject)
	s.happened(r.Context(), fact{kind: audit.PersonChanged, person: user.Subject, shown: eventPasswordChanged})
	return s.pagesFor(r, "").Notice(w, templates.Notice{
		Title:   language.Say("password.changed"),
		Message: language.Say("password.changedLead"),
		Steps:   []language.Text{language.Say("password.changedNext")},
	})
}

// passwordProblem says what is wrong with a password that a person chooses, or no text.
func passwordProblem(password string) language.Text {
	if account.CheckChosen(password) != nil {
		return language.Say("password.short", "count", account.MinChosen)
	}
	return language.Text{}
}

// hashChosen hashes a password that a person chooses, in turn with the sign-ins.
func (s *Server) hashChosen(r *http.Request, password string) (string, error) {
	hash, err := s.passwords.hash(r.Context(), "choosing", fair.Requester(r.Context()), password)
	if errors.Is(err, errTooManySignIns) {
		return "", busySignIn(err)
	}
	return hash, err
}
