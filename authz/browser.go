package authz

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/internal/shorthmac"
	"gatehouse.example/storage"
	"gatehouse.example/templates/language"
)

// browserTTL is how long a browser keeps the cookie that binds its transactions.
const browserTTL = 12 * time.Hour

// cookies names and makes this server's cookies. Over https they are Secure and have the
// prefix __Host-, so that no sibling domain can set them (RFC 6265bis section 4.1.3.2). That
// prefix requires the path /, and cookies do not distinguish ports, so the names contain a
// part of the issuer's hash: issuers on one host with different paths or ports do not read
// each other's cookies.
type cookies struct {
	secure bool
	issuer string
	names  map[string]string // of the cookies that most requests are asked for
}

func cookiesOf(issuer *url.URL) cookies {
	sum := sha256.Sum256([]byte(issuer.String()))
	c := cookies{secure: issuer.Scheme == "https", issuer: hex.EncodeToString(sum[:6])}
	names := map[string]string{}
	for _, base := range []string{browserCookie, sessionCookie, languageCookie} {
		names[base] = c.name(base)
	}
	c.names = names
	return c
}

const (
	browserCookie = "authz_browser" // binds transactions to the browser
	sessionCookie = "authz_session" // identifies the session
)

func (c cookies) name(base string) string {
	if known, ok := c.names[base]; ok {
		return known
	}
	if c.secure {
		return "__Host-" + base + "_" + c.issuer
	}
	return base + "_" + c.issuer
}

func (c cookies) set(w http.ResponseWriter, base, value string, maxAge time.Duration) {
	setCookie(w, c.name(base), value, int(maxAge.Seconds()), c.secure)
}

// end removes a cookie from the browser.
func (c cookies) end(w http.ResponseWriter, base string) {
	setCookie(w, c.name(base), "", 0, c.secure)
}

// get returns the value of a cookie, and "" if there are two of one name: then a third party
// set one of them.
func (c cookies) get(r *http.Request, base string) string {
	value := onlyCookie(r, c.name(base))
	if len(value) > 128 {
		return ""
	}
	return value
}

const (
	browserPrefix = "gate_br_"
	sessionPrefix = "gate_se_"
)

// browser returns the secret of this browser, and sets a new one if it has none.
func (s *Server) browser(w http.ResponseWriter, r *http.Request) (string, error) {
	secret := s.cookies.get(r, browserCookie)
	if !strings.HasPrefix(secret, browserPrefix) || len(secret) != len(browserPrefix)+43 {
		var err error
		if secret, err = s.cfg.Store.NewSecret(browserPrefix); err != nil {
			return "", err
		}
	}
	// Set each time, so that the cookie never ends before the transaction does.
	s.cookies.set(w, browserCookie, secret, browserTTL)
	return secret, nil
}

// liveSession is a session whose person may still sign in. The zero value means that no
// person is signed in.
type liveSession struct {
	storage.Session
	secret string
	person storage.User
	// consent is what the person decided about the client of the request. It is zero where
	// there is no client, or no decision.
	consent storage.Consent
}

// sessionValid reports whether a session still belongs to the person's current record, which is
// zero if there is none. What counts in [storage.User.SessionEpoch], such as a change of the password,
// ends the sessions that began before it.
func sessionValid(user storage.User, session storage.Session) bool {
	return user.Subject != "" && !user.Disabled && user.Subject == session.Subject && user.SessionEpoch == session.Epoch
}

// satisfies reports whether the session is sufficient for a transaction, without another
// sign-in. One that began after the request always is: whoever signs in for it decides who it is.
func (l liveSession) satisfies(t storage.Transaction) bool {
	switch {
	case l.secret == "":
		return false
	case !l.AuthTime.Before(t.Created):
		return true
	case t.ForceLogin:
		return false
	case t.MaxAge != nil && t.Created.Sub(l.AuthTime) > time.Duration(*t.MaxAge)*time.Second:
		return false // OpenID Connect Core section 3.1.2.1: the person MUST be asked to sign in again
	}
	// At a provider the person may have signed in before the request, and came from there for it.
	return !l.Begun.Before(t.Created) || !l.isAnother(t.LoginHint)
}

// methodPassword and the other constants are the values of [storage.Session.Method].
const (
	methodPassword = "password"
	methodPasskey  = "passkey"
	methodProvider = "provider"
)

// signInMethod is how a person has signed in. The provider, the account and the session there are
// empty for a sign-in at this server, and so is the alias of the account. at is when the person signed
// in at the provider, zero for now; began is when the sign-in there began.
type signInMethod struct {
	name, provider, providerSubject, providerSession string
	alias                                            storage.AliasID
	at, began                                        time.Time
}

// time returns when the person authenticated, by the clock of this server.
func (m signInMethod) time(now time.Time) time.Time {
	if m.at.IsZero() || m.at.After(now) {
		return now
	}
	return m.at
}

// shown returns the provider, or the method of a sign-in at this server.
func (m signInMethod) shown() string { return cmp.Or(m.provider, m.name) }

// startSession signs a person in. The session has a new secret, so that a secret planted in
// the browser before the sign-in is worthless. The previous session of the browser ends.
func (s *Server) startSession(w http.ResponseWriter, r *http.Request, user storage.User, by signInMethod) error {
	secret, err := s.cfg.Store.NewSecret(sessionPrefix)
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	expires := now.Add(s.cfg.SessionMax)
	err = s.cfg.Store.CreateSession(r.Context(), secret, storage.Session{
		UserName: user.Name, Subject: user.Subject, Epoch: user.SessionEpoch,
		AuthTime: by.time(now), Begun: now, Seen: now, IdleExpires: s.idleEnd(now, expires), Expires: expires,
		Method: by.name, Provider: by.provider, ProviderSubject: by.providerSubject, ProviderSession: by.providerSession,
		Browser: describeBrowser(r.UserAgent()), From: shownNetwork(r.Context()),
	})
	if err != nil {
		return err
	}
	if err := s.joinProviderSession(r.Context(), secret, by, expires); err != nil {
		return err
	}
	if err := s.stillConnected(r.Context(), secret, by, user); err != nil {
		return err
	}
	if err := s.endReplaced(r, user); err != nil {
		return err
	}
	s.cookies.set(w, sessionCookie, secret, s.cfg.SessionMax)
	s.holders.put(storage.SessionID(secret), holder{user.Name, user.Subject})
	s.chores.deferWork(func(ctx context.Context) error { return s.cfg.Store.TidySessions(ctx, user.Subject) })
	s.happened(r.Context(), fact{kind: audit.SignedIn, person: user.Subject, how: by.name, provider: by.provider, shown: eventSignedIn, about: by.shown()})
	return nil
}

// howReplaced is how a session ended when somebody else signed in with its browser.
const howReplaced = "replaced"

// endReplaced ends the session that a browser had before somebody signed in with it. If another person was
// signed in with it, the audit trail says that they are signed out.
func (s *Server) endReplaced(r *http.Request, by storage.User) error {
	secret := s.cookies.get(r, sessionCookie)
	if !strings.HasPrefix(secret, sessionPrefix) {
		return nil
	}
	was, err := s.cfg.Store.Session(r.Context(), secret)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	another := err == nil && was.Subject != by.Subject && !s.over(was)
	if another {
		var user storage.User // zero if they were removed
		user, err = s.cfg.Store.User(r.Context(), was.UserName)
		another = sessionValid(user, was)
	}
	if err != nil && !errors.Is(err, storage.ErrRecord) && !errors.Is(err, storage.ErrNotFound) { // what cannot be read ends too
		return err
	}
	if err := s.cfg.Store.DeleteSession(r.Context(), secret); err != nil {
		return err
	}
	if another {
		s.happened(r.Context(), fact{kind: audit.SignedOut, person: was.Subject, how: howReplaced})
	}
	return nil
}

// goneOn returns the page of gone for one kind of error, and every other error unchanged.
func goneOn(err, kind error) error {
	if errors.Is(err, kind) {
		return gone()
	}
	return err
}

func gone() *displayedError {
	return &displayedError{
		status: http.StatusBadRequest, code: codeInvalidRequest,
		title:   language.Say("error.gone.title"),
		message: language.Say("error.gone.message"),
		steps:   []language.Text{language.Say("step.connectAgain")},
	}
}

// csrf returns the token of a form. It is bound to the browser, the transaction, the session
// and the purpose of the form, so it needs no storage and is not valid in any other form.
func (s *Server) csrf(r *http.Request, t storage.Transaction, form string, session liveSession) string {
	bound := make([]byte, 0, 128)
	for _, part := range [...]string{form, t.ID, session.secret} {
		bound = append(append(bound, part...), 0)
	}
	mac := shorthmac.SHA256([]byte(s.cookies.get(r, browserCookie)), bound)
	return string(base64.RawURLEncoding.AppendEncode(make([]byte, 0, 64), mac[:]))
}

// checkCSRF refuses a form that was not made for this browser, transaction and session.
func (s *Server) checkCSRF(r *http.Request, t storage.Transaction, form string, session liveSession, token string) error {
	if hmac.Equal([]byte(token), []byte(s.csrf(r, t, form, session))) {
		return nil
	}
	return foreignForm()
}

func foreignForm() *displayedError {
	return &displayedError{
		status: http.StatusForbidden, code: codeInvalidRequest,
		title:   language.Say("error.foreignForm.title"),
		message: language.Say("error.foreignForm.message"),
		steps:   []language.Text{language.Say("step.connectAgain")},
	}
}
