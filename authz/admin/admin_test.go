package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

func newStore(t *testing.T) *storage.Store {
	t.Helper()
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	store, err := storage.New(backend, storage.Options{Issuer: "https://auth.example.com", MasterKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

var callback = metadata.Client{ClientName: "Diary", RedirectURIs: []string{"https://diary.example.com/callback"}, TokenEndpointAuthMethod: metadata.AuthMethodBasic}

// TestNothingSecretIsShown: the views of people and clients contain no hash, and the secret
// of a client only once.
func TestNothingSecretIsShown(t *testing.T) {
	store := newStore(t)
	user, err := admin.AddUser(t.Context(), store, "ada", "correct horse battery")
	if err != nil {
		t.Fatal(err)
	}
	client, err := admin.AddClient(t.Context(), store, "diary", callback)
	if err != nil || client.Secret == "" {
		t.Fatalf("%+v, %v", client, err)
	}
	stored, err := store.Client(t.Context(), "diary")
	if err != nil || !stored.Secret.Matches(client.Secret) {
		t.Fatalf("%+v, %v", stored, err)
	}
	found, err := admin.FindClient(t.Context(), store, "diary")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal([]any{admin.UserOf(user), found})
	if err != nil || strings.Contains(string(text), "argon2") || strings.Contains(string(text), "secret\"") {
		t.Errorf("%s, %v", text, err)
	}
}

// TestClients lists all clients, or those of one software.
func TestClients(t *testing.T) {
	store := newStore(t)
	for id, software := range map[string]string{"one": "a", "two": "b", "three": "a"} {
		c := storage.Client{ID: id, Software: software, Created: time.Now(), Metadata: callback, Source: storage.ClientConfigured}
		if err := store.CreateClient(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for software, want := range map[string]string{"": "one three two", "a": "one three", "c": ""} {
		var ids []string
		for c, err := range admin.Clients(t.Context(), store, software) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, c.ID)
		}
		if slices.Sort(ids); strings.Join(ids, " ") != want {
			t.Errorf("of software %q: %q, want %q", software, ids, want)
		}
	}
}

// TestListsEnd: a list that the caller leaves reads nothing more.
func TestListsEnd(t *testing.T) {
	store := newStore(t)
	for _, name := range []string{"ada", "bob"} {
		if _, err := admin.AddUser(t.Context(), store, name, "correct horse battery"); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for range admin.Users(t.Context(), store) {
		seen++
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range admin.Users(ctx, store) {
		if err == nil {
			t.Error("a list is read although its context is over")
		}
		seen++
	}
	if seen != 2 {
		t.Errorf("%d entries were seen, want one person and one error", seen)
	}
}

// TestKeys: before the first start of a server there is no key, and Rotate fails.
func TestKeys(t *testing.T) {
	store := newStore(t)
	if keys, err := admin.Keys(t.Context(), store); err != nil || keys == nil || len(keys) != 0 {
		t.Errorf("%v, %v", keys, err)
	}
	if _, err := admin.RotateSigningKey(t.Context(), store, "", false); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("rotating none: %v", err)
	}
}

// TestGrantEnds checks the end of a grant and its state afterwards.
func TestGrantEnds(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	in := func(hours time.Duration) time.Time { return now.Add(hours * time.Hour) }
	active := storage.Grant{State: storage.GrantActive, Refreshable: true, Lifetime: storage.Lifetime{IdleExpires: in(5), Expires: in(9), AccessUntil: in(1)}}
	with := func(change func(*storage.Grant)) storage.Grant {
		g := active
		change(&g)
		return g
	}
	for what, tt := range map[string]struct {
		grant storage.Grant
		state string
		ends  time.Time
	}{
		"refreshable":         {active, "active", in(5)},
		"near its last day":   {with(func(g *storage.Grant) { g.Expires = in(3) }), "active", in(3)},
		"not refreshable":     {with(func(g *storage.Grant) { g.Refreshable = false }), "active", in(1)},
		"idle for too long":   {with(func(g *storage.Grant) { g.IdleExpires = in(-1) }), "expired", in(-1)},
		"revoked":             {with(func(g *storage.Grant) { g.State = storage.GrantRevoked }), "revoked", time.Time{}},
		"not redeemed so far": {with(func(g *storage.Grant) { g.State, g.CodeExpires = storage.GrantCode, in(2) }), "code", in(2)},
	} {
		if shown := admin.GrantOf(tt.grant, "", now); shown.State != tt.state || !shown.Ends.Equal(tt.ends) {
			t.Errorf("%s: %s until %s, want %s until %s", what, shown.State, shown.Ends, tt.state, tt.ends)
		}
	}
}

// TestClientNames: a client without a record has no name, and the name of a client is read
// once.
func TestClientNames(t *testing.T) {
	store := newStore(t)
	if _, err := admin.AddClient(t.Context(), store, "diary", callback); err != nil {
		t.Fatal(err)
	}
	names := admin.NewClientNames(store)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ctx      context.Context
		id, want string
	}{{t.Context(), "diary", "Diary"}, {t.Context(), "nobody", ""}, {over, "diary", "Diary"}, {over, "nobody", ""}} {
		if got, err := names.Of(tt.ctx, tt.id); got != tt.want || err != nil {
			t.Errorf("%s: %q, %v", tt.id, got, err)
		}
	}
}

// TestProviderPeopleChooseNothing: whoever a provider signs in gets no link and no password here, nor does
// somebody who is to have such a name, and nothing of the record changes.
func TestProviderPeopleChooseNothing(t *testing.T) {
	store := newStore(t)
	before := storage.User{Name: "company/ada", Subject: "subject", Created: time.Now().UTC()}
	if err := store.CreateUser(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	week := admin.Link{For: 7 * 24 * time.Hour}
	for _, name := range []string{"company/ada", " Company/Ada", "company/grace"} {
		if _, err := admin.Invite(t.Context(), store, name, week); !errors.Is(err, admin.ErrUserName) {
			t.Errorf("a link for %q: %v", name, err)
		}
		if _, err := admin.Reset(t.Context(), store, name, week); !errors.Is(err, admin.ErrElsewhere) {
			t.Errorf("a new link for %q: %v", name, err)
		}
		if err := admin.SetPassword(t.Context(), store, name, "a good password"); !errors.Is(err, admin.ErrElsewhere) {
			t.Errorf("a password for %q: %v", name, err)
		}
	}
	if _, err := store.User(t.Context(), "company/grace"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("there is a person for a link that was refused: %v", err)
	}
	if after, err := store.User(t.Context(), before.Name); err != nil || after.Password != "" || after.Invitation != nil || after.SessionEpoch != 0 {
		t.Errorf("the record is %+v, %v", after, err)
	}
}

// TestDisabledPersonChoosesNothing: neither a link nor a password would let a disabled person in, so both
// are refused with the next step, and nothing changes.
func TestDisabledPersonChoosesNothing(t *testing.T) {
	store := newStore(t)
	user, err := admin.AddUser(t.Context(), store, "ada", "a good password")
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.DisableUser(t.Context(), store, "ada"); err != nil {
		t.Fatal(err)
	}
	link, err := admin.Reset(t.Context(), store, "ada", admin.Link{For: time.Hour})
	if !errors.Is(err, admin.ErrDisabled) || !strings.Contains(err.Error(), "authz user rm") || link.Token != "" {
		t.Errorf("a link: %+v, %v", link, err)
	}
	if err := admin.SetPassword(t.Context(), store, "ada", "another password"); !errors.Is(err, admin.ErrDisabled) {
		t.Errorf("a password: %v", err)
	}
	if after, err := store.User(t.Context(), "ada"); err != nil || after.Password != user.Password || after.Invitation != nil || after.SessionEpoch != 0 {
		t.Errorf("the record is %+v, %v", after, err)
	}
}
