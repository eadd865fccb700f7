package authz

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"

	"gatehouse.example/audit"
	"gatehouse.example/dcr"
	"gatehouse.example/internal/fair"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// showLogin handles GET /login: the sign-in form of a transaction.
func (s *Server) showLogin(w http.ResponseWriter, r *http.Request) error {
	f, err := pageForm.parse(r.URL.RawQuery)
	if err != nil {
		return malformed(err.Error())
	}
	v, err := s.visit(r, f.get("transaction"))
	if err != nil {
		return err
	}
	session, err := v.live(r.Context())
	if err != nil {
		return err
	}
	if session.satisfies(v.t) {
		s.afterSignIn(w, v.t)
		return nil
	}
	return s.loginPage(w, r, v, http.StatusOK, v.t.LoginHint, language.Text{})
}

func (s *Server) loginPage(w http.ResponseWriter, r *http.Request, v *visit, status int, userName string, problem language.Text) error {
	session, err := v.live(r.Context())
	if err != nil {
		return err
	}
	t := v.t
	prompt, err := s.signInPrompt(w, r, t)
	if err != nil {
		return err
	}
	page := templates.Login{
		Action: s.urls.login, Transaction: t.ID, CSRF: s.csrf(r, t, "login", liveSession{}),
		UserName: userName, Account: s.account(r, session), Problem: problem,
		Passkey: prompt, WithoutPassword: s.cfg.NoPasswords,
	}
	if t.ClientID != "" {
		client, to, err := v.clientAndRedirect(w, r)
		if err != nil {
			return err
		}
		page.Client, page.RedirectHost, page.Resources = s.shownClient(client), to.uri.Host(), s.resources.take(r.Context()).shown(t)
	}
	page.WithoutClient = t.ClientID == ""
	page.Providers = s.providers.shown()
	w.WriteHeader(status)
	return s.pagesFor(r, s.path("/login")+"?transaction="+t.ID).Login(w, page)
}

// clientAndRedirect returns the client of a transaction and its redirect URI. Both are looked
// up and matched again. If the client's metadata has changed since the authorization request,
// the client must send a new one: the person decides on what the page shows. Another process may
// have read a newer document than this one, or an older one: the browser keeps that it must be read again.
func (v *visit) clientAndRedirect(w http.ResponseWriter, r *http.Request) (storage.Client, proven, error) {
	ctx := r.Context()
	client, err := v.requestingClient(ctx)
	t := v.t
	if err == nil && t.ClientDigest != dcr.Digest(client) {
		client, err = v.s.requestedAnew(ctx, client)
	}
	if err != nil {
		return storage.Client{}, proven{}, err
	}
	if t.ClientDigest != dcr.Digest(client) {
		if client.Source == storage.ClientDocument {
			v.s.cookies.set(w, changedCookie, "1", transactionTTL)
		}
		return storage.Client{}, proven{}, changed()
	}
	to, err := v.s.prove(client, t.RedirectURI, t.State)
	if err != nil {
		return storage.Client{}, proven{}, unprovenRedirect(client, t.RedirectURI, err)
	}
	return client, to, nil
}

func changed() *displayedError {
	return &displayedError{
		status: http.StatusBadRequest, code: codeInvalidRequest,
		title:   language.Say("error.changed.title"),
		message: language.Say("error.changed.message"),
		steps:   []language.Text{language.Say("step.connectAgain")},
	}
}

// login handles POST /login: it checks the password and starts a session.
func (s *Server) login(w http.ResponseWriter, r *http.Request) error {
	f, err := loginForm.body(w, r)
	if err != nil {
		return err
	}
	if f.get("provider") != "" {
		return s.chooseProvider(w, r, f)
	}
	if s.cfg.NoPasswords {
		return noPasswords()
	}
	if err := s.refuseEarly(r, f.get("username")); err != nil {
		return err
	}
	v, err := s.visit(r, f.get("transaction"))
	if err != nil {
		return err
	}
	if err := s.checkCSRF(r, v.t, "login", liveSession{}, f.get("csrf")); err != nil {
		return err
	}
	user, err := s.signIn(r, f.get("username"), f.get("password"))
	var refused *refusedSignIn
	if errors.As(err, &refused) {
		s.happened(r.Context(), fact{kind: audit.SignInRefused, person: refused.subject, how: methodPassword})
		s.cfg.Logger.InfoContext(r.Context(), "sign-in refused", s.loggedName(refused.userName, f.get("username")), "from", fair.Requester(r.Context()))
		return s.loginPage(w, r, v, http.StatusForbidden, f.get("username"), language.Say("login.wrong"))
	}
	if err != nil {
		return err
	}
	return s.passwordRight(w, r, v.t, user)
}

// passwordRight goes on after the right password. It is the only way from a password to a session:
// a person with a second factor is asked for it, and the transaction keeps whose password was right.
func (s *Server) passwordRight(w http.ResponseWriter, r *http.Request, t storage.Transaction, user storage.User) error {
	if user.SecondFactor == nil {
		return s.enter(w, r, t, user, signInMethod{name: methodPassword})
	}
	t.Pending = &storage.PendingSignIn{UserName: user.Name, Subject: user.Subject, Epoch: user.SessionEpoch, At: s.cfg.Now()}
	if err := s.rekeep(w, r, t); err != nil {
		return err
	}
	seeOther(w, s.urls.login+"/code?transaction="+t.ID)
	return nil
}

// enter starts the session of a person whose sign-in is complete, and goes on to the page for which
// the person signed in.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, t storage.Transaction, user storage.User, by signInMethod) error {
	if err := s.startSession(w, r, user, by); err != nil {
		return err
	}
	if err := s.rememberDevice(w, user); err != nil {
		return err
	}
	s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "signed in", "user", user.Name, "sub", user.Subject, "method", by.name)
	s.afterSignIn(w, t)
	return nil
}

func noPasswords() *displayedError {
	return &displayedError{
		status: http.StatusForbidden, code: codeAccessDenied,
		title:   language.Say("error.noPasswords.title"),
		message: language.Say("error.noPasswords.message"),
		steps:   []language.Text{language.Say("error.noPasswords.step")},
	}
}

// afterSignIn redirects to the page for which the person signed in.
func (s *Server) afterSignIn(w http.ResponseWriter, t storage.Transaction) {
	if t.ClientID == "" {
		seeOther(w, s.cfg.Issuer+t.Return)
		return
	}
	seeOther(w, s.urls.consent+"?transaction="+t.ID)
}

// loggedName returns the log attribute for the name in a failed sign-in. A name that belongs
// to no person may be a password in the wrong field, so the attribute is a keyed hash, which
// shows whether the same name was used before.
func (s *Server) loggedName(known, typed string) slog.Attr {
	if known != "" {
		return slog.String("user", known)
	}
	mac := hmac.New(sha256.New, s.logKey)
	mac.Write([]byte(typed))
	return slog.String("unknown_name_hash", hex.EncodeToString(mac.Sum(nil)[:8]))
}

// shownClient returns what pages show of a client: its name, whether the operator vouches for
// it, and the host of its metadata document, which the client cannot choose
// (draft-ietf-oauth-client-id-metadata-document section 8.5).
func (s *Server) shownClient(c storage.Client) templates.Client {
	return templates.Client{Name: c.Metadata.ClientName, Verified: s.clients.Vouched(c), Host: dcr.DocumentHost(c)}
}

// shown returns what the sign-in page shows of the resources of a transaction.
func (s *resourceSet) shown(t storage.Transaction) (shown []templates.Resource) {
	for _, p := range s.askedBy(t) {
		r, _ := s.find(p.Resource)
		shown = append(shown, templates.Resource{URI: r.URI, Name: r.Name})
	}
	return shown
}

func loopback(to proven) bool   { return to.uri.Kind == metadata.RedirectLoopback }
func privateUse(to proven) bool { return to.uri.Kind == metadata.RedirectPrivateUse }
