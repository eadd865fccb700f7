package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"gatehouse.example/authz/internal/account"
	"gatehouse.example/storage"
)

var (
	// ErrGroupName means that a string cannot be the name of a group.
	ErrGroupName = account.ErrGroup
	// ErrUnknownGroup means that the store has no group with the name. Groups of a configuration
	// are not in the store.
	ErrUnknownGroup = errors.New("authz: there is no group with that name")
	// ErrNotMember means that a person is not a member of a group.
	ErrNotMember = errors.New("authz: the person is not a member of that group")
	// ErrManyGroups means that a person is a member of as many groups as one can be.
	ErrManyGroups = fmt.Errorf("authz: a person is a member of at most %d groups", account.MaxGroups)
)

// Group is the view of a group of people.
type Group struct {
	Name string `json:"name"`
	// ID distinguishes the group from an earlier one of the same name.
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
}

// GroupOf returns the view of a group.
func GroupOf(g storage.Group) Group { return Group{Name: g.Name, ID: g.ID, Created: g.Created.UTC()} }

// AddGroup makes a group without members. A person who was a member of an earlier group of that
// name is not a member of this one. The error wraps [storage.ErrConflict] if the name is taken,
// and is [ErrGroupName] if it cannot be one.
func AddGroup(ctx context.Context, store *storage.Store, name string) (Group, error) {
	if err := account.CheckGroup(name); err != nil {
		return Group{}, err
	}
	id, err := store.NewID()
	if err != nil {
		return Group{}, err
	}
	g := storage.Group{Name: name, ID: id, Created: store.Now().UTC()}
	if err := store.CreateGroup(ctx, g); err != nil {
		return Group{}, fmt.Errorf("authz: add group: %w", err)
	}
	return GroupOf(g), nil
}

// Groups lists all groups by name, like [Users].
func Groups(ctx context.Context, store *storage.Store) iter.Seq2[Group, error] {
	return views(store.Groups(ctx), GroupOf)
}

// RemoveGroup removes a group. Servers see that within 5 seconds; nobody is a member from then
// on. The error is [ErrUnknownGroup] if there is none.
func RemoveGroup(ctx context.Context, store *storage.Store, name string) error {
	if _, err := findGroup(ctx, store, name); err != nil {
		return err
	}
	return store.DeleteGroup(ctx, name)
}

// Members lists the members of a group by name, like [Users]. It reads the records of all people.
// The error is [ErrUnknownGroup] if there is no such group.
func Members(ctx context.Context, store *storage.Store, name string) iter.Seq2[User, error] {
	return func(yield func(User, error) bool) {
		g, err := findGroup(ctx, store, name)
		if err != nil {
			yield(User{}, err)
			return
		}
		ids, err := groupIDs(ctx, store)
		if err != nil {
			yield(User{}, err)
			return
		}
		for u, err := range store.Users(ctx) {
			if err == nil && !slices.Contains(u.Groups, membershipOf(g)) {
				continue
			}
			if !yield(userIn(u, ids), err) {
				return
			}
		}
	}
}

// JoinGroup makes a person a member of a group, from the next token request and introspection on.
// It is not an error if the person is a member already. The error is [ErrUnknownGroup],
// [ErrUnknownUser] or [ErrManyGroups].
func JoinGroup(ctx context.Context, store *storage.Store, group, userName string) error {
	g, err := findGroup(ctx, store, group)
	if err != nil {
		return err
	}
	user, err := FindUser(ctx, store, userName)
	if err != nil {
		return unknownUser(err)
	}
	ended, err := endedMemberships(ctx, store, user)
	if err != nil {
		return err
	}
	many := false
	err = changeUser(ctx, store, userName, func(u *storage.User) error {
		kept := slices.DeleteFunc(u.Groups, func(m storage.Membership) bool { return m.Group == g.Name || slices.Contains(ended, m) })
		u.Groups = append(kept, membershipOf(g))
		if many = len(u.Groups) > account.MaxGroups; many {
			u.Groups = u.Groups[:account.MaxGroups]
		}
		return nil
	})
	if err == nil && many {
		return ErrManyGroups
	}
	return unknownUser(err)
}

// endedMemberships returns the memberships of a person in groups that were removed.
func endedMemberships(ctx context.Context, store *storage.Store, u storage.User) ([]storage.Membership, error) {
	names := make([]string, len(u.Groups))
	for i, m := range u.Groups {
		names[i] = m.Group
	}
	h, err := store.Holder(ctx, "", names)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(u.Groups), func(m storage.Membership) bool { return h.Groups[m.Group] == m.ID }), nil
}

// LeaveGroup ends the membership of a person in a group, from the next token request and
// introspection on. The error is [ErrUnknownUser] or [ErrNotMember].
func LeaveGroup(ctx context.Context, store *storage.Store, group, userName string) error {
	inGroup := func(m storage.Membership) bool { return m.Group == group }
	user, err := FindUser(ctx, store, userName)
	if err != nil {
		return unknownUser(err)
	}
	if !slices.ContainsFunc(user.Groups, inGroup) {
		return ErrNotMember
	}
	return unknownUser(changeUser(ctx, store, userName, func(u *storage.User) error {
		u.Groups = slices.DeleteFunc(u.Groups, inGroup)
		return nil
	}))
}

// groupIDs returns the ids of all groups by name. A group that cannot be read is left out.
func groupIDs(ctx context.Context, store *storage.Store) (map[string]string, error) {
	ids := map[string]string{}
	for g, err := range store.Groups(ctx) {
		switch {
		case err == nil:
			ids[g.Name] = g.ID
		case !errors.Is(err, storage.ErrRecord):
			return nil, err
		}
	}
	return ids, nil
}

func membershipOf(g storage.Group) storage.Membership {
	return storage.Membership{Group: g.Name, ID: g.ID}
}

func findGroup(ctx context.Context, store *storage.Store, name string) (storage.Group, error) {
	if err := account.CheckGroup(name); err != nil {
		return storage.Group{}, err
	}
	g, err := store.Group(ctx, name)
	if errors.Is(err, storage.ErrNotFound) {
		return storage.Group{}, ErrUnknownGroup
	}
	return g, err
}

// unknownUser returns [ErrUnknownUser] for the error of a person who is not on record.
func unknownUser(err error) error {
	if errors.Is(err, storage.ErrNotFound) {
		return ErrUnknownUser
	}
	return err
}
