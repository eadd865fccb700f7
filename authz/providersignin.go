package authz

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// chooseProvider answers the button of a provider on the sign-in page. If a client asks for
// access, the person decides about it first, on a page of this server: nobody is sent to a
// provider, and no state for it exists, before that (guides of the protocol, Confused Deputy).
func (s *Server) chooseProvider(w http.ResponseWriter, r *http.Request, f form) error {
	p, err := s.providerIn(f.get("provider"))
	if err != nil {
		return err
	}
	v, err := s.visit(r, f.get("transaction"))
	if err != nil {
		return err
	}
	t := v.t
	decision := f.get("decision")
	page := "login"
	if decision != "" {
		page = decisionForm(p)
	}
	if err := s.checkCSRF(r, t, page, liveSession{}, f.get("csrf")); err != nil {
		return err
	}
	switch {
	case t.ClientID == "": // nothing to decide, so no page has the token for a decision
		return s.sendToProvider(w, r, t, p, nil)
	case decision == "":
		return s.decisionPage(w, r, v, p)
	}
	return s.decideOnProvider(w, r, v, p, decision)
}

// decideOnProvider takes the person's decision about the client, before they go to a provider.
func (s *Server) decideOnProvider(w http.ResponseWriter, r *http.Request, v *visit, p *provider, decision string) error {
	switch decision {
	case "deny":
		session, err := v.live(r.Context())
		if err != nil {
			return err
		}
		session.consent = storage.Consent{} // who decides here is not signed in for this request
		return s.deny(w, r, v, session, false)
	case "allow":
		if _, _, err := v.clientAndRedirect(w, r); err != nil {
			return err
		}
		return s.sendToProvider(w, r, v.t, p, nil)
	}
	return invalidRequest("the decision must be allow or deny")
}

// decisionForm is the purpose of the form on the page before a provider: the token of the sign-in
// page is not valid there, so that page cannot be skipped.
func decisionForm(p *provider) string { return "provider " + p.ID }

// decisionPage shows the client, where it returns to and what it wants to use, before the person
// goes to a provider.
func (s *Server) decisionPage(w http.ResponseWriter, r *http.Request, v *visit, p *provider) error {
	client, to, err := v.clientAndRedirect(w, r)
	if err != nil {
		return err
	}
	t := v.t
	shown := s.shownClient(client)
	shown.Logo = s.logoPath(r.Context(), client, t)
	return s.pagesFor(r, s.path("/login")+"?transaction="+t.ID).Provider(w, templates.BeforeProvider{
		Action: s.urls.login, Transaction: t.ID, CSRF: s.csrf(r, t, decisionForm(p), liveSession{}),
		Provider: templates.Provider{ID: p.ID, Name: p.Title()}, Client: shown, RedirectHost: to.uri.Host(),
		LoopbackRedirect: loopback(to), PrivateUseRedirect: privateUse(to), Resources: s.resources.take(r.Context()).shown(t),
	})
}

// sendToProvider begins a sign-in at a provider and sends the browser there. With a session the
// account at the provider is to be connected to the session's person.
func (s *Server) sendToProvider(w http.ResponseWriter, r *http.Request, t storage.Transaction, p *provider, session storage.SecretHash) error {
	if wait := s.unproven.Wait(1, s.attemptShare(r, p)...); wait > 0 {
		return tooManyAtProvider(p, wholeSeconds(wait))
	}
	secret, err := s.cfg.Store.NewSecret("")
	if err != nil {
		return err
	}
	attempt := upstream.NewAttempt(t.ID + "." + secret)
	t.Upstream = &storage.UpstreamAttempt{
		Provider: p.ID, State: storage.HashSecret(secret), Nonce: attempt.Nonce, Verifier: attempt.Verifier, Session: session, At: s.cfg.Now(),
		Groups: s.needsGroups(r.Context(), p.ID),
	}
	leave, err := p.enter(r.Context())
	if err != nil {
		return providerFault(p, err)
	}
	address, err := p.client.Begin(r.Context(), s.attemptOf(t, attempt.State))
	leave()
	if err != nil {
		return providerFault(p, err)
	}
	if err := s.rekeep(w, r, t); err != nil {
		return err
	}
	seeOther(w, address)
	return nil
}

// attemptOf returns the attempt of a transaction in the form of package upstream.
func (s *Server) attemptOf(t storage.Transaction, state string) upstream.Attempt {
	a := upstream.Attempt{
		State: state, Nonce: t.Upstream.Nonce, Verifier: t.Upstream.Verifier, Begun: t.Upstream.At,
		LoginHint: t.LoginHint, ForceLogin: t.ForceLogin, NeedGroups: t.Upstream.Groups,
	}
	if t.ClientID == "" && s.providers.byID[t.Upstream.Provider].Preset == upstream.GitHub {
		a.ForceLogin = false // it cannot be asked; for pages of this server coming back from there is enough
	}
	if t.MaxAge != nil {
		age := time.Duration(*t.MaxAge) * time.Second
		a.MaxAge = &age
	}
	return a
}

// attemptShare returns the buckets of the requester for sign-ins that come to nothing.
func (s *Server) attemptShare(r *http.Request, p *provider) []fair.Bucket {
	return fair.ByNetwork(fair.Requester(r.Context()), "sign-in at "+p.ID, unprovenSignIns)
}

// callback handles GET /login/PROVIDER/callback: the browser comes back from a provider.
func (s *Server) callback(w http.ResponseWriter, r *http.Request) error {
	p, err := s.providerIn(r.PathValue("provider"))
	if err != nil {
		return err
	}
	f, err := callbackForm.parse(r.URL.RawQuery)
	if err != nil {
		return malformed(err.Error())
	}
	if problem := f.problem(); problem != "" {
		return malformed(problem)
	}
	t, err := s.returning(r, p, f.get("state"))
	if err != nil {
		return err
	}
	// Counted before anything is stored for it: a state of one's own and a made-up code cost nothing.
	share := s.attemptShare(r, p)
	if wait := s.unproven.Take(1, share...); wait > 0 {
		return tooManyAtProvider(p, wholeSeconds(wait))
	}
	back, arrival, err := s.finish(w, r, p, t, f)
	if err == nil || errors.Is(err, storage.ErrUnavailable) {
		s.unproven.Return(1, share...)
	}
	if err != nil {
		return err
	}
	if len(back.connecting) > 0 {
		return s.connect(w, r, back, p, arrival)
	}
	return s.welcome(w, r, back, p, arrival)
}

// returned is a transaction whose browser came back from a provider. The attempt is taken out of
// it; connecting is the session to whose person the account is to be connected, began when the browser
// was sent there.
type returned struct {
	storage.Transaction
	connecting storage.SecretHash
	began      time.Time
}

// returning returns the transaction of a callback. A state that this browser did not begin at this
// provider, or whose transaction is over, is refused like one that was used: with a page that reveals
// nothing.
func (s *Server) returning(r *http.Request, p *provider, state string) (storage.Transaction, error) {
	id, secret, _ := strings.Cut(state, ".")
	t, err := s.transaction(r, id)
	if err != nil {
		return storage.Transaction{}, err
	}
	began := t.Upstream
	if began == nil || began.Provider != p.ID || !began.State.Matches(secret) {
		return storage.Transaction{}, gone()
	}
	return t, nil
}

// takeAttempt takes the attempt out of a transaction, once.
func (s *Server) takeAttempt(w http.ResponseWriter, r *http.Request, t storage.Transaction, state string) (returned, upstream.Attempt, error) {
	// The state is taken before its code is used: of two callbacks, in whichever processes, one
	// goes on. RFC 9700 section 4.7 and RFC 6749 section 10.12.
	err := s.cfg.Store.TakeOnce(r.Context(), "state at a provider", state, t.Upstream.At.Add(2*transactionTTL))
	if err != nil {
		return returned{}, upstream.Attempt{}, goneOn(err, storage.ErrConflict)
	}
	attempt, began := s.attemptOf(t, state), t.Upstream
	t.Upstream = nil
	if err := s.rekeep(w, r, t); err != nil {
		return returned{}, upstream.Attempt{}, err
	}
	return returned{t, began.Session, began.At}, attempt, nil
}

// finish takes the attempt of a callback and asks the provider who came.
func (s *Server) finish(w http.ResponseWriter, r *http.Request, p *provider, t storage.Transaction, f form) (_ returned, _ upstream.Arrival, err error) {
	r, end := s.part(r, PartProvider)
	defer func() { end(err) }()
	back, attempt, err := s.takeAttempt(w, r, t, f.get("state"))
	if err != nil {
		return returned{}, upstream.Arrival{}, err
	}
	leave, err := p.enter(r.Context())
	if err != nil {
		return returned{}, upstream.Arrival{}, providerFault(p, err)
	}
	defer leave()
	arrival, err := p.client.Finish(r.Context(), attempt, upstream.Callback{
		Code: f.get("code"), Issuer: f.get("iss"), Error: f.get("error"), ErrorDescription: f.get("error_description"),
	})
	if err != nil {
		return returned{}, upstream.Arrival{}, providerFault(p, err)
	}
	return back, arrival, nil
}

// shownName returns how pages call the person of a session. Somebody of a provider is shown by
// what is their own in the name, which tells them apart from others, and the provider's name.
func (s *Server) shownName(r *http.Request, session liveSession) string {
	id, own, ok := strings.Cut(session.UserName, "/")
	if !ok {
		return session.UserName
	}
	return s.languageOf(r).Plain(language.Say("provider.person", "name", own, "provider", s.titleOf(id)))
}
