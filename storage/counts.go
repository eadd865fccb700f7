package storage

import "context"

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
