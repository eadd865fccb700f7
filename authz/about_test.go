package authz_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// personal are the claims about a person.
var personal = []string{"groups", "groups_overage", "email", "name"}

// told returns the claims about a person in an object.
func told(members map[string]any) string {
	var out []string
	for _, claim := range personal {
		if v, ok := members[claim]; ok {
			out = append(out, fmt.Sprintf("%s=%v", claim, v))
		}
	}
	return strings.Join(out, " ")
}

// tellAll gives the person a name, an address and a group of each kind.
func (h *harness) tellAll() {
	h.t.Helper()
	h.changePerson(func(u *storage.User) {
		u.FullName, u.Email = "Ada Reader", "ada@example.com"
		u.Identities = []storage.Identity{
			{Provider: "company", Issuer: "https://login.example.com", Subject: "1", Groups: []string{"staff", "/team/a"}},
			{Provider: "former", Issuer: "https://login.example.org", Subject: "2", Groups: []string{"admins"}},
		}
	})
}

// TestNothingIsToldUnasked: without configuration no token and no answer says anything about the
// person but the subject.
func TestNothingIsToldUnasked(t *testing.T) {
	t.Parallel()
	h, c := newGuarded(t, func(c *authz.Config) { c.SetProviders("company") }), testClients()["native"]
	h.tellAll()
	held := h.tokens(c)
	for what, members := range map[string]map[string]any{"token": claims(t, held.access), "introspection": h.introspect(held.access).json(t)} {
		if got := told(members); got != "" {
			t.Errorf("%s: %s", what, got)
		}
		if text := fmt.Sprint(members); strings.Contains(text, personName) || strings.Contains(text, "ada") {
			t.Errorf("%s: %s", what, text)
		}
	}
}

// TestToldWhatIsConfigured: a token tells what all of its resources are configured for;
// introspection tells each what it is configured for, by what holds now.
func TestToldWhatIsConfigured(t *testing.T) {
	t.Parallel()
	h, c := newGuarded(t, func(c *authz.Config) {
		c.SetProviders("company")
		c.Groups = map[string][]string{"readers": {personName, "somebody"}, "others": {"somebody"}}
		c.Resources[0].Claims, c.Resources[1].Claims = []string{"groups", "email"}, []string{"name", "groups"}
	}), testClients()["native"]
	h.tellAll()
	w := h.twoTokens(c)
	all := "groups=[admins company//team/a company/staff readers staff]"
	both := w.token(notes, tasks).member(t, "access_token")
	for what, tt := range map[string]struct {
		members map[string]any
		want    string
	}{
		"a token for notes": {claims(t, w.ofNotes), all + " email=ada@example.com"},
		"a token for tasks": {claims(t, w.ofTasks), all + " name=Ada Reader"},
		"a token for both":  {claims(t, both), all},
		"notes is told":     {h.introspect(both).json(t), all + " email=ada@example.com"},
		"tasks is told":     {h.introspectAs("tasks", tasksSecret, both).json(t), all + " name=Ada Reader"},
	} {
		if got := told(tt.members); got != tt.want {
			t.Errorf("%s: %q, want %q", what, got, tt.want)
		}
	}
	h.leave("admins")
	h.changePerson(func(u *storage.User) { u.Email = "new@example.com" })
	if got := told(h.introspect(both).json(t)); got != strings.Replace(all, "admins ", "", 1)+" email=new@example.com" {
		t.Errorf("after a change: %q", got)
	}
	h.leave("staff")
	if got := told(h.introspectAs("tasks", tasksSecret, both).json(t)); got != "" {
		t.Errorf("a resource that is not open to the person is told %q", got)
	}
}

// TestToldWithinBounds: a token stays small. Groups that do not fit are left out as a whole, and
// the token says so; introspection has more room, with a bound too.
func TestToldWithinBounds(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{config: func(c *authz.Config) {
		c.SetProviders("company")
		c.Resources[0].Claims = []string{"groups", "email", "name"}
		c.SigningAlgorithm = "RS256"
	}}), testClients()["native"]
	groups := func(n, size int) {
		h.changePerson(func(u *storage.User) {
			u.FullName, u.Email = strings.Repeat("n", 256), strings.Repeat("e", 256)
			u.Identities = []storage.Identity{{Provider: "company", Issuer: "https://login.example.com"}}
			for i := range n {
				u.Identities[0].Groups = append(u.Identities[0].Groups, fmt.Sprintf("%0*d", size, i))
			}
		})
	}
	for _, tt := range []struct {
		n, size      int
		token, asked bool // the groups are told
	}{{0, 1, true, true}, {60, 5, true, true}, {90, 5, false, true}, {5000, 5, false, false}} {
		groups(tt.n, tt.size)
		held := h.tokens(c)
		if len(held.access) > 4<<10 {
			t.Errorf("%d groups: the token has %d bytes", tt.n, len(held.access))
		}
		for what, in := range map[bool]map[string]any{true: claims(t, held.access), false: h.introspect(held.access).json(t)} {
			want, list := tt.asked, []any(nil)
			if what {
				want = tt.token
			}
			list, there := in["groups"].([]any)
			if there != want || there && len(list) != tt.n || (in["groups_overage"] == true) == want {
				t.Errorf("%d groups, token %t: told %t, %d of them, overage %v", tt.n, what, there, len(list), in["groups_overage"])
			}
			if in["email"] == nil || in["name"] == nil {
				t.Errorf("%d groups: no name or address", tt.n)
			}
		}
	}
	h.changePerson(func(u *storage.User) { u.FullName, u.Email = strings.Repeat("n", 257), strings.Repeat("e", 257) })
	if in := claims(t, h.tokens(c).access); in["name"] != nil || in["email"] != nil {
		t.Error("a text without a bound is in the token")
	}
}

// TestProvidersSpeakForThemselves: a group of a provider is PROVIDER/GROUP, whatever the provider
// calls it, and counts while the provider is configured.
func TestProvidersSpeakForThemselves(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{config: func(c *authz.Config) {
		c.SetProviders("company", "partner")
		c.Resources[0].Claims = []string{"groups"}
		c.Resources[0].Scopes[1].Allow = authz.Allow{Groups: []string{"admins", "company/admins"}}
	}}), testClients()["native"]
	if _, err := admin.AddGroup(t.Context(), h.store, "admins"); err != nil {
		t.Fatal(err)
	}
	held := h.tokens(c)
	for _, tt := range []struct {
		provider string
		groups   []string
		in       string
	}{
		{"company of another issuer", []string{"admins"}, "[]"},
		{"company", []string{"admins"}, "[company/admins]"},
		{"partner", []string{"admins", "company/admins", "../company/admins", "/company/admins", "", "a\nb"}, "[partner/../company/admins partner//company/admins partner/admins partner/company/admins]"},
		{"former", []string{"admins"}, "[]"},
		{"", []string{"admins", "company/admins"}, "[]"},
		{"company/admins", []string{"x"}, "[]"},
		{"comp", []string{"any/admins"}, "[]"},
	} {
		h.changePerson(func(u *storage.User) {
			issuer := "https://login.example.com"
			provider, other := strings.CutSuffix(tt.provider, " of another issuer")
			if other {
				issuer = "https://login.example.org"
			}
			u.Identities = []storage.Identity{{Provider: provider, Issuer: issuer, Groups: tt.groups}}
		})
		if in := fmt.Sprint(h.introspect(held.access).json(t)["groups"]); in != tt.in {
			t.Errorf("%s %q: %s, want %s", tt.provider, tt.groups, in, tt.in)
		}
		b := h.newBrowser()
		want := []string{"notes:read"}
		if tt.provider == "company" {
			want = append(want, "notes:write")
		}
		if got := b.consentTo(asks(c)).boxes()["Permissions"]; !slices.Equal(got, want) {
			t.Errorf("%s %q: offered %v, want %v", tt.provider, tt.groups, got, want)
		}
	}
}

// TestGroupsOfTheConfiguration: a group of the configuration and one of the store with the same
// name have the members of both, and the log says so.
func TestGroupsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	h, c := newGuarded(t, nil), testClients()["native"]
	held := h.tokens(c)
	h.leave("admins")
	for _, tt := range []struct {
		members []string
		joined  bool
		want    string
	}{
		{[]string{personName}, false, "notes:read notes:write"},
		{[]string{"somebody"}, false, "notes:read"},
		{[]string{"somebody"}, true, "notes:read notes:write"},
	} {
		if tt.joined {
			h.join("admins")
		}
		h.cfg.Groups = map[string][]string{"admins": tt.members, "unused": nil}
		h.restart()
		if got := h.scopeAt(notes, held.access); got != tt.want {
			t.Errorf("%v, joined %t: %q, want %q", tt.members, tt.joined, got, tt.want)
		}
	}
	if log := h.log.String(); !strings.Contains(log, "a group is in the configuration and in the store") || strings.Contains(log, "group=unused") {
		t.Errorf("the log: %s", log)
	}
}

// TestWhoMayUseWhatIsNoGuess: while the store does not answer, nobody has no groups.
func TestWhoMayUseWhatIsNoGuess(t *testing.T) {
	t.Parallel()
	h, c := newGuarded(t, nil), testClients()["native"]
	held := h.tokens(c)
	for _, kind := range []string{"grant", "user", "group"} {
		h.clock.advance(5e9)
		for _, known := range []bool{true, false} {
			if !known {
				h.restart()
			}
			h.meter.failReads(kind)
			for what, r := range map[string]reply{"introspection": h.introspect(held.access), "refresh": h.toToken(c, refreshing(c, held.refresh))} {
				if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
					t.Errorf("reads of %s fail, grant known %t: %s: %s", kind, known, what, r)
				}
			}
			h.meter.failReads("")
		}
	}
	l := heldGrant{h: h, c: c, refresh: held.refresh}
	l.mustHold(notes, []string{"notes:read", "notes:write"})
}
