package storage

import (
	"context"
	"errors"
	"slices"
)

// Shown reports whether the person agreed to a page that showed the account, the client and this
// destination and had nothing to choose, while the client stated the same about itself, and has
// refused the client nothing since.
func (c Consent) Shown(redirectHost, clientDigest string) bool {
	return slices.ContainsFunc(c.Given, func(g Remembered) bool {
		return g.RedirectHost == redirectHost && g.ClientDigest == clientDigest && len(g.Access) == 0
	})
}

// maxRemembered is the greatest number of decisions in one [Consent]. The oldest are dropped.
const maxRemembered = 16

// With returns the consent with one more decision. It takes the place of those that it contains,
// and of those about what the client stated before. One without access says that a page was shown,
// and stays beside those with access.
func (c Consent) With(r Remembered) Consent {
	given := make([]Remembered, 0, len(c.Given)+1)
	for _, g := range c.Given {
		same, contained := g.RedirectHost == r.RedirectHost, r.Access.Contains(g.Access) && (len(g.Access) > 0 || len(r.Access) == 0)
		if same && (g.ClientDigest != r.ClientDigest || contained) || !g.Until.IsZero() && !g.Until.After(r.At) {
			continue
		}
		given = append(given, g)
	}
	given = append(given, r)
	c.Given = given[max(0, len(given)-maxRemembered):]
	return c
}

// Without returns the consent without what a person did not allow, and whether that changes it:
// nothing of it is given any more, to whatever destination. A resource without scopes in refused
// is that resource as a whole. After any refusal a page that had nothing to choose is shown again.
func (c Consent) Without(refused Access) (Consent, bool) {
	if len(refused) == 0 {
		return c, false
	}
	changed := false
	given := make([]Remembered, 0, len(c.Given))
	for _, g := range c.Given {
		left := g.Access.Except(refused)
		lost := len(left.pairs()) != len(g.Access.pairs()) || len(g.Access) == 0
		changed = changed || lost
		if g.Access = left; len(left) > 0 || !lost {
			given = append(given, g)
		}
	}
	c.Given = given
	return c, changed
}

// Except returns the part of a that is not in b. A resource of which no scope is left is left out,
// and one without scopes in b takes the resource as a whole.
func (a Access) Except(b Access) Access {
	var out Access
	for _, p := range a {
		taken, ok := b.At(p.Resource)
		switch {
		case !ok:
			out = append(out, p)
		case len(taken.Scopes) == 0 || len(p.Scopes) == 0:
		default:
			var left []string
			for _, scope := range p.Scopes {
				if !slices.Contains(taken.Scopes, scope) {
					left = append(left, scope)
				}
			}
			if len(left) > 0 {
				out = append(out, Permission{Resource: p.Resource, Scopes: left})
			}
		}
	}
	return out
}

func (a Access) pairs() (all [][2]string) {
	for _, p := range a {
		if len(p.Scopes) == 0 {
			all = append(all, [2]string{p.Resource})
		}
		for _, scope := range p.Scopes {
			all = append(all, [2]string{p.Resource, scope})
		}
	}
	return all
}

// forgetAll deletes the consents in a list. One that cannot be read is deleted too: the person is
// asked again.
func (s *Store) forgetAll(ctx context.Context, index string) error {
	for entry, err := range s.indexed(ctx, index) {
		id := entry[min(entryTimeLen, len(entry)):]
		if err == nil {
			err = s.deleteConsent(ctx, id)
		}
		if err == nil {
			err = s.removeGone(ctx, index, entry, key(kindConsent, id))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forgetting runs end, which revokes grants, and before and after it forgets the consents in a
// list. Before, because a request that is answered without a page looks for the consent again
// after its grant is stored; after, because a decision that is made meanwhile looks for its grant
// again after the consent is stored. So whichever comes last, nothing is left.
func (s *Store) forgetting(ctx context.Context, index string, end func() error) error {
	if err := s.forgetAll(ctx, index); err != nil {
		return err
	}
	ended := end()
	return errors.Join(ended, s.forgetAll(ctx, index))
}

// ForgetConsents deletes everything that a person decided to be asked no more about, also what cannot be
// read.
func (s *Store) ForgetConsents(ctx context.Context, subject string) error {
	return s.forgetAll(ctx, userConsents(subject))
}

// ForgetClient deletes what all people decided to be asked no more about a client.
func (s *Store) ForgetClient(ctx context.Context, clientID string) error {
	return s.forgetAll(ctx, clientConsents(clientID))
}

// TidyConsents removes the oldest entries from the lists of consents of a person and a client if
// these are gone, like [Store.TidySessions].
func (s *Store) TidyConsents(ctx context.Context, subject, clientID string) error {
	for _, index := range []string{userConsents(subject), clientConsents(clientID)} {
		page, err := s.indexPage(ctx, index, "", tidyLength)
		if err != nil {
			return err
		}
		for _, entry := range page {
			if err := s.tidyConsent(ctx, index, entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// tidyConsent removes an entry if its consent is gone, or was given again later and has another one.
func (s *Store) tidyConsent(ctx context.Context, index, entry string) error {
	id := entry[min(entryTimeLen, len(entry)):]
	c, err := s.consent(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return s.removeGone(ctx, index, entry, key(kindConsent, id))
	case err == nil && !c.listedBy(entry):
		s.forgetEntry(ctx, index, entry)
	case ends(err):
		return err
	}
	return nil
}
