package authz

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
)

const (
	// recheckTime bounds one question to a provider. recheckLease is longer: a process that does
	// not record the answer in that time has lost the question to another.
	recheckTime  = 20 * time.Second
	recheckLease = time.Minute
	// recheckPlaces is the greatest number of questions of a process at a time.
	recheckPlaces = 4
	// maxRecheckPause is the greatest interval between searches for people who are due, recheckRetry
	// the first interval between questions that have no answer. Both are shorter for providers
	// that are asked more often.
	maxRecheckPause = 15 * time.Second
	recheckRetry    = time.Minute
)

// recheckPause returns the interval between searches for people who are due, which is that of the
// provider that is asked most often. It is false if no provider is asked again.
func (p providers) recheckPause() (pause time.Duration, ok bool) {
	pause = maxRecheckPause
	for _, one := range p.ordered {
		if one.Recheck > 0 {
			pause, ok = min(pause, max(one.Recheck/4, 250*time.Millisecond)), true
		}
	}
	return pause, ok
}

// recheckRun asks the providers about the people who are due, until ctx ends. Any number of
// processes do so; a lease in the record gives each question to one of them.
func (s *Server) recheckRun(ctx context.Context) {
	for {
		pause, _ := s.latest.Load().providers.recheckPause()
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if err := s.latest.Load().recheckIfAsked(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.WarnContext(ctx, "the providers cannot be asked about people", "error", err)
		}
	}
}

// recheckIfAsked asks about everybody who is due now, if any provider is asked again.
func (s *Server) recheckIfAsked(ctx context.Context) error {
	if _, ok := s.providers.recheckPause(); !ok {
		return nil
	}
	return s.recheckDue(ctx)
}

// recheckDue asks about everybody who is due now, some at a time.
func (s *Server) recheckDue(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	places := make(chan struct{}, recheckPlaces)
	for t, err := range s.cfg.Store.DueProviderTokens(ctx) {
		if errors.Is(err, storage.ErrRecord) {
			s.cfg.Logger.WarnContext(ctx, "the provider token of a person cannot be read", "error", err)
			continue
		}
		if err != nil {
			return err
		}
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		asking.Go(func() {
			defer func() { <-places }()
			err := s.recheckOne(ctx, t)
			if err != nil && !errors.Is(err, storage.ErrConflict) && ctx.Err() == nil { // a conflict: it is another process's now
				s.cfg.Logger.WarnContext(ctx, "a person cannot be checked at the provider", "sub", t.Subject, "provider", t.Provider, "error", err)
			}
		})
	}
	return nil
}

// recheckOne asks about one person, and draws the consequences. [storage.ErrConflict] means that
// another process has the question, or that the person has signed in again: then nothing is
// written.
func (s *Server) recheckOne(ctx context.Context, t storage.ProviderToken) error {
	user, err := s.cfg.Store.UserOf(ctx, t.ID())
	p := s.providers.byID[t.Provider]
	switch {
	case errors.Is(err, storage.ErrNotFound), err == nil && (user.Subject != t.Subject || user.Disabled):
		return s.cfg.Store.EndProviderToken(ctx, t) // there is nobody to ask about
	case err != nil:
		return err
	case t.Gone != "":
		return s.endPerson(ctx, t)
	case p == nil:
		return s.unanswered(ctx, nil, t, errors.New("the provider is not configured any more"))
	case p.Recheck <= 0:
		return s.cfg.Store.EndProviderToken(ctx, t)
	}
	return s.ask(ctx, p, t, user)
}

// ask sends the question under a lease, and records the answer.
func (s *Server) ask(ctx context.Context, p *provider, t storage.ProviderToken, user storage.User) error {
	current := !t.Asked // no answer was lost since the token came
	t.Asked, t.LeaseUntil = true, s.cfg.Now().Add(recheckLease)
	t, err := s.cfg.Store.PutProviderToken(ctx, t)
	if err != nil {
		return err
	}
	secret, err := s.cfg.Store.OpenProviderToken(t)
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, recheckTime)
	defer cancel()
	arrival, err := p.client.Recheck(asking, upstream.Held{
		Issuer: t.Issuer, Subject: t.ProviderSubject, RefreshToken: secret, NeedGroups: t.Groups && s.needsGroups(ctx, p.ID),
	})
	switch {
	case err == nil:
		return s.confirmed(ctx, p, t, user, arrival)
	case errors.Is(err, upstream.ErrGone) && current:
		t.Gone = p.Title() + " does not know the person's sign-in any more"
		return s.gone(ctx, t)
	case neverAsked(err):
		t.Asked = !current
	}
	t, sealed := s.renewed(t, arrival) // the newest token may come beside an answer of no use
	return errors.Join(s.unanswered(ctx, p, t, err), sealed)
}

// renewed returns the record with the newest token, if the provider gave one. That token is known
// to be current.
func (s *Server) renewed(t storage.ProviderToken, a upstream.Arrival) (storage.ProviderToken, error) {
	if a.RefreshToken == "" {
		return t, nil
	}
	sealed, err := s.cfg.Store.SealProviderToken(t.ID(), a.RefreshToken)
	if err == nil {
		t.Token, t.Asked = sealed, false
	}
	return t, err
}

// neverAsked reports whether an error says that the provider has not used the token: the question
// was not sent, or the answer is that it does not take questions of this server.
func neverAsked(err error) bool {
	var e *upstream.Error
	if !errors.As(err, &e) {
		return false
	}
	if e.Unsent {
		return true
	}
	switch e.Reason {
	case upstream.ReasonBusy, upstream.ReasonClient, upstream.ReasonSettings, upstream.ReasonUnsupported, upstream.ReasonNoRecheck:
		return true
	}
	return false
}

// confirmed records that the provider still knows the person. The rules of who may come in are
// judged anew.
func (s *Server) confirmed(ctx context.Context, p *provider, t storage.ProviderToken, user storage.User, a upstream.Arrival) error {
	now := s.cfg.Now()
	t, err := s.renewed(t, a)
	if err != nil {
		return err
	}
	t.Asked, t.Failures, t.LeaseUntil = false, 0, time.Time{}
	err = s.admit(ctx, p, a)
	switch {
	case errors.Is(err, upstream.ErrNotAllowed):
		t.Gone = "the person may not sign in with " + p.Title() + " any more"
		return s.gone(ctx, t)
	case err != nil: // the new token must be kept in any case
		t.Due = now.Add(s.retryAfter(p, 1))
		_, kept := s.cfg.Store.PutProviderToken(ctx, t)
		return errors.Join(err, kept)
	}
	t.Confirmed, t.Due = now, now.Add(p.Recheck)
	if _, err := s.cfg.Store.PutProviderToken(ctx, t); err != nil {
		return err
	}
	_, err = s.refreshIdentity(ctx, user, a)
	var shown *displayedError
	if errors.As(err, &shown) {
		return nil // removed meanwhile
	}
	return err
}

// retryAfter returns the time until the next question after a number of questions without an
// answer.
func (s *Server) retryAfter(p *provider, failures int) time.Duration {
	wait := recheckRetry << min(failures-1, 10)
	if p != nil {
		wait = min(wait, p.Recheck)
	}
	return min(wait, time.Hour)
}

// unanswered records that it is not known whether the provider still knows the person. After the
// configured time of this their sessions and grants end. p is nil for a provider that is not
// configured any more.
func (s *Server) unanswered(ctx context.Context, p *provider, t storage.ProviderToken, cause error) error {
	now, due := s.cfg.Now(), t.Confirmed
	if p != nil {
		due = due.Add(p.Recheck)
	}
	t.LeaseUntil = time.Time{}
	t.Failures++
	if !now.Before(due.Add(s.cfg.RecheckGrace)) {
		t.Gone = fmt.Sprintf("%s has not confirmed the person for %s", s.titleOf(t.Provider), now.Sub(t.Confirmed).Round(time.Second))
		return s.gone(ctx, t)
	}
	t.Due = now.Add(s.retryAfter(p, t.Failures))
	if end := due.Add(s.cfg.RecheckGrace); end.Before(t.Due) {
		t.Due = end // asked once more, at the end
	}
	if _, err := s.cfg.Store.PutProviderToken(ctx, t); err != nil {
		return err
	}
	s.cfg.Logger.WarnContext(ctx, "it is not known whether a person may still sign in", "sub", t.Subject, "provider", t.Provider, "failures", t.Failures, "ends", due.Add(s.cfg.RecheckGrace), "cause", cause)
	return nil
}

// gone records that a person may not sign in any more, before anything ends: whatever fails then,
// the next round goes on with it.
func (s *Server) gone(ctx context.Context, t storage.ProviderToken) error {
	t.LeaseUntil = time.Time{}
	t, err := s.cfg.Store.PutProviderToken(ctx, t)
	if err != nil {
		return err
	}
	return s.endPerson(ctx, t)
}

// endPerson ends the sessions and grants of a person who may not sign in any more. The account
// stays: another way to sign in, or another sign-in with the provider, is judged by itself.
func (s *Server) endPerson(ctx context.Context, t storage.ProviderToken) error {
	if err := s.endSessions(ctx, t); err != nil {
		return err
	}
	if err := s.revokePerson(ctx, t.Subject, t.Gone); err != nil {
		return err
	}
	s.cfg.Logger.InfoContext(quietlog.Always(ctx), "sessions and grants of a person ended", "user", t.UserName, "sub", t.Subject, "provider", t.Provider, "because", t.Gone)
	if err := s.cfg.Store.EndProviderToken(ctx, t); err != nil {
		return err // the next round ends what is left, and records it
	}
	s.happened(ctx, fact{
		kind: audit.GrantRevoked, by: audit.ByProvider, person: t.Subject, provider: t.Provider, shown: eventProviderEnded, about: t.Provider,
	})
	return nil
}

// endSessions ends all sessions of a person, also one that begins at the same moment.
func (s *Server) endSessions(ctx context.Context, t storage.ProviderToken) error {
	for range arriveAttempts {
		user, err := s.cfg.Store.User(ctx, t.UserName)
		if errors.Is(err, storage.ErrNotFound) || err == nil && user.Subject != t.Subject {
			return nil
		}
		if err != nil {
			return err
		}
		user.SessionEpoch++
		if err := s.cfg.Store.UpdateUser(ctx, user); !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return errTurned
}
