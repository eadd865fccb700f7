package authz

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"gatehouse.example/audit"
	"gatehouse.example/authz/internal/engine"
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
	v, err := s.visit(r, f.get("transaction"))
	if err != nil {
		return err
	}
	session, err := v.live(r.Context())
	if err != nil {
		return err
	}
	t := v.t
	if t.ClientID == "" {
		return gone() // a sign-in without a client asks for nothing
	}
	if !session.satisfies(t) {
		seeOther(w, s.urls.login+"?transaction="+t.ID)
		return nil
	}
	client, to, err := v.clientAndRedirect(w, r)
	if err != nil {
		return err
	}
	set := s.resources.take(r.Context())
	if done, err := s.grantUnasked(w, r, set, t, session, client, to); done || err != nil {
		return err
	}
	return s.consentPage(w, r, set, t, session, client, to, http.StatusOK, language.Text{}, true)
}

// consentPage shows what is asked for, each box ticked or none.
func (s *Server) consentPage(w http.ResponseWriter, r *http.Request, set *resourceSet, t storage.Transaction, session liveSession, client storage.Client, to proven, status int, problem language.Text, ticked bool) error {
	offered, err := s.offered(r.Context(), set, t, session.person)
	if err != nil {
		return err
	}
	if len(offered) == 0 {
		return s.closedPage(w, r, set, t, session, client, to)
	}
	shown := s.shownClient(client)
	shown.Logo = s.logoPath(r.Context(), client, t)
	approved := s.preApproved(client, offered)
	var memories []templates.Memory
	if !approved {
		memories = s.memories(t, client, to)
	}
	w.WriteHeader(status)
	return s.pagesFor(r, s.path("/consent")+"?transaction="+t.ID).Consent(w, templates.Consent{
		Action: s.urls.consent, Transaction: t.ID, CSRF: s.consentToken(r, t, session, shownOf(offered, approved)),
		Client: shown, RedirectHost: to.uri.Host(), LoopbackRedirect: loopback(to), PrivateUseRedirect: privateUse(to),
		Groups: set.groups(offered, ticked), Offline: refreshable(client), PreApproved: approved, Memories: memories,
		UserName: s.shownName(r, session), Account: s.account(r, session), Problem: problem,
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
	v, err := s.visit(r, f.get("transaction"))
	if err != nil {
		return err
	}
	session, err := v.live(r.Context())
	if err != nil {
		return err
	}
	t := v.t
	if t.ClientID == "" {
		return gone()
	}
	if !session.satisfies(t) {
		seeOther(w, s.urls.login+"?transaction="+t.ID)
		return nil
	}
	shown, err := s.answered(r, t, session, f)
	if err != nil {
		return err
	}
	switch f.get("decision") {
	case "allow":
		return s.allow(w, r, s.resources.take(r.Context()), v, session, shown, f)
	case "deny":
		return s.deny(w, r, v, session, shown == shownOf(nil, false))
	}
	return invalidRequest("the decision must be allow or deny")
}

// deny tells the client that the person declined. What was remembered about the client before is
// forgotten first. Who goes back from the closed page, which says that nothing is open to them, has
// declined nothing: what they remembered counts again when they may use it again.
func (s *Server) deny(w http.ResponseWriter, r *http.Request, v *visit, session liveSession, closed bool) error {
	client, to, err := v.clientAndRedirect(w, r)
	if err != nil {
		return err
	}
	if !closed && session.consent.ClientID != "" {
		if err := s.cfg.Store.DeleteConsent(r.Context(), session.Subject, client.ID); err != nil {
			return err
		}
	}
	if err := s.endTransaction(w, r, v.t); err != nil {
		return err
	}
	why := "what was asked for is not open to the person"
	if !closed {
		why = "the person declined"
		s.happened(r.Context(), fact{kind: audit.Denied, person: session.Subject, client: client.ID})
	}
	e := to.refuse(codeAccessDenied, "%s", why)
	e.acted = true
	return e
}

// decision is what a person allowed on a page, and whether that is remembered.
type decision struct {
	offered, allowed storage.Access
	remember         bool
	given            storage.Remembered
}

// decide reads a form to allow that answers a page. The problem is a sentence for the person.
func (s *Server) decide(ctx context.Context, set *resourceSet, t storage.Transaction, session liveSession, client storage.Client, to proven, shown string, f form) (d decision, problem language.Text, err error) {
	if d.offered, err = s.offered(ctx, set, t, session.person); err != nil {
		return d, language.Text{}, err
	}
	d.given = storage.Remembered{RedirectHost: destination(to), ClientDigest: t.ClientDigest, At: s.cfg.Now()}
	switch {
	case s.preApproved(client, d.offered) && shown == shownOf(d.offered, true):
		// The page asked nothing, it showed the account: that is remembered, and no access.
		d.allowed, d.remember = d.offered, true
		return d, language.Text{}, nil
	case shown != shownOf(d.offered, false): // boxes count, although all of it may be approved since
		return d, language.Say("consent.changed"), nil
	}
	if d.allowed, problem = choose(d.offered, f.all("scope")); !problem.IsZero() {
		return d, problem, nil
	}
	d.given.Access = d.allowed
	d.given.Until, d.remember, problem = s.remembering(f.get("remember"), t, client, to)
	return d, problem, nil
}

// allow stores the grant and sends its code to the client. It stores the ticked part of the
// same value that the page showed, so a permission that was not on the page cannot be
// granted.
func (s *Server) allow(w http.ResponseWriter, r *http.Request, set *resourceSet, v *visit, session liveSession, shown string, f form) error {
	client, to, err := v.clientAndRedirect(w, r)
	if err != nil {
		return err
	}
	t := v.t
	d, problem, err := s.decide(r.Context(), set, t, session, client, to, shown, f)
	switch {
	case err != nil:
		return err
	case !problem.IsZero():
		// Who unticked every box of this page finds it so again.
		ticked := shown != shownOf(d.offered, false) || len(f.all("scope")) > 0
		return s.consentPage(w, r, set, t, session, client, to, http.StatusBadRequest, problem, ticked)
	}
	if err := s.unremember(r.Context(), session, client, d.offered.Except(d.allowed)); err != nil {
		return err
	}
	grant, code, err := s.issue(w, r, set, t, session, client, d.allowed)
	if err != nil {
		return err
	}
	if err := s.recheck(r.Context(), session, client, grant, nil); err != nil {
		return err
	}
	if d.remember {
		s.remember(r.Context(), session, client, d.given, grant)
	}
	s.granted(r.Context(), set, consentGiven, session, client, grant)
	s.send(w, to, url.Values{"code": {code}})
	return nil
}

// issue stores a grant. It ends the transaction first, if anything keeps it.
func (s *Server) issue(w http.ResponseWriter, r *http.Request, set *resourceSet, t storage.Transaction, session liveSession, client storage.Client, allowed storage.Access) (_ storage.Grant, _ string, err error) {
	r, end := s.part(r, PartGrant)
	defer func() { end(err) }()
	grant, code, err := s.cfg.Store.PrepareGrant(storage.NewGrant{
		ClientID: client.ID, Subject: session.Subject, UserName: session.UserName, AuthTime: session.AuthTime,
		Access: allowed, Resources: allowed.Resources(), Scopes: set.tokenScopes(allowed),
		ClientName: client.Metadata.ClientName, From: shownNetwork(r.Context()), RedirectURI: t.RedirectURI, Challenge: t.Challenge, Refreshable: refreshable(client), CodeTTL: s.cfg.CodeTTL,
	})
	if err != nil {
		return grant, "", err
	}
	if err := s.recordUse(r.Context(), client); err != nil {
		return grant, "", err
	}
	if t.ID != "" {
		if err := s.endTransaction(w, r, t); err != nil {
			return grant, "", err
		}
	}
	err = s.engine.IssueCode(r.Context(), engine.Authorization{Client: client, Grant: grant, Code: code})
	if errors.Is(err, storage.ErrConflict) {
		return grant, "", gone() // the person's grants were revoked while this one was stored
	}
	if errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrRecord) {
		return grant, "", unrecorded(err)
	}
	return grant, code, err
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
