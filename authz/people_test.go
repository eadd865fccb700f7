package authz_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

func TestPeople(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	ctx := t.Context()
	for _, bad := range []struct {
		name, password string
		want           error
	}{
		{"", personPassword, admin.ErrUserName}, {"a b", personPassword, admin.ErrUserName},
		{"writer", "", admin.ErrPassword}, {"writer", strings.Repeat("a", 1025), admin.ErrPassword},
		{"READER ", personPassword, storage.ErrConflict},
	} {
		if _, err := admin.AddUser(ctx, h.store, bad.name, bad.password); !errors.Is(err, bad.want) {
			t.Errorf("add %q: %v, want %v", bad.name, err, bad.want)
		}
	}
	for name, act := range map[string]func() error{
		"disable": func() error { return admin.DisableUser(ctx, h.store, "nobody") },
		"remove":  func() error { return admin.RemoveUser(ctx, h.store, "nobody") },
		"set":     func() error { return admin.SetPassword(ctx, h.store, "nobody", personPassword) },
	} {
		if err := act(); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s nobody: %v", name, err)
		}
	}
	if err := admin.SetPassword(ctx, h.store, personName, ""); !errors.Is(err, admin.ErrPassword) {
		t.Errorf("an empty password: %v", err)
	}
	writer, err := admin.AddUser(ctx, h.store, "Writer", "a password of writer")
	if err != nil || writer.Name != "writer" || writer.Subject == "" || strings.Contains(writer.Password, "a password of writer") || !strings.HasPrefix(writer.Password, "$argon2id$") {
		t.Fatalf("%+v, %v", writer, err)
	}
	if err := admin.RemoveUser(ctx, h.store, "writer"); err != nil {
		t.Fatal(err)
	}
	again, err := admin.AddUser(ctx, h.store, "writer", "a password of writer")
	if err != nil || again.Subject == writer.Subject {
		t.Errorf("another person under the same name: %v, same subject %t", err, again.Subject == writer.Subject)
	}
}

// TestSetPassword: the old password stops working, the new one works, and sessions that began
// with the old one end.
func TestSetPassword(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	signedIn := h.newBrowser()
	signedIn.code(asks(c))
	if err := admin.SetPassword(t.Context(), h.store, personName, "another password"); err != nil {
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
	if r := signedIn.walk(replaced(asks(c), "prompt", "none"), "allow"); r.location(t).Query().Get("error") != "login_required" {
		t.Errorf("who was signed in: %s", r)
	}
}

// TestDisableEverywhere: disabling a person ends all of their grants, of every client, and no
// grant of another person.
func TestDisableEverywhere(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	h.addPerson("writer")
	clients := []testClient{testClients()["native"], testClients()["app"], testClients()["basic"]}
	var readers []tokens
	for _, c := range clients {
		readers = append(readers, h.tokens(c))
	}
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + asks(clients[0]).Encode())
	b.follow()
	b.submit("username", "writer", "password", personPassword)
	bobs := b.tokens(clients[0], asks(clients[0]))
	signedIn := h.signedInAt("/account")
	if err := admin.DisableUser(t.Context(), h.store, " READER "); err != nil {
		t.Fatal(err)
	}
	for i, held := range readers {
		if h.active(held.access) {
			t.Errorf("%s: the access token lives", clients[i].ID)
		}
		mustRefuse(t, h.toToken(clients[i], refreshing(clients[i], held.refresh)), http.StatusBadRequest, "invalid_grant")
	}
	if !h.active(bobs.access) {
		t.Error("another person lost their grant")
	}
	if r := signedIn.open(h.issuer + "/account"); r.status != http.StatusSeeOther {
		t.Errorf("the session lives: %s", r)
	}
	if err := admin.DisableUser(t.Context(), h.store, personName); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// TestStrangeHashes: a password hash that cannot be read, or would cost too much, refuses
// every sign-in and does no harm.
func TestStrangeHashes(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	hash := personHash
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + asks(c).Encode())
	b.follow()
	for i, strange := range []string{
		"", "$", "correct horse battery", "$argon2id$", strings.Replace(hash, "argon2id", "argon2i", 1), strings.Replace(hash, "v=19", "v=16", 1),
		strings.Replace(hash, "m=64", "m=4294967295", 1), strings.Replace(hash, "m=64", "m=x", 1), strings.Replace(hash, "t=1", "t=0", 1),
		strings.Replace(hash, "t=1", "t=4000000000", 1), strings.Replace(hash, "p=1", "p=0", 1), strings.Replace(hash, "p=1", "p=256", 1),
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

// TestPasswordIsExact: a password is compared exactly as typed, including spaces.
func TestPasswordIsExact(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + asks(c).Encode())
	b.follow()
	for _, wrong := range []string{" " + personPassword, personPassword + " ", strings.ToUpper(personPassword), personPassword[:len(personPassword)-1]} {
		if r := b.submit("username", personName, "password", wrong); r.status != http.StatusForbidden {
			t.Errorf("%q: %s", wrong, r)
		}
	}
}
