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
