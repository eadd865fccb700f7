package storagetest

import (
	"context"
	"errors"
	"maps"
	"testing"

	"gatehouse.example/storage"
)

// testHolder: a grant is read together with any person and groups, whichever are there.
func testHolder(t *testing.T, f *fixture) {
	ctx := t.Context()
	g := f.active(t)
	wantError(t, "CreateUser", f.CreateUser(ctx, storage.User{Name: "ann", Subject: "s1"}), nil)
	wantError(t, "CreateGroup", f.CreateGroup(ctx, storage.Group{Name: "admins", ID: "g1"}), nil)
	for _, tt := range []struct {
		name, subject string
		groups        []string
		want          map[string]string
	}{
		{"ann", "s1", []string{"admins", "nobodies"}, map[string]string{"admins": "g1", "nobodies": ""}},
		{"ann", "s1", nil, nil},
		{"bob", "", []string{"admins"}, map[string]string{"admins": "g1"}},
		{"", "", nil, nil},
	} {
		got, holder, err := f.grantAndHolder(ctx, g.ID, tt.name, tt.groups)
		wantError(t, "grant and holder", err, nil)
		alone, err := f.Holder(ctx, tt.name, tt.groups)
		wantError(t, "Holder", err, nil)
		if got.ID != g.ID || got.State != storage.GrantActive {
			t.Errorf("with %q: another grant, %+v", tt.name, got)
		}
		for what, h := range map[string]storage.Holder{"with the grant": holder, "alone": alone} {
			if h.User.Subject != tt.subject || !maps.Equal(h.Groups, tt.want) {
				t.Errorf("%s: %q has %+v; want subject %q, groups %v", what, tt.name, h, tt.subject, tt.want)
			}
		}
		wantSame(t, "the grant alone", got, f.read(t, g.ID))
	}
	rotated, _, err := f.grantAndHolder(ctx, g.ID, "ann", nil)
	wantError(t, "grant and holder", err, nil)
	_, err = f.Rotate(ctx, rotated, f.life())
	wantError(t, "Rotate what was read with its holder", err, nil)
	ann, err := f.Holder(ctx, "ann", nil)
	wantError(t, "Holder", err, nil)
	wantError(t, "UpdateUser", f.UpdateUser(ctx, ann.User), nil)
	_, _, err = f.grantAndHolder(ctx, "AAAAAAAAAAAAAAAAAAAAAA", "ann", []string{"admins"})
	wantError(t, "grant and holder of no grant", err, storage.ErrNotFound)
	f.clock.advance(1000 * 24 * 60 * 60 * 1e9)
	_, _, err = f.grantAndHolder(ctx, g.ID, "ann", nil)
	wantError(t, "grant and holder of a grant that has ended", err, storage.ErrNotFound)
}

// testHolderUnreadable: a record that cannot be read is never one that is not there, and the error
// is that of the record that has the fault.
func testHolderUnreadable(t *testing.T, f *fixture) {
	ctx := t.Context()
	g := f.active(t)
	grant := f.backend.last(t).Key
	wantError(t, "CreateUser", f.CreateUser(ctx, storage.User{Name: "ann", Subject: "s1"}), nil)
	user := f.backend.last(t).Key
	wantError(t, "CreateGroup", f.CreateGroup(ctx, storage.Group{Name: "admins", ID: "g1"}), nil)
	group := f.backend.last(t).Key
	both := func() error {
		_, _, err := f.grantAndHolder(ctx, g.ID, "ann", []string{"admins"})
		return err
	}
	wantError(t, "grant and holder", both(), nil)
	for _, key := range []string{grant, user, group} {
		sound := f.backend.item(t, key)
		damaged := append([]byte{}, sound.Data...)
		damaged[len(damaged)-2] ^= 1
		f.backend.overwrite(t, key, damaged)
		if err := both(); !errors.Is(err, storage.ErrRecord) && !errors.Is(err, storage.ErrForged) || errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s is damaged: %v", key, err)
		}
		f.backend.restore(t, key, sound)
	}
	wantError(t, "grant and holder of what was repaired", both(), nil)
	_, err := f.Holder(cancelled(t), "ann", nil)
	wantUnavailable(t, "Holder without time", err)
}

// grantAndHolder reads a grant, a person and groups in one round trip.
func (f *fixture) grantAndHolder(ctx context.Context, id, userName string, groups []string) (storage.Grant, storage.Holder, error) {
	read := f.Reading()
	grant, holder := read.Grant(id), read.Holder(userName, groups)
	if err := read.Read(ctx); err != nil {
		return storage.Grant{}, storage.Holder{}, err
	}
	g, err := grant()
	if err != nil {
		return storage.Grant{}, storage.Holder{}, err
	}
	h, err := holder()
	return g, h, err
}
