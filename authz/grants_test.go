package authz_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// addGrant stores a grant in the state after its code was redeemed.
func (h *harness) addGrant(user storage.User, client string, resources ...string) storage.Grant {
	h.t.Helper()
	now := h.clock.Now()
	g, _, err := h.store.PrepareGrant(storage.NewGrant{
		ClientID: client, Subject: user.Subject, UserName: user.Name, Resources: resources, Refreshable: true, CodeTTL: time.Minute,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.store.CreateGrant(h.t.Context(), g); err != nil {
		h.t.Fatal(err)
	}
	if g, err = h.store.Grant(h.t.Context(), g.ID); err != nil {
		h.t.Fatal(err)
	}
	life := storage.Lifetime{Expires: now.Add(48 * time.Hour), IdleExpires: now.Add(24 * time.Hour), AccessUntil: now.Add(time.Hour)}
	if g, err = h.store.Redeem(h.t.Context(), g, life); err != nil {
		h.t.Fatal(err)
	}
	return g
}

// found returns the names of the grants in a list, up to its error.
func (h *harness) found(f admin.GrantFilter, names map[string]string) (found []string, err error) {
	h.t.Helper()
	for g, err := range admin.Grants(h.t.Context(), h.store, f) {
		if err != nil {
			return found, err
		}
		found = append(found, names[g.ID])
	}
	return found, nil
}

// Every filter returns the matching grants in the order in which they were made.
func TestGrants(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	zoe, amy := h.addPerson("zoe"), h.addPerson("amy")
	h.addPerson("idle")
	names := map[string]string{}
	for _, g := range []struct {
		name      string
		user      storage.User
		client    string
		resources []string
	}{
		{"1", zoe, "native-client", []string{notes}},
		{"2", amy, "native-client", []string{tasks}},
		{"3", zoe, "other-client", []string{notes, tasks}},
		{"4", zoe, "native-client", []string{tasks}},
		{"5", amy, "gone-client", []string{notes}},
	} {
		names[h.addGrant(g.user, g.client, g.resources...).ID] = g.name
		h.clock.advance(time.Second)
	}
	for _, tt := range []struct {
		filter admin.GrantFilter
		want   []string
		err    error
	}{
		{admin.GrantFilter{}, []string{"2", "5", "1", "3", "4"}, nil}, // by the names of people
		{admin.GrantFilter{User: " ZOE"}, []string{"1", "3", "4"}, nil},
		{admin.GrantFilter{User: "idle"}, nil, nil},
		{admin.GrantFilter{User: "nobody"}, nil, admin.ErrUnknownUser},
		{admin.GrantFilter{User: "no body"}, nil, admin.ErrUserName},
		{admin.GrantFilter{ClientID: "native-client"}, []string{"1", "2", "4"}, nil},
		{admin.GrantFilter{ClientID: "gone-client"}, []string{"5"}, nil}, // without a record of its own
		{admin.GrantFilter{ClientID: "basic-client"}, nil, nil},          // without a grant
		{admin.GrantFilter{ClientID: "nothing"}, nil, admin.ErrUnknownClient},
		{admin.GrantFilter{User: "amy", ClientID: "nothing"}, nil, admin.ErrUnknownClient},
		{admin.GrantFilter{Resource: tasks}, []string{"2", "3", "4"}, nil},
		{admin.GrantFilter{Resource: tasks + "/"}, nil, nil},
		{admin.GrantFilter{User: "zoe", ClientID: "native-client"}, []string{"1", "4"}, nil},
		{admin.GrantFilter{User: "zoe", Resource: notes}, []string{"1", "3"}, nil},
		{admin.GrantFilter{ClientID: "native-client", Resource: tasks}, []string{"2", "4"}, nil},
		{admin.GrantFilter{User: "zoe", ClientID: "native-client", Resource: tasks}, []string{"4"}, nil},
	} {
		got, err := h.found(tt.filter, names)
		if !slices.Equal(got, tt.want) || !errors.Is(err, tt.err) {
			t.Errorf("%+v: %v, %v, want %v, %v", tt.filter, got, err, tt.want, tt.err)
		}
	}
	if err := h.store.RevokeUser(t.Context(), amy.Subject, "test"); err != nil {
		t.Fatal(err)
	}
	if got, err := h.found(admin.GrantFilter{ClientID: "native-client"}, names); !slices.Equal(got, []string{"1", "2", "4"}) || err != nil {
		t.Errorf("revoked grants are on record: %v, %v", got, err)
	}
	h.faults.SetDown(true)
	for _, f := range []admin.GrantFilter{{}, {User: "zoe"}, {ClientID: "native-client"}, {ClientID: "gone-client"}} {
		if got, err := h.found(f, names); got != nil || !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%+v without a store: %v, %v", f, got, err)
		}
	}
}

// A record that only prevents the storing of a revoked grant is not listed.
func TestGrantsForestalled(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	amy := h.addPerson("amy")
	g, _, err := h.store.PrepareGrant(storage.NewGrant{ClientID: "native-client", Subject: amy.Subject, CodeTTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	f := func(op, key string) {
		if op != "put" || key != "gatehouse:grant:"+g.ID {
			return
		}
		h.meter.before.Store(nil)
		if err := h.store.RevokeClient(t.Context(), "native-client", "test"); err != nil {
			t.Error(err)
		}
	}
	h.meter.before.Store(&f)
	if err := h.store.CreateGrant(t.Context(), g); !errors.Is(err, storage.ErrConflict) {
		t.Fatal(err)
	}
	if got, err := h.found(admin.GrantFilter{User: "amy"}, nil); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// One record that cannot be read does not hide the others.
func TestGrantsDamaged(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	names := map[string]string{}
	var damaged storage.Grant
	for _, user := range []storage.User{h.addPerson("amy"), h.addPerson("zoe")} {
		damaged = h.addGrant(user, "native-client", notes)
		put := storage.Put{Key: "gatehouse:grant:" + damaged.ID, Data: []byte{99, 0, 0, 0, 0, 0, 0, 0, 0, '{', '}'}, If: storage.Always, Operation: storage.Version{1}}
		if _, err := h.faults.Put(t.Context(), put); err != nil {
			t.Fatal(err)
		}
		h.clock.advance(time.Second)
		names[h.addGrant(user, "native-client", notes).ID] = user.Name
	}
	for _, f := range []admin.GrantFilter{{}, {ClientID: "native-client"}, {Resource: notes}} {
		var found []string
		unreadable := 0
		for g, err := range admin.Grants(t.Context(), h.store, f) {
			switch {
			case errors.Is(err, storage.ErrRecord):
				unreadable++
			case err != nil:
				t.Fatal(err)
			default:
				found = append(found, names[g.ID])
			}
		}
		if !slices.Equal(found, []string{"amy", "zoe"}) || unreadable != 2 {
			t.Errorf("%+v: %v and %d that cannot be read", f, found, unreadable)
		}
	}
	if _, _, err := admin.RevokeGrant(t.Context(), h.store, damaged.ID); !errors.Is(err, storage.ErrRecord) {
		t.Errorf("revoking it: %v", err)
	}
}

func TestRevokeGrant(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	g := h.addGrant(h.addPerson("amy"), "native-client", notes)
	writes := h.meter.writes.Load()
	if _, _, err := admin.RevokeGrant(t.Context(), h.store, "AAAAAAAAAAAAAAAAAAAAAA"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("no such grant: %v", err)
	}
	if n := h.meter.writes.Load() - writes; n != 0 {
		t.Errorf("%d writes for an id that names nothing", n)
	}
	h.faults.SetDown(true)
	if _, ended, err := admin.RevokeGrant(t.Context(), h.store, g.ID); !errors.Is(err, storage.ErrUnavailable) || ended {
		t.Errorf("without a store: %v, %v", ended, err)
	}
	h.faults.SetDown(false)
	for _, want := range []bool{true, false} {
		got, ended, err := admin.RevokeGrant(t.Context(), h.store, g.ID)
		if err != nil || ended != want || got.State != storage.GrantRevoked || got.RevokedBecause == "" || got.ClientID != g.ClientID {
			t.Errorf("%+v, %v, %v", got, ended, err)
		}
	}
	if stored, err := h.store.Grant(t.Context(), g.ID); err != nil || stored.State != storage.GrantRevoked {
		t.Errorf("on record: %v, %v", stored.State, err)
	}
}
