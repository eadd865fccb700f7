package authz

import (
	"context"
	"errors"
	"time"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/storage"
)

// keepProviderToken keeps the provider's refresh token, sealed, if the provider is to be asked
// again. It replaces that of an earlier sign-in.
func (s *Server) keepProviderToken(ctx context.Context, p *provider, a upstream.Arrival, user storage.User) error {
	if p.Recheck <= 0 || a.RefreshToken == "" {
		return nil
	}
	now := s.cfg.Now()
	t := storage.ProviderToken{
		Provider: p.ID, Issuer: a.Issuer, ProviderSubject: a.Subject, UserName: user.Name, Subject: user.Subject,
		Groups: a.NeedGroups, Confirmed: now, Due: now.Add(p.Recheck),
	}
	var err error
	if t.Token, err = s.cfg.Store.SealProviderToken(t.ID(), a.RefreshToken); err != nil {
		return err
	}
	return s.cfg.Store.ReplaceProviderToken(ctx, t)
}

// joinProviderSession lists a new session with the session at the provider with which it began.
// If the provider has ended that one meanwhile, or all of the account, the new session ends too.
func (s *Server) joinProviderSession(ctx context.Context, secret string, by signInMethod, until time.Time) (err error) {
	if by.provider == "" {
		return nil
	}
	if by.providerSession != "" {
		err = s.cfg.Store.JoinProviderSession(ctx, by.provider, by.providerSession, storage.SessionID(secret), until)
	}
	if err == nil {
		err = s.cfg.Store.CheckProviderAccount(ctx, by.provider, by.providerSubject, by.began)
	}
	if err == nil {
		return nil
	}
	if ended := s.cfg.Store.DeleteSession(ctx, secret); ended != nil {
		return ended
	}
	return goneOn(err, storage.ErrNotFound)
}

// stillConnected ends a new session again if the account with which it began was disconnected meanwhile:
// whoever disconnects an account ends the sessions that are there, and this one may not have been.
func (s *Server) stillConnected(ctx context.Context, secret string, by signInMethod, user storage.User) error {
	if by.alias == "" {
		return nil
	}
	leads, err := s.cfg.Store.UserOf(ctx, by.alias)
	if err == nil && leads.Subject == user.Subject {
		return nil
	}
	if ended := s.cfg.Store.DeleteSession(ctx, secret); ended != nil {
		return ended
	}
	if err == nil {
		err = storage.ErrNotFound // it leads to somebody else
	}
	return goneOn(err, storage.ErrNotFound)
}

// revokePerson revokes the grants of a person whom a provider has let go. One whose record cannot be read
// is left alone, as it is when people end theirs: the end of the others is on record, and is not drawn
// again with each round.
func (s *Server) revokePerson(ctx context.Context, subject, because string) error {
	err := s.cfg.Store.RevokeUser(ctx, subject, because)
	if errors.Is(err, storage.ErrRecord) && !errors.Is(err, storage.ErrUnavailable) {
		s.cfg.Logger.WarnContext(ctx, "a grant that should end cannot be read", "sub", subject, "error", err)
		return nil
	}
	return err
}
