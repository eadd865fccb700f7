package authz

import (
	"crypto/hmac"
	"errors"
	"net/http"
	"strings"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/authz/internal/account"
	"gatehouse.example/authz/internal/passkey"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

const (
	invitePath = "/invite"
	// inviteCookie keeps the token of a link while the person chooses. The address of the page has
	// no token, so that it is in no history, and no page that follows learns it.
	inviteCookie = "authz_invite"
	inviteTTL    = time.Hour
)

// invite handles GET /invite: with a token it keeps the token and redirects to itself, without one
// it shows the page. It changes nothing, so programs that look at links in messages do no harm.
func (s *Server) invite(w http.ResponseWriter, r *http.Request) error {
	f, err := inviteForm.parse(r.URL.RawQuery)
	if err != nil {
		return malformed(err.Error())
	}
	if token := f.get("token"); token != "" {
		if _, err := s.invited(r, token); err != nil {
			return err
		}
		if _, err := s.browser(w, r); err != nil {
			return err
		}
		s.cookies.set(w, inviteCookie, token, inviteTTL)
		seeOther(w, s.cfg.Issuer+invitePath)
		return nil
	}
	user, err := s.invited(r, s.cookies.get(r, inviteCookie))
	if err != nil {
		return err
	}
	return s.invitePage(w, r, user, http.StatusOK, language.Text{})
}

// invited returns the person of a link, as the record is now. A link that was used, replaced or
// ended, and one that never was, get the same answer.
func (s *Server) invited(r *http.Request, token string) (storage.User, error) {
	_, written, _ := strings.Cut(token, ".")
	name, err := account.CanonicalName(written)
	if err != nil {
		return storage.User{}, linkOver()
	}
	user, err := s.cfg.Store.User(r.Context(), name)
	if errors.Is(err, storage.ErrNotFound) || err == nil && !s.opens(user, token) {
		return storage.User{}, linkOver()
	}
	return user, err
}

// opens reports whether a token is that of the person's link now.
func (s *Server) opens(u storage.User, token string) bool {
	return u.Invitation != nil && u.Invitation.Token.Matches(token) && s.cfg.Now().Before(u.Invitation.Expires) && !u.Disabled
}

func linkOver() *displayedError {
	return &displayedError{
		status: http.StatusBadRequest, code: codeInvalidRequest,
		title:   language.Say("error.link.title"),
		message: language.Say("error.link.message"),
		steps:   []language.Text{language.Say("error.link.used"), language.Say("error.link.ask")},
	}
}

// linkSession stands for the session of a person with a link in tokens and challenges: its secret is
// that of the link.
func linkSession(r *http.Request, s *Server) liveSession {
	return liveSession{secret: "link " + s.cookies.get(r, inviteCookie)}
}

func (s *Server) invitePage(w http.ResponseWriter, r *http.Request, user storage.User, status int, problem language.Text) error {
	page := templates.Invite{
		Action: s.cfg.Issuer + invitePath, CSRF: s.csrf(r, storage.Transaction{}, invitePath, linkSession(r, s)),
		UserName: user.Name, Password: !s.cfg.NoPasswords, Least: account.MinChosen, Problem: problem,
	}
	if s.linkMakesPasskey(user) {
		var err error
		if page.Prompt, err = s.enrolPrompt(w, r, page.Action, user, linkSession(r, s)); err != nil {
			return err
		}
	}
	w.WriteHeader(status)
	return s.pagesFor(r, s.path(invitePath)).Invite(w, page)
}

// linkMakesPasskey reports whether a link is enough to make a passkey. A passkey needs no second
// factor, so a link would lead around one that the operator has left.
func (s *Server) linkMakesPasskey(u storage.User) bool {
	return s.party != nil && (u.SecondFactor == nil || s.cfg.NoPasswords)
}

// acceptInvite handles POST /invite: the person chooses a password or makes a passkey. Of several
// answers to one link exactly one counts, because it is part of the person's record.
func (s *Server) acceptInvite(w http.ResponseWriter, r *http.Request) error {
	f, err := acceptForm.body(w, r)
	if err != nil {
		return err
	}
	token := s.cookies.get(r, inviteCookie)
	user, err := s.invited(r, token)
	if err != nil {
		return err
	}
	if !hmac.Equal([]byte(f.get("csrf")), []byte(s.csrf(r, storage.Transaction{}, invitePath, linkSession(r, s)))) {
		return foreignForm()
	}
	by := signInMethod{name: methodPassword}
	switch f.get("do") {
	case "password":
		user, err = s.invitedPassword(r, user, token, f.get("new"))
	case "add":
		by.name = methodPasskey
		user, err = s.invitedPasskey(r, user, token, []byte(f.get("credential")))
	default:
		return invalidRequest("do must be password or add")
	}
	if problem := s.mendable(r, user.Name, err); !problem.IsZero() {
		return s.invitePage(w, r, user, http.StatusBadRequest, problem)
	}
	if err != nil {
		return err
	}
	s.cookies.end(w, inviteCookie)
	s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "one-time link used", "user", user.Name, "sub", user.Subject, "method", by.name)
	used := linkUsed(user, by)
	s.happened(r.Context(), fact{kind: audit.PersonChanged, person: user.Subject, shown: used.What, about: used.About})
	if by.name == methodPassword && user.SecondFactor != nil {
		return s.beginSignIn(w, r, accountPath, true) // the link stands for the password only
	}
	return s.enter(w, r, storage.Transaction{Return: accountPath}, user, by)
}

// takeLink ends a link and the person's sessions in the record that is about to be written.
func (s *Server) takeLink(u *storage.User, subject, token string) error {
	if u.Subject != subject || !s.opens(*u, token) {
		return linkOver()
	}
	u.Invitation = nil
	u.SessionEpoch++
	return nil
}

func (s *Server) invitedPassword(r *http.Request, user storage.User, token, password string) (storage.User, error) {
	if s.cfg.NoPasswords {
		return user, noPasswords()
	}
	if problem := passwordProblem(password); !problem.IsZero() {
		return user, &formProblem{problem}
	}
	hash, err := s.hashChosen(r, password)
	if err != nil {
		return user, err
	}
	changed, err := s.changePerson(r.Context(), user.Name, func(u *storage.User) error {
		u.Password = hash
		return s.takeLink(u, user.Subject, token)
	})
	if err != nil {
		return user, err
	}
	return changed, nil
}

func (s *Server) invitedPasskey(r *http.Request, user storage.User, token string, answer []byte) (storage.User, error) {
	if !s.linkMakesPasskey(user) {
		return user, foreignForm()
	}
	challenge := passkey.CreationChallenge(answer)
	if !s.ownChallenge(r, storage.Transaction{}, purposeEnrol, linkSession(r, s), challenge) {
		return user, &passkey.Refused{Reason: "the challenge is not of this page"}
	}
	changed, err := s.enrol(r.Context(), user, challenge, answer, func(u *storage.User) error {
		if !s.linkMakesPasskey(*u) {
			return linkOver()
		}
		return s.takeLink(u, user.Subject, token)
	})
	if err != nil {
		return user, err
	}
	return changed, nil
}

// linkUsed is what a person sees of a one-time link: what was made with it.
func linkUsed(user storage.User, by signInMethod) storage.Event {
	if by.name == methodPasskey && len(user.Passkeys) > 0 {
		return storage.Event{What: eventPasskeyAdded, About: user.Passkeys[len(user.Passkeys)-1].Name}
	}
	return storage.Event{What: eventPasswordChanged}
}
