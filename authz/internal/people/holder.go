package people

import (
	"context"
	"errors"
	"slices"

	"gatehouse.example/storage"
)

// Holder is whose grant a grant is. The zero value says nothing about that.
type Holder struct {
	// Known is whether the person was looked for.
	Known bool
	// Gone means that nobody holds the grant any more: the person was disabled, removed, or
	// replaced by another of the same name.
	Gone bool
	Person
}

// Grant reads a grant and, if needs reports so of it, whose it is now. If this process has seen
// the grant before, that is one round trip; otherwise the person is read after it, and groups
// after the person.
func (d *Directory) Grant(ctx context.Context, id string, needs func(storage.Grant) bool) (storage.Grant, Holder, error) {
	read := d.store.Reading()
	grant := d.GrantWith(read, id)
	if err := read.Read(ctx); err != nil {
		return storage.Grant{}, Holder{}, err
	}
	return grant(ctx, needs)
}

// GrantWith is [Directory.Grant] for a grant that is read together with other records. The function
// that it returns is to be called after [storage.Reading.Read].
func (d *Directory) GrantWith(read *storage.Reading, id string) func(ctx context.Context, needs func(storage.Grant) bool) (storage.Grant, Holder, error) {
	hint, seen := d.hints.of(id)
	grant := read.Grant(id)
	if !seen {
		return func(ctx context.Context, needs func(storage.Grant) bool) (storage.Grant, Holder, error) {
			g, err := grant()
			if err != nil || !needs(g) {
				return g, Holder{}, err
			}
			holder, err := d.read(ctx, g)
			return g, holder, err
		}
	}
	_, unknown := d.groups.look(hint.groups)
	before, hinted := d.groups.now(), read.Holder(hint.user, unknown)
	return func(ctx context.Context, needs func(storage.Grant) bool) (storage.Grant, Holder, error) {
		g, err := grant()
		if errors.Is(err, storage.ErrNotFound) {
			d.hints.remove(id)
		}
		if err != nil {
			return storage.Grant{}, Holder{}, err
		}
		h, err := hinted()
		if err != nil {
			return storage.Grant{}, Holder{}, err
		}
		d.groups.learn(before, h.Groups)
		switch {
		case !needs(g):
			return g, Holder{}, nil
		case g.UserName != hint.user:
			holder, err := d.read(ctx, g)
			return g, holder, err
		}
		holder, err := d.holder(ctx, g, h.User)
		return g, holder, err
	}
}

// read reads the person of a grant.
func (d *Directory) read(ctx context.Context, g storage.Grant) (Holder, error) {
	h, err := d.store.Holder(ctx, g.UserName, nil)
	if err != nil {
		return Holder{}, err
	}
	return d.holder(ctx, g, h.User)
}

// holder returns whose grant g is. User is the record of that name, zero for none.
func (d *Directory) holder(ctx context.Context, g storage.Grant, user storage.User) (Holder, error) {
	if user.Name == "" || user.Disabled || user.Subject != g.Subject {
		d.hints.remove(g.ID)
		return Holder{Known: true, Gone: true}, nil
	}
	p, err := d.Of(ctx, user)
	if err != nil {
		return Holder{}, err
	}
	d.Remember(g.ID, user)
	return Holder{Known: true, Person: p}, nil
}

// Remember lets [Directory.Grant] read a grant together with its person.
func (d *Directory) Remember(grantID string, user storage.User) {
	names := memberships(user)
	d.hints.put(grantID, hint{user.Name, slices.Clone(names[:min(len(names), hintedGroups)])})
}
