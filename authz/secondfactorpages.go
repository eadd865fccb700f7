package authz

import (
	"encoding/base64"
	"errors"
	"net/http"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/authz/internal/secondfactor"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// setupPurpose seals the secret of a second factor in the page that sets it up.
const setupPurpose = "second factor to set up"

// setupID binds such a secret to a person and a session.
func setupID(session liveSession) string { return session.Subject + " " + session.Session.ID() }

// showSecondFactor handles GET /account/second-factor.
func (s *Server) showSecondFactor(w http.ResponseWriter, r *http.Request) error {
	session, ok, err := s.signedInHere(w, r, secondFactorPath)
	if err != nil || !ok {
		return err
	}
	if session.person.SecondFactor == nil {
		secret, err := secondfactor.NewSecret(s.cfg.Rand)
		if err != nil {
			return err
		}
		return s.setupPage(w, r, session, secret, http.StatusOK, language.Text{})
	}
	return s.pagesFor(r, s.path(secondFactorPath)).SecondFactor(w, templates.SecondFactor{
		Action: s.cfg.Issuer + secondFactorPath, CSRF: s.csrf(r, storage.Transaction{}, secondFactorPath, session), Back: s.cfg.Issuer + accountPath,
		Set: true, Created: session.person.SecondFactor.Created, Left: len(session.person.SecondFactor.Recovery),
	})
}

// setupPage shows a secret for an app. The page carries it, sealed, so nothing is stored before the
// person has shown that the app has it.
func (s *Server) setupPage(w http.ResponseWriter, r *http.Request, session liveSession, secret []byte, status int, problem language.Text) error {
	if err := s.mayHaveFactor(session.person); err != nil {
		return err
	}
	sealed, err := s.cfg.Store.Seal(setupPurpose, setupID(session), secret)
	if err != nil {
		return err
	}
	uri := secondfactor.URI(s.urls.base.Host, session.UserName, secret)
	picture, err := secondfactor.Draw(uri)
	if err != nil {
		return err
	}
	w.WriteHeader(status)
	return s.pagesFor(r, s.path(secondFactorPath)).SecondFactor(w, templates.SecondFactor{
		Action: s.cfg.Issuer + secondFactorPath, CSRF: s.csrf(r, storage.Transaction{}, secondFactorPath, session), Back: s.cfg.Issuer + accountPath,
		Setup: base64.RawURLEncoding.EncodeToString(sealed), Secret: secondfactor.Text(secret), URI: uri, Picture: picture.Path, Size: picture.Size, Problem: problem,
	})
}

// mayHaveFactor refuses a second factor where there is no first one.
func (s *Server) mayHaveFactor(u storage.User) error {
	if u.Password != "" && !s.cfg.NoPasswords {
		return nil
	}
	return &displayedError{
		status: http.StatusBadRequest, code: codeInvalidRequest,
		title:   language.Say("error.noFirst.title"),
		message: language.Say("error.noFirst.message"),
		steps:   []language.Text{language.Say("error.noFirst.step")},
	}
}

// changeSecondFactor handles POST /account/second-factor.
func (s *Server) changeSecondFactor(w http.ResponseWriter, r *http.Request) error {
	f, session, ok, err := s.selfForm(w, r, secondFactorForm, secondFactorPath)
	if err != nil || !ok {
		return err
	}
	switch f.get("do") {
	case "add":
		return s.addFactor(w, r, session, f.get("setup"), f.get("code"))
	case "recovery":
		return s.renewRecovery(w, r, session)
	case "remove":
		return s.removeFactor(w, r, session)
	}
	return invalidRequest("do must be add, recovery or remove")
}

// addFactor stores the second factor once the person has entered a code of it, and shows the
// recovery codes.
func (s *Server) addFactor(w http.ResponseWriter, r *http.Request, session liveSession, setup, code string) error {
	if err := s.mayHaveFactor(session.person); err != nil {
		return err
	}
	sealed, err := base64.RawURLEncoding.DecodeString(setup)
	if err != nil {
		return foreignForm()
	}
	secret, err := s.cfg.Store.Open(setupPurpose, setupID(session), sealed)
	if err != nil {
		return foreignForm()
	}
	step, ok := secondfactor.Accept(secret, code, s.cfg.Now(), 0)
	if !ok {
		return s.setupPage(w, r, session, secret, http.StatusBadRequest, language.Say("factor.wrong"))
	}
	codes, hashes, err := s.newRecovery()
	if err != nil {
		return err
	}
	kept, err := s.cfg.Store.SealFactor(session.UserName, secret)
	if err != nil {
		return err
	}
	user, err := s.changeSignIn(w, r, session, func(u *storage.User) error {
		if u.SecondFactor != nil {
			return errHasFactor
		}
		u.SecondFactor = &storage.SecondFactor{Secret: kept, LastStep: step, Recovery: hashes, Created: s.cfg.Now().UTC().Truncate(time.Second)}
		return nil
	})
	return s.afterFactor(w, r, user, factorSetUp, codes, err)
}

// errHasFactor means that there is a second factor already, errNoFactor that there is none.
var (
	errHasFactor = errors.New("authz: there is a second factor already")
	errNoFactor  = errors.New("authz: there is no second factor")
)

func (s *Server) renewRecovery(w http.ResponseWriter, r *http.Request, session liveSession) error {
	codes, hashes, err := s.newRecovery()
	if err != nil {
		return err
	}
	user, err := s.changeSignIn(w, r, session, func(u *storage.User) error {
		if u.SecondFactor == nil {
			return errNoFactor
		}
		factor := *u.SecondFactor
		factor.Recovery = hashes
		u.SecondFactor = &factor
		return nil
	})
	return s.afterFactor(w, r, user, factorRenewed, codes, err)
}

func (s *Server) removeFactor(w http.ResponseWriter, r *http.Request, session liveSession) error {
	user, err := s.changeSignIn(w, r, session, func(u *storage.User) error {
		if u.SecondFactor == nil {
			return errNoFactor
		}
		u.SecondFactor = nil
		return nil
	})
	return s.afterFactor(w, r, user, factorRemoved, nil, err)
}

// What the log says of changes that the person sees too.
const (
	factorSetUp   = "second factor set up"
	factorRemoved = "second factor removed"
	factorRenewed = "recovery codes renewed"
)

// afterFactor shows new recovery codes after a change, or the page as it is now. A change that another window made before leads to that page too.
func (s *Server) afterFactor(w http.ResponseWriter, r *http.Request, user storage.User, done string, codes []string, err error) error {
	if errors.Is(err, errHasFactor) || errors.Is(err, errNoFactor) {
		seeOther(w, s.cfg.Issuer+secondFactorPath)
		return nil
	}
	if err != nil {
		return err
	}
	s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), done, "user", user.Name, "sub", user.Subject)
	what := map[string]string{factorSetUp: eventFactorOn, factorRemoved: eventFactorOff, factorRenewed: eventRecoveryCodesRenewed}[done]
	s.happened(r.Context(), fact{kind: audit.PersonChanged, person: user.Subject, shown: what})
	if len(codes) == 0 {
		seeOther(w, s.cfg.Issuer+secondFactorPath)
		return nil
	}
	return s.pagesFor(r, "").RecoveryCodes(w, templates.RecoveryCodes{Codes: codes, Back: s.cfg.Issuer + secondFactorPath})
}

// newRecovery returns new recovery codes and what is stored of them.
func (s *Server) newRecovery() (codes []string, hashes []storage.SecretHash, err error) {
	if codes, err = secondfactor.NewRecoveryCodes(s.cfg.Rand); err != nil {
		return nil, nil, err
	}
	for _, code := range codes {
		hashes = append(hashes, storage.HashSecret(secondfactor.CanonicalRecovery(code)))
	}
	return codes, hashes, nil
}
