package storage

import (
	"context"
	"errors"

	"gatehouse.example/internal/limited"
)

// Page is some records of a list, the newest first.
type Page[T any] struct {
	Items []T
	// Next is the cursor of the page that follows, empty at the end. A page may have fewer items
	// than asked for, or none, and be followed by another one.
	Next string
	// Unreadable is the number of records that are left out because they cannot be read.
	Unreadable int
}

// recentRounds bounds how often one page reads on because records have ended that a list still
// has.
const recentRounds = 4

// list is a list of records of one kind, each with its time.
type list[T any] struct {
	index, kind string
	// read decodes the item of an entry, and reports whether it belongs on a page.
	read func(entry string, item Item) (T, bool, error)
}

// pageBefore returns a page of at most limit records from before a cursor, "" for the newest. It
// costs two round trips however long the list is, and more where records have ended.
func pageBefore[T any](ctx context.Context, s *Store, l list[T], before string, limit int) (Page[T], error) {
	page := Page[T]{Next: before}
	for range recentRounds {
		entries, err := s.indexPageBefore(ctx, l.index, page.Next, limit+1)
		if err != nil {
			return Page[T]{}, err
		}
		now := entries[:min(len(entries), limit-len(page.Items))]
		if err := l.add(ctx, s, &page, now); err != nil {
			return Page[T]{}, err
		}
		if len(now) == len(entries) {
			page.Next = ""
			return page, nil
		}
		if len(page.Items) == limit {
			return page, nil
		}
	}
	return page, nil
}

// add reads the records of entries. Entries of records that are gone for good are removed.
func (l list[T]) add(ctx context.Context, s *Store, page *Page[T], entries []string) error {
	keys := make([]string, len(entries))
	for i, entry := range entries {
		keys[i] = key(l.kind, idOf(entry))
	}
	items, err := s.getMany(ctx, keys)
	if err != nil {
		return err
	}
	for i, entry := range entries {
		page.Next = entry
		if items[i].Version == (Version{}) {
			s.forgetEntry(ctx, l.index, entry)
			continue
		}
		err := s.mayBePlain(ctx, l.kind, items[i])
		var record T
		var shown bool
		if err == nil {
			record, shown, err = l.read(entry, items[i])
		}
		switch {
		case errors.Is(err, ErrNotFound):
		case errors.Is(err, ErrRecord):
			page.Unreadable++
		case err != nil:
			return err
		case shown:
			page.Items = append(page.Items, record)
		}
	}
	return nil
}

// forgetEntry removes an entry that has no item, or not this one, unless the item may be about to be
// written. That may fail: the entry is removed later then.
func (s *Store) forgetEntry(ctx context.Context, index, entry string) {
	if len(entry) > grantIDLen && s.now().Sub(timeOf(entry)) >= forestallTime {
		_ = s.indexRemove(ctx, index, entry)
	}
}

func (s *Store) indexPageBefore(ctx context.Context, index, before string, limit int) ([]string, error) {
	attempt := limited.Within(ctx, s.attemptTime)
	defer attempt.End()
	page, err := s.backend.IndexPageBefore(attempt, index, before, limit)
	if err != nil {
		return nil, unavailable("index", err)
	}
	return page, nil
}

// RecentGrants returns a page of the grants of a person that have not ended, the newest first,
// from before a cursor ("" for the newest).
func (s *Store) RecentGrants(ctx context.Context, subject, before string, limit int) (Page[Grant], error) {
	return pageBefore(ctx, s, list[Grant]{userGrants(subject), kindGrant, func(entry string, item Item) (Grant, bool, error) {
		g, err := s.grantIn(idOf(entry), item)
		return g, g.State != GrantRevoked, err
	}}, before, limit)
}

func (s *Store) grantIn(id string, item Item) (Grant, error) {
	var g Grant
	if err := s.decode(kindGrant, id, item, &g); err != nil {
		return Grant{}, err
	}
	g.version = item.Version
	return g, nil
}

// RecentSessions returns a page of the sessions of a person with an epoch ([User.SessionEpoch]),
// the newest first, from before a cursor ("" for the newest).
func (s *Store) RecentSessions(ctx context.Context, subject string, epoch int, before string, limit int) (Page[Session], error) {
	return pageBefore(ctx, s, list[Session]{userSessions(subject), kindSession, func(entry string, item Item) (Session, bool, error) {
		var session Session
		id := idOf(entry)
		if err := s.decode(kindSession, id, item, &session); err != nil {
			return Session{}, false, err
		}
		session.id, session.version = id, item.Version
		return session, session.Epoch == epoch, nil
	}}, before, limit)
}

// RecentConsents returns a page of what a person decided to be asked no more about, the newest
// first, from before a cursor ("" for the newest).
func (s *Store) RecentConsents(ctx context.Context, subject, before string, limit int) (Page[Consent], error) {
	index := userConsents(subject)
	return pageBefore(ctx, s, list[Consent]{index, kindConsent, func(entry string, item Item) (Consent, bool, error) {
		c, err := s.consentIn(idOf(entry), item)
		shown := c.listedBy(entry)
		if err == nil && !shown {
			s.forgetEntry(ctx, index, entry)
		}
		return c, shown, err
	}}, before, limit)
}

func (s *Store) consentIn(id string, item Item) (Consent, error) {
	var c Consent
	if err := s.decode(kindConsent, id, item, &c); err != nil {
		return Consent{}, err
	}
	c.version = item.Version
	return c, nil
}

// ConsentsOf returns what a person decided about some clients, by client id, in one round trip.
// What cannot be read is left out.
func (s *Store) ConsentsOf(ctx context.Context, subject string, clientIDs []string) (map[string]Consent, error) {
	keys := make([]string, len(clientIDs))
	for i, id := range clientIDs {
		keys[i] = key(kindConsent, consentID(subject, id))
	}
	items, err := s.getMany(ctx, keys)
	if err != nil {
		return nil, err
	}
	found := map[string]Consent{}
	for i, id := range clientIDs {
		if items[i].Version == (Version{}) {
			continue
		}
		c, err := s.consentIn(consentID(subject, id), items[i])
		if err == nil {
			found[id] = c
		}
	}
	return found, nil
}

// SessionByID returns the session with a [Session.ID], or [ErrNotFound].
func (s *Store) SessionByID(ctx context.Context, id string) (Session, error) {
	return s.session(ctx, id)
}
