package authz_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

func TestCanonicalUserName(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"alice": "alice", " Alice\t": "alice", "ALICE@Example.COM": "alice@example.com", "a.b_c+d-e": "a.b_c+d-e", "7of9": "7of9",
		strings.Repeat("a", 64): strings.Repeat("a", 64),
	} {
		if got, err := authz.CanonicalUserName(raw); got != want || err != nil {
			t.Errorf("%q: %q, %v", raw, got, err)
		}
	}
	for _, raw := range []string{
		"", " ", ".alice", "-alice", "@alice", "_", "+x", "al ice", "alice:x", "alice/x", "alicе", "ａlice", "alice\x00", "alice\u200b",
		"\u212alice", "ſam", "a*b", strings.Repeat("a", 65), "<b>", `a"b`,
	} {
		if got, err := authz.CanonicalUserName(raw); !errors.Is(err, authz.ErrUserName) {
			t.Errorf("%q is taken as %q, %v", raw, got, err)
		}
	}
}

func TestPeople(t *testing.T) {
	t.Parallel()
	h := newHouse(t, build{})
	ctx := t.Context()
	for _, bad := range []struct {
		name, password string
		want           error
	}{
		{"", personPassword, authz.ErrUserName}, {"a b", personPassword, authz.ErrUserName},
		{"bob", "", authz.ErrPassword}, {"bob", strings.Repeat("a", 1025), authz.ErrPassword},
		{"ALICE ", personPassword, storage.ErrConflict},
	} {
		if _, err := authz.AddUser(ctx, h.store, bad.name, bad.password); !errors.Is(err, bad.want) {
			t.Errorf("add %q: %v, want %v", bad.name, err, bad.want)
		}
	}
	for name, act := range map[string]func() error{
		"disable": func() error { return authz.DisableUser(ctx, h.store, "nobody") },
		"remove":  func() error { return authz.RemoveUser(ctx, h.store, "nobody") },
		"set":     func() error { return authz.SetPassword(ctx, h.store, "nobody", personPassword) },
	} {
		if err := act(); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s nobody: %v", name, err)
		}
	}
	if err := authz.SetPassword(ctx, h.store, personName, ""); !errors.Is(err, authz.ErrPassword) {
		t.Errorf("an empty password: %v", err)
	}
	bob, err := authz.AddUser(ctx, h.store, "Bob", "a password of bob")
	if err != nil || bob.Name != "bob" || bob.Subject == "" || strings.Contains(bob.Password, "a password of bob") || !strings.HasPrefix(bob.Password, "$argon2id$") {
		t.Fatalf("%+v, %v", bob, err)
	}
	if err := authz.RemoveUser(ctx, h.store, "bob"); err != nil {
		t.Fatal(err)
	}
	again, err := authz.AddUser(ctx, h.store, "bob", "a password of bob")
	if err != nil || again.Subject == bob.Subject {
		t.Errorf("somebody else under the same name: %v, same subject %t", err, again.Subject == bob.Subject)
	}
}

// TestSetPassword: the old password stops working, the new one works, and who is signed
// in stays so.
func TestSetPassword(t *testing.T) {
	t.Parallel()
	h, c := newHouse(t, build{}), cast()["native"]
	signedIn := h.newBrowser()
	signedIn.code(asks(c))
	if err := authz.SetPassword(t.Context(), h.store, personName, "another password"); err != nil {
		t.Fatal(err)
	}
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + asks(c).Encode())
	b.follow()
	if r := b.submit("username", personName, "password", personPassword); r.status != http.StatusForbidden {
		t.Errorf("the old password: %s", r)
	}
	if r := b.submit("username", personName, "password", "another password"); r.status != http.StatusSeeOther {
		t.Errorf("the new password: %s", r)
	}
	signedIn.code(asks(c))
}

// TestDisableEverywhere: disabling a person ends all of their grants, of every client,
// and nobody else's.
func TestDisableEverywhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t, build{})
	h.addPerson("bob")
	clients := []member{cast()["native"], cast()["app"], cast()["basic"]}
	var alices []tokens
	for _, c := range clients {
		alices = append(alices, h.tokens(c))
	}
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + asks(clients[0]).Encode())
	b.follow()
	b.submit("username", "bob", "password", personPassword)
	bobs := b.tokens(clients[0], asks(clients[0]))
	if err := authz.DisableUser(t.Context(), h.store, " ALICE "); err != nil {
		t.Fatal(err)
	}
	for i, held := range alices {
		if h.active(held.access) {
			t.Errorf("%s: the access token lives", clients[i].ID)
		}
		mustRefuse(t, h.toToken(clients[i], refreshing(clients[i], held.refresh)), http.StatusBadRequest, "invalid_grant")
	}
	if !h.active(bobs.access) {
		t.Error("somebody else lost their grant")
	}
	if err := authz.DisableUser(t.Context(), h.store, personName); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// TestStrangeHashes: a password hash that cannot be read, or would cost too much, lets
// nobody in and does no harm.
func TestStrangeHashes(t *testing.T) {
	t.Parallel()
	h, c := newHouse(t, build{}), cast()["native"]
	hash, err := personHash()
	if err != nil {
		t.Fatal(err)
	}
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + asks(c).Encode())
	b.follow()
	for i, strange := range []string{
		"", "$", "correct horse battery", "$argon2id$", strings.Replace(hash, "argon2id", "argon2i", 1), strings.Replace(hash, "v=19", "v=16", 1),
		strings.Replace(hash, "m=19456", "m=4294967295", 1), strings.Replace(hash, "m=19456", "m=x", 1), strings.Replace(hash, "t=2", "t=0", 1),
		strings.Replace(hash, "t=2", "t=4000000000", 1), strings.Replace(hash, "p=1", "p=0", 1), strings.Replace(hash, "p=1", "p=256", 1),
		hash[:strings.LastIndex(hash, "$")+1], hash + "$x", "$2a$10$abcdefghijklmnopqrstuv",
	} {
		user := storage.User{Name: "user" + string(rune('a'+i)), Subject: "s", Password: strange}
		if err := h.store.CreateUser(t.Context(), user); err != nil {
			t.Fatal(err)
		}
		if r := b.submit("username", user.Name, "password", personPassword); r.status != http.StatusForbidden {
			t.Errorf("%q: %s", strange, r)
		}
	}
}

// TestPasswordIsExact: a password is taken as it is typed, spaces included.
func TestPasswordIsExact(t *testing.T) {
	t.Parallel()
	h, c := newHouse(t, build{}), cast()["native"]
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + asks(c).Encode())
	b.follow()
	for _, wrong := range []string{" " + personPassword, personPassword + " ", strings.ToUpper(personPassword), personPassword[:len(personPassword)-1]} {
		if r := b.submit("username", personName, "password", wrong); r.status != http.StatusForbidden {
			t.Errorf("%q: %s", wrong, r)
		}
	}
}
