package authz

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"gatehouse.example/audit"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// providersPath is the page on which a person connects and disconnects accounts at providers.
const providersPath = "/account/providers"

// showProviders handles GET /account/providers.
func (s *Server) showProviders(w http.ResponseWriter, r *http.Request) error {
	session, ok, err := s.signedIn(w, r, providersPath, recentSignIn)
	if err != nil || !ok {
		return err
	}
	page := templates.Connected{
		Action: s.cfg.Issuer + providersPath, CSRF: s.csrf(r, storage.Transaction{}, providersPath, session),
		Account: s.account(r, session), Providers: s.providers.shown(),
	}
	for _, identity := range session.person.Identities {
		page.Identities = append(page.Identities, templates.Identity{
			ID: string(aliasOf(identity)), Provider: s.titleOf(identity.Provider), Handle: identity.Handle,
			Removable: s.waysToSignIn(without(session.person, aliasOf(identity))) > 0, Former: s.providers.byID[identity.Provider] == nil,
		})
	}
	return s.pagesFor(r, s.path(providersPath)).Connected(w, page)
}

func aliasOf(i storage.Identity) storage.AliasID {
	return storage.IdentityAlias(i.Provider, i.Issuer, i.Subject)
}

// titleOf returns the name of a provider for people. One that is not configured any more keeps
// its id.
func (s *Server) titleOf(id string) string {
	if p := s.providers.byID[id]; p != nil {
		return p.Title()
	}
	return id
}

// changeProviders handles POST /account/providers: connect=PROVIDER or disconnect=IDENTITY.
func (s *Server) changeProviders(w http.ResponseWriter, r *http.Request) error {
	f, err := providersForm.body(w, r)
	if err != nil {
		return err
	}
	session, ok, err := s.signedIn(w, r, providersPath, recentSignIn)
	if err != nil || !ok {
		return err
	}
	if err := s.checkCSRF(r, storage.Transaction{}, providersPath, session, f.get("csrf")); err != nil {
		return err
	}
	switch {
	case f.get("connect") != "":
		return s.beginConnecting(w, r, f.get("connect"), session)
	case f.get("disconnect") != "":
		return s.disconnect(w, r, storage.AliasID(f.get("disconnect")), session)
	}
	return invalidRequest("name what to connect or disconnect")
}

// beginConnecting sends a signed-in person to a provider, to connect the account there to the
// account here.
func (s *Server) beginConnecting(w http.ResponseWriter, r *http.Request, id string, session liveSession) error {
	p, err := s.providerIn(id)
	if err != nil {
		return err
	}
	browser, err := s.browser(w, r)
	if err != nil {
		return err
	}
	if id, err = s.cfg.Store.NewID(); err != nil {
		return err
	}
	now := s.cfg.Now()
	t := storage.Transaction{
		ID: id, Browser: storage.HashSecret(browser), Return: providersPath, Created: now, Expires: now.Add(transactionTTL),
	}
	return s.sendToProvider(w, r, t, p, storage.HashSecret(session.secret))
}

// connect ends a sign-in at a provider that was begun to connect the account there: to the person
// who began it, if the same session is still live in this browser.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, t returned, p *provider, a upstream.Arrival) error {
	session, err := s.session(r)
	if err != nil {
		return err
	}
	if !t.connecting.Matches(session.secret) {
		return gone()
	}
	if err := s.admit(r.Context(), p, a); err != nil {
		return s.notWelcome(r, p, a, err)
	}
	user, err := s.addIdentity(r.Context(), p, a, session)
	if err != nil {
		return err
	}
	if err := s.keepProviderToken(r.Context(), p, a, user); err != nil {
		return err
	}
	s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "account at a provider connected", "user", user.Name, "sub", user.Subject, "provider", p.ID, "provider_sub", a.Subject)
	s.happened(r.Context(), fact{kind: audit.PersonChanged, person: user.Subject, provider: p.ID, shown: eventProviderConnected, about: p.ID})
	s.afterSignIn(w, t.Transaction)
	return nil
}

// addIdentity connects an identity to the person of a session. The alias comes first and is read
// again at the end, so that of two people who connect one account only one has it.
func (s *Server) addIdentity(ctx context.Context, p *provider, a upstream.Arrival, session liveSession) (storage.User, error) {
	id := storage.IdentityAlias(p.ID, a.Issuer, a.Subject)
	there, err := s.cfg.Store.UserOf(ctx, id)
	switch {
	case err == nil && there.Subject == session.Subject:
		return s.refreshIdentity(ctx, there, a)
	case err == nil:
		return storage.User{}, connectedElsewhere(p)
	case !errors.Is(err, storage.ErrNotFound):
		return storage.User{}, err
	}
	if err := s.claimAlias(ctx, p, id, session); err != nil {
		return storage.User{}, err
	}
	now := s.cfg.Now().UTC()
	user, err := s.changeSelf(ctx, session, func(u *storage.User) error {
		if !slices.Contains(u.Aliases(), id) {
			u.Identities = append(slices.Clone(u.Identities), storage.Identity{Provider: p.ID, Issuer: a.Issuer, Subject: a.Subject, Linked: now})
		}
		*u = stated(*u, a, now)
		return nil
	})
	if err != nil {
		return storage.User{}, err
	}
	leads, err := s.cfg.Store.UserOf(ctx, id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && leads.Subject != user.Subject {
		_, err := s.changeSelf(ctx, session, func(u *storage.User) error {
			*u = without(*u, id)
			return nil
		})
		return storage.User{}, errors.Join(connectedElsewhere(p), err)
	}
	return user, err
}

// claimAlias lets the alias of an identity that leads to nobody lead to the person of a session.
func (s *Server) claimAlias(ctx context.Context, p *provider, id storage.AliasID, session liveSession) error {
	alias, err := s.cfg.Store.Alias(ctx, id)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	err = s.takeAlias(ctx, id, alias, session.UserName, session.Subject)
	if errors.Is(err, storage.ErrConflict) {
		return connectedElsewhere(p)
	}
	return err
}

// without returns a person without an identity.
func without(user storage.User, id storage.AliasID) storage.User {
	user.Identities = slices.DeleteFunc(slices.Clone(user.Identities), func(i storage.Identity) bool { return aliasOf(i) == id })
	return user
}

// disconnect ends the connection to an account at a provider, unless it is the last way in which
// the person can sign in. Sessions that began with it end, at a second try if the store failed at the first.
func (s *Server) disconnect(w http.ResponseWriter, r *http.Request, id storage.AliasID, session liveSession) error {
	var removed storage.Identity
	var left *storage.User // who had disconnected it before
	alias, err := s.aliasBefore(r.Context(), id)
	if err != nil {
		return err
	}
	user, err := s.changeSelf(r.Context(), session, func(u *storage.User) error {
		at := slices.IndexFunc(u.Identities, func(i storage.Identity) bool { return aliasOf(i) == id })
		if at < 0 {
			left = u
			return gone()
		}
		removed = u.Identities[at]
		if *u = without(*u, id); s.waysToSignIn(*u) == 0 {
			return lastWay()
		}
		u.FullName, u.Email = "", "" // it may have stated them, and nobody vouches for them now
		return nil
	})
	if left != nil {
		return cmp.Or(s.endSessionsOfNone(r.Context(), *left, session.ID()), err)
	}
	if err != nil {
		return err
	}
	// The alias leads nowhere any more, now that the person does not list the identity.
	if err = s.endAlias(r.Context(), id, alias, user); err == nil {
		err = s.cfg.Store.DeleteProviderToken(r.Context(), id, user.Subject)
	}
	if err == nil {
		err = s.endSessionsOf(r.Context(), user, removed, session.ID())
	}
	if err != nil {
		return err
	}
	s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "account at a provider disconnected", "user", user.Name, "sub", user.Subject, "provider", removed.Provider, "provider_sub", removed.Subject)
	s.happened(r.Context(), fact{
		kind: audit.PersonChanged, person: user.Subject, provider: removed.Provider, shown: eventProviderDisconnected, about: removed.Provider,
	})
	seeOther(w, s.cfg.Issuer+providersPath)
	return nil
}

// aliasBefore returns an alias for endAlias, the zero value if there is none.
func (s *Server) aliasBefore(ctx context.Context, id storage.AliasID) (storage.Alias, error) {
	alias, err := s.cfg.Store.Alias(ctx, id)
	if errors.Is(err, storage.ErrNotFound) {
		return storage.Alias{}, nil
	}
	return alias, err
}

// endAlias ends an alias that was read before its person stopped to list it. One that has led to another
// person then, or that somebody has taken since, stays.
func (s *Server) endAlias(ctx context.Context, id storage.AliasID, before storage.Alias, of storage.User) error {
	if before.Subject != of.Subject {
		return nil
	}
	err := s.cfg.Store.EndAlias(ctx, id, before)
	if errors.Is(err, storage.ErrConflict) {
		return nil
	}
	return err
}

// endSessionsOf ends the sessions of a person that began with an identity, except one.
func (s *Server) endSessionsOf(ctx context.Context, user storage.User, identity storage.Identity, except string) error {
	return s.endSessionsIf(ctx, user.Subject, func(session storage.Session) bool { return beganWith(session, identity) && session.ID() != except })
}

// endSessionsOfNone ends the sessions of a person that began with an identity that the person does not
// have, except one.
func (s *Server) endSessionsOfNone(ctx context.Context, user storage.User, except string) error {
	return s.endSessionsIf(ctx, user.Subject, func(session storage.Session) bool {
		began := func(identity storage.Identity) bool { return beganWith(session, identity) }
		return session.Provider != "" && !slices.ContainsFunc(user.Identities, began) && session.ID() != except
	})
}

func beganWith(session storage.Session, identity storage.Identity) bool {
	return session.Provider == identity.Provider && session.ProviderSubject == identity.Subject
}

func (s *Server) endSessionsIf(ctx context.Context, subject string, ends func(storage.Session) bool) error {
	for session, err := range s.cfg.Store.Sessions(ctx, subject) {
		if errors.Is(err, storage.ErrRecord) {
			continue // it signs nobody in
		}
		if err != nil {
			return err
		}
		if !ends(session) {
			continue
		}
		if err := s.cfg.Store.EndSession(ctx, session.ID()); err != nil {
			return err
		}
	}
	return nil
}

func connectedElsewhere(p *provider) *displayedError {
	return p.page(fault{http.StatusConflict, codeAccessDenied, "error.provider.elsewhere.title", "error.provider.elsewhere.message", []string{"step.provider.useOther", "step.provider.connectOther"}})
}

func lastWay() *displayedError {
	return &displayedError{
		status: http.StatusConflict, code: codeInvalidRequest,
		title:   language.Say("error.provider.lastWay.title"),
		message: language.Say("error.provider.lastWay.message"),
		steps:   []language.Text{language.Say("step.provider.addWay")},
	}
}
