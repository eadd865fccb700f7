package authz

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"gatehouse.example/authz/internal/engine"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

func contains(list []string, s string) bool { return slices.Contains(list, s) }

// showConsent handles GET /consent: it shows the signed-in person the client, the host of its
// redirect URI, the resources and every scope, and asks for a decision (requirement
// R-SEC-6).
func (s *Server) showConsent(w http.ResponseWriter, r *http.Request) error {
	f, err := pageForm.parse(r.URL.RawQuery)
	if err != nil {
		return malformed(err.Error())
	}
	t, session, err := s.visit(r, f)
	if err != nil {
		return err
	}
	if t.ClientID == "" {
		return gone() // a sign-in without a client asks for nothing
	}
	if !session.satisfies(t) {
		seeOther(w, s.urls.login+"?transaction="+t.ID)
		return nil
	}
	return s.consentPage(w, r, s.resources.take(r.Context()), t, session, http.StatusOK, language.Text{})
}

func (s *Server) consentPage(w http.ResponseWriter, r *http.Request, set *resourceSet, t storage.Transaction, session liveSession, status int, problem language.Text) error {
	client, to, err := s.clientAndRedirect(r, t)
	if err != nil {
		return err
	}
	offered, err := s.offered(r.Context(), set, t, session.person)
	if err != nil {
		return err
	}
	if len(offered) == 0 {
		return s.closedPage(w, r, set, t, session)
	}
	shown := s.shownClient(client)
	shown.Logo = s.logoPath(r.Context(), client, t)
	w.WriteHeader(status)
	return s.pagesFor(r, s.path("/consent")+"?transaction="+t.ID).Consent(w, templates.Consent{
		Action: s.urls.consent, Transaction: t.ID, CSRF: s.csrf(r, t, "consent", session),
		Client: shown, RedirectHost: to.uri.Host(), LoopbackRedirect: loopback(to), PrivateUseRedirect: privateUse(to),
		Groups: set.groups(offered), Offline: refreshable(client),
		UserName: session.UserName, Account: s.account(r, session), Problem: problem,
	})
}

func refreshable(c storage.Client) bool {
	return contains(c.Metadata.GrantTypes, metadata.GrantRefreshToken)
}

// consent handles POST /consent: the person's decision. It ends the transaction, so that
// exactly one of two answers to one page counts.
func (s *Server) consent(w http.ResponseWriter, r *http.Request) error {
	f, err := consentForm.body(w, r)
	if err != nil {
		return err
	}
	t, session, err := s.visit(r, f)
	if err != nil {
		return err
	}
	if t.ClientID == "" {
		return gone()
	}
	if !session.satisfies(t) {
		seeOther(w, s.urls.login+"?transaction="+t.ID)
		return nil
	}
	if err := s.checkCSRF(r, t, "consent", session, f.get("csrf")); err != nil {
		return err
	}
	switch f.get("decision") {
	case "allow":
		return s.allow(w, r, s.resources.take(r.Context()), t, session, f.all("scope"))
	case "deny":
		return s.deny(w, r, t)
	}
	return invalidRequest("the decision must be allow or deny")
}

func (s *Server) deny(w http.ResponseWriter, r *http.Request, t storage.Transaction) error {
	_, to, err := s.clientAndRedirect(r, t)
	if err != nil {
		return err
	}
	if err := s.endTransaction(w, r, t); err != nil {
		return err
	}
	e := to.refuse(codeAccessDenied, "the person declined")
	e.acted = true
	return e
}

// allow stores the grant and sends its code to the client. It stores the ticked part of the
// same value that the page showed, so a permission that was not on the page cannot be
// granted.
func (s *Server) allow(w http.ResponseWriter, r *http.Request, set *resourceSet, t storage.Transaction, session liveSession, ticked []string) error {
	client, to, err := s.clientAndRedirect(r, t)
	if err != nil {
		return err
	}
	allowed, problem, err := s.chosen(r.Context(), set, t, session.person, ticked)
	if err != nil {
		return err
	}
	if !problem.IsZero() {
		return s.consentPage(w, r, set, t, session, http.StatusBadRequest, problem)
	}
	grant, code, err := s.cfg.Store.PrepareGrant(storage.NewGrant{
		ClientID: client.ID, Subject: session.Subject, UserName: session.UserName, AuthTime: session.AuthTime,
		Access: allowed, Resources: allowed.Resources(), Scopes: set.tokenScopes(allowed),
		RedirectURI: t.RedirectURI, Challenge: t.Challenge, Refreshable: refreshable(client), CodeTTL: s.cfg.CodeTTL,
	})
	if err != nil {
		return err
	}
	if err := s.recordUse(r.Context(), client); err != nil {
		return err
	}
	if err := s.endTransaction(w, r, t); err != nil {
		return err
	}
	err = s.engine.IssueCode(r.Context(), engine.Authorization{Client: client, Grant: grant, Code: code})
	if errors.Is(err, storage.ErrConflict) {
		return gone() // the person's grants were revoked while this one was stored
	}
	if errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrRecord) {
		return unrecorded(err)
	}
	if err != nil {
		return err
	}
	if err := s.recheck(r.Context(), session, client, grant); err != nil {
		return err
	}
	s.chores.grantCreated(grant)
	s.rememberHolder(set, grant, session.person)
	s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "consent given", "sub", session.Subject, "client", client.ID, "grant", grant.ID, "access", allowed.String())
	s.send(w, to, url.Values{"code": {code}})
	return nil
}

// unrecorded returns the page for a decision to allow that could not be stored because the
// store stopped answering. The consent page cannot be shown again: the transaction is over.
func unrecorded(cause error) *displayedError {
	return &displayedError{
		status: http.StatusServiceUnavailable, code: codeUnavailable, cause: cause,
		title:   language.Say("error.unrecorded.title"),
		message: language.Say("error.unrecorded.message"),
		steps:   []language.Text{language.Say("error.unrecorded.again")},
	}
}

// endTransaction ends the transaction, before anything is granted. A second answer gets the
// page for an expired transaction.
func (s *Server) endTransaction(w http.ResponseWriter, r *http.Request, t storage.Transaction) error {
	err := s.cfg.Store.TakeTransaction(r.Context(), t)
	if errors.Is(err, storage.ErrNotFound) {
		return gone()
	}
	if err == nil {
		s.dropCookie(w, r, s.cookies.name(keptCookie+t.ID))
	}
	return err
}

// recheck reads the person and the client again after the grant is stored. It reads both at
// the same time, because the person is waiting.
func (s *Server) recheck(ctx context.Context, session liveSession, client storage.Client, grant storage.Grant) error {
	known := make(chan error, 1)
	go func() { known <- s.recheckClient(ctx, client, grant) }()
	err := s.recheckPerson(ctx, session, grant)
	return cmp.Or(err, <-known)
}

// recheckPerson reads the person again after the grant is stored, and revokes the grant if
// the person may not sign in any more. Disabling or removing a person first changes the
// record and then revokes the grants in the person's list, so it can miss a grant that is
// stored in between.
func (s *Server) recheckPerson(ctx context.Context, session liveSession, grant storage.Grant) error {
	user, err := s.cfg.Store.User(ctx, session.UserName)
	if err == nil && sessionValid(user, session.Session) {
		return nil
	}
	if revokeErr := s.cfg.Store.Revoke(ctx, grant.ID, "the person was disabled, or given another password, while consenting"); revokeErr != nil {
		return revokeErr
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return gone()
}

// recordUse records that the client is used. This must happen before the client has a grant:
// a client that seems unused may be removed at any time.
func (s *Server) recordUse(ctx context.Context, client storage.Client) error {
	rest, err := s.clients.Use(ctx, client)
	if errors.Is(err, storage.ErrNotFound) {
		return unknownClient(err)
	}
	s.chores.deferWork(rest)
	return err
}

// recheckClient reads the client again after the grant is stored, for the same reason as
// recheckPerson: disabling or removing a client changes its record first.
func (s *Server) recheckClient(ctx context.Context, client storage.Client, grant storage.Grant) error {
	_, err := s.requestingClient(ctx, client.ID)
	if err == nil {
		return nil
	}
	if revokeErr := s.cfg.Store.Revoke(ctx, grant.ID, "the client was removed or disabled at its consent"); revokeErr != nil {
		return revokeErr
	}
	return err
}
