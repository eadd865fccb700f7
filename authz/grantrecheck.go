package authz

import (
	"cmp"
	"context"
	"errors"

	"gatehouse.example/audit"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
)

// recheck reads the person, the session and the client again after the grant is stored, in one round trip,
// and revokes the grant if it may not be. If unasked is not nil, the grant was stored without a page, and
// unasked says whether it still may be.
func (s *Server) recheck(ctx context.Context, session liveSession, client storage.Client, grant storage.Grant, unasked func(liveSession) bool) error {
	sawGrantOf(ctx, grant)
	read := s.cfg.Store.Reading()
	v := &visit{s: s, clientID: client.ID, client: s.clients.CurrentWith(read, client.ID)}
	v.session = read.Session(session.secret)
	v.holder, v.person = holder{session.UserName, session.Subject}, read.User(session.UserName)
	v.consent = func() (storage.Consent, error) { return storage.Consent{}, nil }
	if unasked != nil {
		v.consent = read.Consent(session.Subject, client.ID)
	}
	if err := read.Read(ctx); err != nil {
		return cmp.Or(s.cfg.Store.Revoke(ctx, grant.ID, "it could not be read again at the consent"), err)
	}
	of := s.recheckClient(ctx, v, grant)
	return cmp.Or(of, s.recheckPerson(ctx, v, session, grant, unasked))
}

// recheckPerson revokes the grant if the person may not sign in any more. Disabling or removing a
// person first changes the record and then revokes the grants in the person's list, so it can miss a
// grant that is stored in between. The same holds for a logout at a provider, which ends the session
// first, and for the consent of a grant without a page.
func (s *Server) recheckPerson(ctx context.Context, v *visit, session liveSession, grant storage.Grant, unasked func(liveSession) bool) error {
	now, err := session, error(nil)
	now.person, now.consent, err = v.holding(ctx, v.holder)
	because, refused := "the person was disabled, signed out, or given another password, while consenting", error(gone())
	_, live := v.session()
	if live != nil && !errors.Is(live, storage.ErrNotFound) {
		err = cmp.Or(err, live)
	}
	if err == nil && live == nil && sessionValid(now.person, session.Session) {
		if unasked == nil || unasked(now) {
			return nil
		}
		because, refused = "the consent was taken back while the request was answered", errForgotten
	}
	if revokeErr := s.cfg.Store.Revoke(ctx, grant.ID, because); revokeErr != nil {
		return revokeErr
	}
	return cmp.Or(err, refused)
}

// recordUse records that the client is used. This must happen before the client has a grant:
// a client that seems unused may be removed at any time.
func (s *Server) recordUse(ctx context.Context, client storage.Client) error {
	rest, err := s.clients.Use(ctx, client)
	if errors.Is(err, storage.ErrNotFound) {
		return unknownClient(err)
	}
	s.chores.deferWork(rest)
	s.chores.softwareUsed(client)
	return err
}

// recheckClient revokes the grant if the client may not be used any more, for the same reason as
// recheckPerson: disabling or removing a client changes its record first.
func (s *Server) recheckClient(ctx context.Context, v *visit, grant storage.Grant) error {
	_, err := v.requestingClient(ctx)
	if err == nil {
		return nil
	}
	if revokeErr := s.cfg.Store.Revoke(ctx, grant.ID, "the client was removed or disabled at its consent"); revokeErr != nil {
		return revokeErr
	}
	return err
}

// consentGiven is what the log says of a grant that a person decided on a page.
const consentGiven = "consent given"

// granted records a grant in the log and for its person, and what follows from it.
func (s *Server) granted(ctx context.Context, set *resourceSet, how string, session liveSession, client storage.Client, grant storage.Grant) {
	s.chores.grantCreated(grant)
	s.rememberHolder(set, grant, session.person)
	what := eventApplicationAllowed
	if how != consentGiven {
		what = eventApplicationUnasked
	}
	s.happened(ctx, fact{
		kind: audit.Consented, person: session.Subject, client: client.ID, grant: grant.ID, resources: grant.Resources, scopes: grant.Scopes,
		shown: what, about: cmp.Or(grant.ClientName, hostOfClient(client)),
	})
	s.cfg.Logger.InfoContext(quietlog.Always(ctx), how, "sub", session.Subject, "client", client.ID, "grant", grant.ID, "access", grant.Access.String())
}
