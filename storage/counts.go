package storage

import (
	"context"
	"errors"
)

// Counts are how many records there are, by the lists of them.
type Counts struct {
	// UnusedClients are registered clients that were never used. UsedClients are the others, and
	// those without an end. A client that is being removed or used may count twice, or not.
	UnusedClients, UsedClients int
	// People are the people on record.
	People int
}

// Counts counts records. It asks for the length of three lists, whatever that is.
func (s *Store) Counts(ctx context.Context) (c Counts, err error) {
	for index, count := range map[string]*int{clientsUnused: &c.UnusedClients, clientsByUse: &c.UsedClients, userIndex: &c.People} {
		if *count, err = s.backend.IndexLen(ctx, index); err != nil {
			return Counts{}, unavailable("count", err)
		}
	}
	return c, nil
}

// ListedGrants counts the grants in the lists of some people: of the first limit behind a name, ""
// for the first of all. It returns their number and the name to go on behind, "" after the last. A
// grant that ended counts until the list of its person is read or tidied. It costs a page of names,
// a record and a length for each of them, and reads no grant.
func (s *Store) ListedGrants(ctx context.Context, after string, limit int) (grants int, next string, err error) {
	names, err := s.indexPage(ctx, userIndex, after, limit)
	if err != nil {
		return 0, "", err
	}
	for _, name := range names {
		u, err := s.User(ctx, name)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrRecord) {
			continue // removed at this moment, or reported by others who read it
		}
		if err != nil {
			return 0, "", err
		}
		n, err := s.indexLen(ctx, userGrants(u.Subject))
		if err != nil {
			return 0, "", err
		}
		grants += n
	}
	if len(names) == limit {
		next = names[limit-1]
	}
	return grants, next, nil
}
