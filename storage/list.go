package storage

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"iter"
	"strconv"
	"time"

	"gatehouse.example/internal/limited"
)

// Lists are ordered by time: an entry is a time in seconds as eight hexadecimal digits,
// and the id of the record.
const entryTimeLen = 8

func entryOf(at time.Time, id string) string {
	var seconds [entryTimeLen / 2]byte
	binary.BigEndian.PutUint32(seconds[:], uint32(at.Unix()))
	var digits [entryTimeLen]byte
	hex.Encode(digits[:], seconds[:])
	return string(digits[:]) + id
}

// grantIDLen is the length of a grant's id. Entries of exactly that length are from before lists
// were ordered by time.
const grantIDLen = 22

// idOf returns the grant id in an entry of a list of grants.
func idOf(entry string) string {
	if len(entry) <= grantIDLen {
		return entry
	}
	return entry[entryTimeLen:]
}

// timeOf returns the time of an entry; zero if it has none.
func timeOf(entry string) time.Time {
	if len(entry) < entryTimeLen {
		return time.Time{}
	}
	seconds, err := strconv.ParseUint(entry[:entryTimeLen], 16, 32)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

func userGrants(subject string) string    { return key("user-grants", subject) }
func clientGrants(clientID string) string { return key("client-grants", clientID) }

// UserGrants lists the grants of a person, the oldest first, revoked ones included as long as
// they are on record, except those that [Store.RevokeUser] revoked. A record that cannot be read
// is an error in its place; the iteration may go on after it.
func (s *Store) UserGrants(ctx context.Context, subject string) iter.Seq2[Grant, error] {
	return s.grants(ctx, userGrants(subject))
}

// ClientGrants lists the grants of a client, the oldest first, revoked ones included as long as
// they are on record, except those that [Store.RevokeClient] revoked. A record that cannot be
// read is an error in its place; the iteration may go on after it.
func (s *Store) ClientGrants(ctx context.Context, clientID string) iter.Seq2[Grant, error] {
	return s.grants(ctx, clientGrants(clientID))
}

// grants lists the grants of one list and removes the entries of grants that are gone.
func (s *Store) grants(ctx context.Context, index string) iter.Seq2[Grant, error] {
	return func(yield func(Grant, error) bool) {
		for entry, err := range s.indexed(ctx, index) {
			var g Grant
			if err == nil {
				g, err = s.Grant(ctx, idOf(entry))
			}
			if errors.Is(err, ErrNotFound) {
				err = s.removeGone(ctx, index, entry, key(kindGrant, idOf(entry)))
				if err == nil {
					continue
				}
			}
			if !yield(g, err) || ends(err) {
				return
			}
		}
	}
}

// ends reports whether an error ends an iteration. A record that cannot be read does not.
func ends(err error) bool { return err != nil && !errors.Is(err, ErrRecord) }

// removeGone removes an entry whose item is gone for good. An item that is about to be written is
// missing too, so a young entry stays; and so does one whose item exists, even if it has expired
// by the clock of this process, which may be wrong.
func (s *Store) removeGone(ctx context.Context, index, entry, item string) error {
	listed := timeOf(entry)
	if len(entry) <= grantIDLen || s.now().Sub(listed) < forestallTime {
		return nil
	}
	if there, err := s.exists(ctx, item); there || err != nil {
		return err
	}
	return s.indexRemove(ctx, index, entry)
}

// exists reports whether there is an item, expired or not.
func (s *Store) exists(ctx context.Context, item string) (bool, error) {
	attempt := limited.Within(ctx, s.attemptTime)
	defer attempt.End()
	_, err := s.backend.Get(attempt, item)
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, unavailable("list", err)
	}
	return true, nil
}

// tidyLength is how many entries of each list [Store.TidyGrants] checks.
const tidyLength = 4

// TidyGrants removes the oldest entries from the lists of a person and of a client if their
// grants are gone. Called once for each grant that is created, it keeps lists from growing that
// are never read.
func (s *Store) TidyGrants(ctx context.Context, subject, clientID string) error {
	for _, index := range []string{userGrants(subject), clientGrants(clientID)} {
		page, err := s.indexPage(ctx, index, "", tidyLength)
		if err != nil {
			return err
		}
		for _, entry := range page {
			if err := s.removeGone(ctx, index, entry, key(kindGrant, idOf(entry))); err != nil {
				return err
			}
		}
	}
	return nil
}
