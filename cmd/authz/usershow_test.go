package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"gatehouse.example/authz/admin"
)

// TestProfileIsInert: nothing that a person, a client or a provider chose reaches a terminal as
// control characters, in text and in JSON.
func TestProfileIsInert(t *testing.T) {
	t.Parallel()
	bad := "a\x1b[31m\u202eb\u009b\n  state  active"
	p := shownUser{FileGroups: []string{bad}, Profile: admin.Profile{
		User: admin.User{Name: bad, Subject: bad, Groups: []string{bad},
			Identities: []admin.Identity{{Provider: bad, Issuer: bad, Subject: bad, Handle: bad, Groups: []string{bad}}}},
		FullName: bad, Email: bad, Passkeys: []admin.Passkey{{Name: bad}},
		Sessions: []admin.Session{{Method: bad, Provider: bad, Browser: bad, From: bad}}, MoreSessions: true,
		Grants: []admin.HeldGrant{{Grant: admin.Grant{ID: bad, ClientID: bad, ClientName: bad, Resources: []string{bad}, Scopes: []string{bad}, State: "active"}, From: bad}}, MoreGrants: true,
	}}
	var text, encoded strings.Builder
	if err := printProfile(&text, p); err != nil {
		t.Fatal(err)
	}
	if err := (&program{stdout: &encoded}).printJSON(p); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{text.String(), encoded.String()} {
		if i := strings.IndexFunc(out, func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }); i >= 0 {
			t.Errorf("the output has %q", out[max(i-10, 0):i+10])
		}
	}
	if strings.Contains(text.String(), "\n  state  active") {
		t.Error("a name makes a line of its own")
	}
	for _, says := range []string{"authz user show --all", "authz grant ls --user"} {
		if !strings.Contains(text.String(), says) {
			t.Errorf("the output does not say %s", says)
		}
	}
	var back shownUser
	if err := json.Unmarshal([]byte(encoded.String()), &back); err != nil || back.Name != bad {
		t.Errorf("read back: %q, %v", back.Name, err)
	}
}

// TestGroupWords: a line has a bounded number of groups, and says how many there are.
func TestGroupWords(t *testing.T) {
	t.Parallel()
	r := admin.User{Groups: []string{"admins"}, Identities: []admin.Identity{{Provider: "company", Groups: []string{"a", "b"}, Used: time.Now()}}}
	for most, want := range map[int]string{3: "admins company/a company/b", 2: "admins company/a and 1 more"} {
		if got := groupWords(r, most); got != want {
			t.Errorf("%d: %q, want %q", most, got, want)
		}
	}
	if got := groupWords(admin.User{}, 3); got != "-" {
		t.Errorf("none: %q", got)
	}
}

// TestWaysOfPeople: each way to sign in is a line, and somebody who has none is told how to get one.
func TestWaysOfPeople(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, r := range map[string]admin.Profile{
		"password": {Password: true},
		"second factor, since 2026-01-02T03:04:05Z, 1 recovery code left": {SecondFactor: &admin.SecondFactor{Created: at, RecoveryCodes: 1}},
		`passkey "Phone", since 2026-01-02T03:04:05Z, last used -`:        {Passkeys: []admin.Passkey{{Name: "Phone", Created: at}}},
		"one-time link, until 2026-01-02T03:04:05Z":                       {LinkExpires: at},
		"- (nothing: authz user reset makes a one-time link)":             {},
	} {
		if got := waysOf(r); len(got) != 1 || got[0] != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestUserLine: the line of a person has what a list is read for.
func TestUserLine(t *testing.T) {
	t.Parallel()
	company := []admin.Identity{{Provider: "company", Handle: "ada@example.com", Groups: []string{"staff"}}}
	for want, r := range map[string]admin.User{
		"ada\tactive\t-\ts\tcompany:ada@example.com\tadmins company/staff": {Name: "ada", Subject: "s", Identities: company, Groups: []string{"admins"}},
		"ada\tinvited\t-\ts\t-\t-":  {Name: "ada", Subject: "s", Invited: true},
		"ada\tdisabled\t-\ts\t-\t-": {Name: "ada", Subject: "s", Invited: true, Disabled: true},
	} {
		if got := userLine(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
