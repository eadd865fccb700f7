package authz

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
)

// welcome signs in the person who came from a provider.
func (s *Server) welcome(w http.ResponseWriter, r *http.Request, t returned, p *provider, a upstream.Arrival) error {
	user, err := s.arrive(r.Context(), p, a)
	if err != nil {
		return s.notWelcome(r, p, a, err)
	}
	if err := s.keepProviderToken(r.Context(), p, a, user); err != nil {
		return err
	}
	by := signInMethod{name: methodProvider, provider: p.ID, providerSubject: a.Subject, providerSession: a.SID, at: signedInAt(t.Transaction, a), began: t.began}
	by.alias = storage.IdentityAlias(p.ID, a.Issuer, a.Subject)
	if err := s.startSession(w, r, user, by); err != nil {
		return err
	}
	s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "signed in", "user", user.Name, "sub", user.Subject, "provider", p.ID)
	s.afterSignIn(w, t.Transaction)
	return nil
}

// signedInAt returns when a person signed in at a provider, zero for now. The provider may have been asked
// for a new sign-in, or for a recent one: then it counts as no older than what was asked for, because
// the clock there may be behind ours, but as no newer than it is, for later requests that ask for less.
func signedInAt(t storage.Transaction, a upstream.Arrival) time.Time {
	switch {
	case t.ForceLogin:
		return time.Time{}
	case t.MaxAge == nil || a.AuthTime.IsZero():
		return a.AuthTime
	}
	if oldest := t.Created.Add(-time.Duration(*t.MaxAge) * time.Second); a.AuthTime.Before(oldest) {
		return oldest
	}
	return a.AuthTime
}

// notWelcome logs who was not let in, and returns the page.
func (s *Server) notWelcome(r *http.Request, p *provider, a upstream.Arrival, err error) error {
	var shown *displayedError
	if errors.Is(err, upstream.ErrNotAllowed) || errors.As(err, &shown) {
		s.happened(r.Context(), fact{kind: audit.SignInRefused, how: methodProvider, provider: p.ID})
		s.cfg.Logger.InfoContext(r.Context(), "sign-in refused", "provider", p.ID, "provider_sub", a.Subject, "handle", a.Handle, "cause", err)
	}
	return providerFault(p, err)
}

// errTurned means that records of a person kept changing.
var errTurned = fmt.Errorf("authz: sign-in with a provider: %w: the records of the person kept changing", storage.ErrUnavailable)

// arriveAttempts bounds how often a sign-in starts over because another process changed the same
// records.
const arriveAttempts = 16

// arrive returns the account of a person who came from a provider. It makes one at the first
// sign-in. The rules of who may come in are judged each time.
func (s *Server) arrive(ctx context.Context, p *provider, a upstream.Arrival) (storage.User, error) {
	if err := s.admit(ctx, p, a); err != nil {
		return storage.User{}, err
	}
	id := storage.IdentityAlias(p.ID, a.Issuer, a.Subject)
	for range arriveAttempts {
		user, err := s.cfg.Store.UserOf(ctx, id)
		switch {
		case err == nil && user.Disabled:
			return storage.User{}, disabledPerson(p)
		case err == nil:
			return s.refreshIdentity(ctx, user, a)
		case !errors.Is(err, storage.ErrNotFound):
			return storage.User{}, err
		}
		if err := s.makeAccount(ctx, p, a, id); err != nil && !errors.Is(err, storage.ErrConflict) {
			return storage.User{}, err
		}
	}
	return storage.User{}, errTurned
}

// admit returns nil if the rules of the provider let the person in. It fixes a configured person
// to the account that came first.
func (s *Server) admit(ctx context.Context, p *provider, a upstream.Arrival) error {
	pins, err := s.cfg.Store.Pins(ctx, p.ID, a.Issuer, p.Allow.People)
	if err != nil {
		return err
	}
	decision, err := p.client.Admits(a, func(entry string) (string, bool) {
		subject, ok := pins[entry]
		return subject, ok
	})
	if err != nil || !decision.Pin {
		return err
	}
	err = s.cfg.Store.TakePin(ctx, p.ID, a.Issuer, storage.Pin{Entry: decision.Entry, Subject: a.Subject})
	if errors.Is(err, storage.ErrConflict) {
		return &upstream.Error{Provider: p.ID, Title: p.Title(), Kind: upstream.ErrNotAllowed, Reason: upstream.ReasonNotAllowed, Detail: "another account came first"}
	}
	return err
}

// makeAccount takes one step towards an account for an identity that leads to nobody. The alias comes
// first. Of several processes one makes the account, because they want the same name; for the others
// that is [storage.ErrConflict], and their caller looks again. Name and subject of an alias that leads to
// nobody are never used: they may be those of a person who was removed.
func (s *Server) makeAccount(ctx context.Context, p *provider, a upstream.Arrival, id storage.AliasID) error {
	alias, err := s.cfg.Store.Alias(ctx, id)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	name, there, err := s.freeName(ctx, p, a, id)
	if err != nil {
		return err
	}
	if there != nil { // the account lists the identity, and only its alias is missing
		return s.cfg.Store.PutAlias(ctx, id, alias.Leading(there.Name, there.Subject))
	}
	subject, err := s.cfg.Store.NewID()
	if err != nil {
		return err
	}
	if err := s.takeAlias(ctx, id, alias, name, subject); err != nil {
		return err
	}
	return s.createAccount(ctx, p, a, name, subject)
}

// takeAlias lets an alias, which was read before and did not count, lead to somebody. Whoever it
// led to may have been about to list the identity: if they do so by now, they keep it, and the
// error is [storage.ErrConflict]. If they do so later, they look at the alias once more.
func (s *Server) takeAlias(ctx context.Context, id storage.AliasID, before storage.Alias, name, subject string) error {
	if err := s.cfg.Store.PutAlias(ctx, id, before.Leading(name, subject)); err != nil || before.Subject == "" {
		return err
	}
	owner, err := s.cfg.Store.User(ctx, before.UserName)
	if errors.Is(err, storage.ErrNotFound) || err == nil && (owner.Subject != before.Subject || !slices.Contains(owner.Aliases(), id)) {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := s.cfg.Store.Alias(ctx, id)
	if err == nil && now.Subject == subject {
		err = s.cfg.Store.PutAlias(ctx, id, now.Leading(owner.Name, owner.Subject))
	}
	return cmp.Or(err, storage.ErrConflict)
}

func (s *Server) createAccount(ctx context.Context, p *provider, a upstream.Arrival, name, subject string) error {
	now := s.cfg.Now().UTC()
	user := storage.User{Name: name, Subject: subject, Created: now, Identities: []storage.Identity{{
		Provider: p.ID, Issuer: a.Issuer, Subject: a.Subject, Linked: now,
	}}}
	if err := s.cfg.Store.CreateUser(ctx, stated(user, a, now)); err != nil {
		return err
	}
	s.happened(ctx, fact{kind: audit.PersonMade, person: subject, provider: p.ID})
	s.cfg.Logger.InfoContext(quietlog.Always(ctx), "account made", "user", name, "sub", subject, "provider", p.ID, "provider_sub", a.Subject)
	return nil
}

// maxSameHandle is the greatest number of people of a provider whose names differ in a number.
const maxSameHandle = 64

// freeName returns a name for a person of a provider: PROVIDER/HANDLE, with ~2, ~3 and so on if
// others have it. The second result is an account that lists the identity already.
func (s *Server) freeName(ctx context.Context, p *provider, a upstream.Arrival, id storage.AliasID) (string, *storage.User, error) {
	first := p.ID + "/" + a.Handle
	for n := 1; n <= maxSameHandle; n++ {
		name := first
		if n > 1 {
			name += "~" + strconv.Itoa(n)
		}
		user, err := s.cfg.Store.User(ctx, name)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			return name, nil, nil
		case err != nil:
			return "", nil, err
		case slices.Contains(user.Aliases(), id):
			return name, &user, nil
		}
	}
	return "", nil, tooManyNames(p)
}

// identityStep is the precision of [storage.Identity.Used].
const identityStep = time.Hour

// refreshIdentity records what the provider says about the person now, and returns the person.
// It writes only if something changed, or if the last use is long ago.
func (s *Server) refreshIdentity(ctx context.Context, user storage.User, a upstream.Arrival) (storage.User, error) {
	id := storage.IdentityAlias(a.Provider, a.Issuer, a.Subject)
	for range arriveAttempts {
		next := stated(user, a, s.cfg.Now().UTC())
		if same(user, next) {
			return user, nil
		}
		err := s.cfg.Store.UpdateUser(ctx, next)
		if err == nil || !errors.Is(err, storage.ErrConflict) {
			return s.reread(ctx, id, err)
		}
		if user, err = s.reread(ctx, id, nil); err != nil {
			return storage.User{}, err
		}
	}
	return storage.User{}, errTurned
}

// reread returns the person of an identity, unless there was an error. A person who was disabled,
// removed or disconnected meanwhile is gone.
func (s *Server) reread(ctx context.Context, id storage.AliasID, err error) (storage.User, error) {
	if err != nil {
		return storage.User{}, err
	}
	user, err := s.cfg.Store.UserOf(ctx, id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && user.Disabled {
		return storage.User{}, gone()
	}
	return user, err
}

// stated returns the person with what the provider states. An e-mail address that the provider
// does not prove is not stored, and groups that it did not name are gone.
func stated(user storage.User, a upstream.Arrival, now time.Time) storage.User {
	user.FullName, user.Email = a.FullName, ""
	if a.EmailVerified {
		user.Email = a.Email
	}
	user.Identities = slices.Clone(user.Identities)
	for i, identity := range user.Identities {
		if identity.Provider != a.Provider || identity.Issuer != a.Issuer || identity.Subject != a.Subject {
			continue
		}
		identity.Handle, identity.Groups = a.Handle, slices.Clone(a.Groups)
		if now.Sub(identity.Used) >= identityStep {
			identity.Used = now
		}
		user.Identities[i] = identity
	}
	return user
}

// same reports whether two versions of a person state the same. The identities are in the same
// order.
func same(a, b storage.User) bool {
	return a.FullName == b.FullName && a.Email == b.Email && slices.EqualFunc(a.Identities, b.Identities, func(x, y storage.Identity) bool {
		return x.Handle == y.Handle && x.Used.Equal(y.Used) && slices.Equal(x.Groups, y.Groups)
	})
}
