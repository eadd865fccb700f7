package admin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// storePerson stores a person with every way to sign in, in a group and in one that was made again,
// and returns what no view may show.
func storePerson(t *testing.T, store *storage.Store) (secrets []string) {
	t.Helper()
	ctx, now := t.Context(), store.Now()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	user, err := admin.AddUser(ctx, store, "ada", "correct horse battery")
	must(err)
	for _, group := range []string{"admins", "again"} {
		_, err := admin.AddGroup(ctx, store, group)
		must(err)
		must(admin.JoinGroup(ctx, store, group, "ada"))
	}
	must(admin.RemoveGroup(ctx, store, "again"))
	_, err = admin.AddGroup(ctx, store, "again")
	must(err)
	user, err = store.User(ctx, "ada")
	must(err)
	sealed, err := store.SealFactor("ada", []byte("the shared secret"))
	must(err)
	user.SecondFactor = &storage.SecondFactor{Secret: sealed, Created: now, Recovery: []storage.SecretHash{storage.HashSecret("one"), storage.HashSecret("two")}}
	user.Passkeys = []storage.Passkey{{ID: []byte("credential-id"), PublicKey: []byte("public-key"), Name: "Laptop", Created: now}}
	user.Identities = []storage.Identity{{Provider: "company", Issuer: "https://login.example.com", Subject: "1", Handle: "ada@example.com", Groups: []string{"staff"}, Linked: now}}
	user.Invitation = &storage.Invitation{Token: storage.HashSecret("link"), Created: now, Expires: now.Add(time.Hour)}
	user.FullName, user.Email = "Ada", "ada@example.com"
	must(store.UpdateUser(ctx, user))
	for i := range 30 {
		at := now.Add(time.Duration(i) * time.Second)
		secret := fmt.Sprint("cookie", i)
		must(store.CreateSession(ctx, secret, storage.Session{
			UserName: "ada", Subject: user.Subject, Epoch: user.SessionEpoch, Method: "password", Browser: fmt.Sprint("Browser ", i),
			AuthTime: at, Expires: now.Add(time.Hour),
		}))
		g, code, err := store.PrepareGrant(storage.NewGrant{
			ClientID: fmt.Sprint("https://client.example.com/", i), Subject: user.Subject, UserName: "ada", ClientName: "Notes app", From: "192.0.2.1",
			Access: storage.Access{{Resource: "https://notes.example.com/mcp", Scopes: []string{"notes:read"}}}, CodeTTL: time.Minute,
			Resources: []string{"https://notes.example.com/mcp"},
		})
		must(err)
		g.Created = at
		must(store.CreateGrant(ctx, g))
		secrets = append(secrets, secret, storage.SessionID(secret), code)
	}
	must(store.CreateSession(ctx, "ended", storage.Session{UserName: "ada", Subject: user.Subject, Epoch: user.SessionEpoch - 1, AuthTime: now, Expires: now.Add(time.Hour), Browser: "Ended"}))
	return append(secrets, user.Password, "argon2", "credential-id", "public-key", `"seed":`, `"token":`, `"secret":`, `"code":`)
}

// TestProfile: the profile has what a person has and nothing secret, the newest of long lists, and
// all of them on request. A disabled person has no sessions and grants.
func TestProfile(t *testing.T) {
	store := newStore(t)
	ctx := t.Context()
	secrets := storePerson(t, store)
	p, err := admin.ProfileOf(ctx, store, "ADA", 20)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Password || p.SecondFactor.RecoveryCodes != 2 || len(p.Passkeys) != 1 || p.Passkeys[0].Name != "Laptop" || p.LinkExpires.IsZero() || len(p.Identities) != 1 ||
		strings.Join(p.Groups, " ") != "admins" || p.FullName != "Ada" {
		t.Errorf("the profile is %+v", p)
	}
	if len(p.Sessions) != 20 || !p.MoreSessions || p.Sessions[0].Browser != "Browser 29" || len(p.Grants) != 20 || !p.MoreGrants || p.Grants[0].ClientName != "Notes app" {
		t.Errorf("%d sessions, more %t; %d grants, more %t", len(p.Sessions), p.MoreSessions, len(p.Grants), p.MoreGrants)
	}
	all, err := admin.ProfileOf(ctx, store, "ada", 0)
	if err != nil || len(all.Sessions) != 30 || all.MoreSessions || len(all.Grants) != 30 || all.MoreGrants {
		t.Errorf("all: %d sessions, %d grants, %v", len(all.Sessions), len(all.Grants), err)
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if strings.Contains(string(text), secret) {
			t.Errorf("the profile has %q", secret)
		}
	}
	for u, err := range admin.Users(ctx, store) {
		if err != nil || strings.Join(u.Groups, " ") != "admins" {
			t.Errorf("the list has %+v, %v", u, err)
		}
	}
	if err := admin.DisableUser(ctx, store, "ada"); err != nil {
		t.Fatal(err)
	}
	if p, err = admin.ProfileOf(ctx, store, "ada", 20); err != nil || !p.Disabled || len(p.Sessions)+len(p.Grants) != 0 {
		t.Errorf("disabled: %+v, %v", p, err)
	}
	if _, err := admin.ProfileOf(ctx, store, "nobody", 20); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
}
