package storage

import (
	"context"
	"errors"
	"iter"
	"time"
)

const kindGroup = "group"

var groupIndex = key("groups", "all")

// Group is a group of people that the operator made. Its members' records name it.
type Group struct {
	Name string `json:"name"`
	// ID distinguishes the group from an earlier one of the same name, whose members it does not
	// have.
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
}

// Membership is a group in a person's record. It counts while the group of that name has that id.
type Membership struct {
	Group string `json:"group"`
	ID    string `json:"id"`
}

// CreateGroup stores a new group. [ErrConflict] means that the name is taken.
func (s *Store) CreateGroup(ctx context.Context, g Group) error {
	_, err := s.write(ctx, record{kind: kindGroup, id: g.Name, value: g, listed: []Listing{{groupIndex, g.Name}}}, Absent)
	return err
}

// Group returns a group by name, or [ErrNotFound].
func (s *Store) Group(ctx context.Context, name string) (Group, error) {
	var g Group
	_, err := s.read(ctx, kindGroup, name, &g)
	return g, err
}

// Groups lists all groups by name. A record that cannot be read is an error in its place; the
// iteration may go on after it.
func (s *Store) Groups(ctx context.Context) iter.Seq2[Group, error] {
	return func(yield func(Group, error) bool) {
		for name, err := range s.indexed(ctx, groupIndex) {
			var g Group
			if err == nil {
				g, err = s.Group(ctx, name)
			}
			if errors.Is(err, ErrNotFound) {
				continue // added or removed at this moment
			}
			if !yield(g, err) || ends(err) {
				return
			}
		}
	}
}

// DeleteGroup removes a group. Memberships in it stay in people's records and count no more.
func (s *Store) DeleteGroup(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, s.writeTime)
	defer cancel()
	if err := s.backend.Delete(ctx, key(kindGroup, name)); err != nil {
		return unavailable("delete group", err)
	}
	return s.unlistName(ctx, groupIndex, kindGroup, name)
}
