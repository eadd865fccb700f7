package authz_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// guarded lets admins write notes, and staff use tasks.
func guarded(c *authz.Config) {
	c.Resources[0].Scopes[1].Allow = authz.Allow{Groups: []string{"admins"}}
	c.Resources[1].Allow = authz.Allow{Groups: []string{"staff"}}
	c.Resources[1].DefaultScopes = nil
}

// newGuarded returns a harness with guarded and the groups admins and staff, of which the person
// is a member.
func newGuarded(t *testing.T, config func(*authz.Config)) *harness {
	t.Helper()
	h := newHarness(t, setup{config: func(c *authz.Config) {
		guarded(c)
		if config != nil {
			config(c)
		}
	}})
	for _, group := range []string{"admins", "staff"} {
		if _, err := admin.AddGroup(t.Context(), h.store, group); err != nil {
			t.Fatal(err)
		}
		h.join(group)
	}
	h.clock.advance(5 * time.Second) // the server may have looked for the groups before they were made
	return h
}

func (h *harness) join(group string) {
	h.t.Helper()
	if err := admin.JoinGroup(h.t.Context(), h.store, group, personName); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) leave(group string) {
	h.t.Helper()
	if err := admin.LeaveGroup(h.t.Context(), h.store, group, personName); err != nil {
		h.t.Fatal(err)
	}
}

// changePerson changes the record of the person below the functions of the operator.
func (h *harness) changePerson(change func(*storage.User)) {
	h.t.Helper()
	user, err := h.store.User(h.t.Context(), personName)
	if err != nil {
		h.t.Fatal(err)
	}
	change(&user)
	if err := h.store.UpdateUser(h.t.Context(), user); err != nil {
		h.t.Fatal(err)
	}
}

// scopeAt returns the scope that introspection gives for a token at a resource, "-" for a token
// that is not active.
func (h *harness) scopeAt(resource, token string) string {
	h.t.Helper()
	in := h.introspectAs(introspectors[resource][0], introspectors[resource][1], token).json(h.t)
	if in["active"] != true {
		return "-"
	}
	scope, _ := in["scope"].(string)
	return scope
}

// TestScopeLostAndBack: a person who leaves a group loses the scope at the next refresh and the
// next introspection, and has it again after joining. The grant stays as it was consented.
func TestScopeLostAndBack(t *testing.T) {
	t.Parallel()
	h, c := newGuarded(t, nil), testClients()["native"]
	held := h.tokens(c)
	wide := heldGrant{h: h, c: c, refresh: held.refresh}
	wide.mustHold(notes, []string{"notes:read", "notes:write"})
	for range 2 {
		h.leave("admins")
		if got := h.scopeAt(notes, held.access); got != "notes:read" {
			t.Errorf("introspection of the token from before: %q", got)
		}
		wide.mustHold(notes, []string{"notes:read"})
		asked := replaced(refreshing(c, wide.refresh), "scope", "notes:write")
		mustRefuse(t, h.toToken(c, asked), http.StatusBadRequest, "invalid_scope")
		wide.mustHold(notes, []string{"notes:read"}) // the refusal spent nothing
		h.join("admins")
		if got := h.scopeAt(notes, held.access); got != "notes:read notes:write" {
			t.Errorf("introspection after joining again: %q", got)
		}
		wide.mustHold(notes, []string{"notes:read", "notes:write"})
	}
}

// TestResourceLostAndBack: a grant of which nothing is left is invalid_grant, for codes and
// refresh tokens, and nothing is spent: both work when the person is back.
func TestResourceLostAndBack(t *testing.T) {
	t.Parallel()
	h, c := newGuarded(t, nil), testClients()["native"]
	request := asksFor(c, "", tasks)
	held := h.newBrowser().tokens(c, request)
	code := h.newBrowser().code(request)
	h.leave("staff")
	mustRefuse(t, h.toToken(c, refreshing(c, held.refresh)), http.StatusBadRequest, "invalid_grant")
	mustRefuse(t, h.toToken(c, naming(refreshing(c, held.refresh), tasks)), http.StatusBadRequest, "invalid_grant")
	mustRefuse(t, h.toToken(c, redemption(c, code)), http.StatusBadRequest, "invalid_grant")
	if got := h.scopeAt(tasks, held.access); got != "-" {
		t.Errorf("introspection: %q", got)
	}
	h.join("staff")
	if got := h.scopeAt(tasks, held.access); got != "tasks:read tasks:write" {
		t.Errorf("introspection after joining again: %q", got)
	}
	for what, r := range map[string]reply{"the refresh token": h.toToken(c, refreshing(c, held.refresh)), "the code": h.toToken(c, redemption(c, code))} {
		if r.status != http.StatusOK {
			t.Errorf("%s after joining again: %s", what, r)
		}
	}
	// A replay ends the family, also while nothing is open to the person.
	h.leave("staff")
	mustRefuse(t, h.toToken(c, naming(redemption(c, code), tasks)), http.StatusBadRequest, "invalid_grant")
	if !strings.Contains(h.log.String(), "authorization code replayed") {
		t.Error("the replay was not noticed")
	}
}

// TestOneResourceLost: of a grant for two resources the other one stays.
func TestOneResourceLost(t *testing.T) {
	t.Parallel()
	h, c := newGuarded(t, nil), testClients()["native"]
	w := h.twoTokens(c)
	h.leave("staff")
	w.mustBeAlive("without staff", true, false)
	w.mustHold(tasks, nil)
	w.mustHold(notes, []string{"notes:read", "notes:write"})
	mustRefuse(t, w.token(notes, tasks), http.StatusBadRequest, "invalid_target")
	h.leave("admins")
	w.mustHold(notes, []string{"notes:read"})
	h.join("staff")
	w.mustHold(tasks, []string{"tasks:read", "tasks:write"})
	w.mustBeAlive("with staff", true, true)
}

// TestSharedScopeWithTwoRules: a scope of two resources is open to the person at one of them. A
// token for both does not carry it, because the other would honour it.
func TestSharedScopeWithTwoRules(t *testing.T) {
	t.Parallel()
	h, c := newGuarded(t, func(c *authz.Config) {
		sharing(c)
		c.Resources[1].Scopes[2].Allow = authz.Allow{Groups: []string{"admins"}}
	}), testClients()["native"]
	w := h.twoTokens(c)
	scopes := func() string { return w.token(notes, tasks).member(t, "scope") }
	if got := scopes(); got != "notes:read notes:write profile tasks:read tasks:write" {
		t.Errorf("an admin: %q", got)
	}
	h.leave("admins")
	if got := scopes(); got != "notes:read tasks:read tasks:write" {
		t.Errorf("not an admin: %q", got)
	}
	w.mustHold(notes, []string{"notes:read", "profile"})
	w.mustHold(tasks, []string{"tasks:read", "tasks:write"})
}

// TestOnlyScopeLost: a resource of which every consented scope is lost is lost as a whole, whether its
// person lost the group or the configuration the scope. A token without scopes would be good for
// operations that the person did not decide about.
func TestOnlyScopeLost(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(*harness){
		"the group": func(h *harness) { h.leave("admins") },
		"the scope": func(h *harness) {
			h.cfg.Resources[0].Scopes = h.cfg.Resources[0].Scopes[:1]
			h.restart()
		},
	} {
		h, c := newGuarded(t, nil), testClients()["native"]
		held, b := h.newBrowser().tokens(c, asksFor(c, "notes:write", notes)), h.newBrowser()
		page := b.consentTo(asksFor(c, "notes:write", notes))
		code := h.newBrowser().code(asksFor(c, "notes:write", notes))
		lose(h)
		if got := h.scopeAt(notes, held.access); got != "-" {
			t.Errorf("%s: introspection: %q", what, got)
		}
		if r := h.toToken(c, refreshing(c, held.refresh)); r.status != http.StatusBadRequest {
			t.Errorf("%s: refresh: %s", what, r)
		}
		if r := h.toToken(c, redemption(c, code)); r.status != http.StatusBadRequest {
			t.Errorf("%s: code: %s", what, r)
		}
		if b.submit("decision", "allow"); b.last.status < http.StatusBadRequest || page.status != http.StatusOK {
			t.Errorf("%s: the page from before: %s", what, b.last)
		}
	}
}

// TestResourceWithoutScopes: a rule about a resource that has no scopes is one about the resource.
func TestResourceWithoutScopes(t *testing.T) {
	t.Parallel()
	h, c := newGuarded(t, func(c *authz.Config) {
		sharing(c)
		c.Resources[2].Allow = authz.Allow{Groups: []string{"staff"}}
	}), testClients()["native"]
	held := h.newBrowser().tokens(c, asksFor(c, "", files))
	if got := h.scopeAt(files, held.access); got != "" {
		t.Errorf("a member: %q", got)
	}
	h.leave("staff")
	if got := h.scopeAt(files, held.access); got != "-" {
		t.Errorf("no member: %q", got)
	}
}

// TestUntickedStaysOut: what the person did not tick, or was not offered, is not granted when a
// group would allow it later.
func TestUntickedStaysOut(t *testing.T) {
	t.Parallel()
	h, c := newGuarded(t, nil), testClients()["native"]
	unticked := h.redeemFor(c, h.newBrowser().walk(asks(c), "allow", "notes:write"), notes)
	member := h.redeemFor(c, h.newBrowser().walk(asksFor(c, "", tasks), "allow", "tasks:write"), tasks)
	member.mustHold(tasks, []string{"tasks:read"}) // where the rule is about the resource
	h.leave("admins")
	unoffered := h.redeemFor(c, h.newBrowser().walk(asks(c), "allow"), notes)
	for _, l := range []*heldGrant{&unticked, &unoffered} {
		l.mustHold(notes, []string{"notes:read"})
	}
	h.join("admins")
	for _, l := range []*heldGrant{&unticked, &unoffered} {
		l.mustHold(notes, []string{"notes:read"})
	}
}

// TestConsentOffersWhatIsOpen: the page shows what is open to the person and does not name the
// rest; a tick of the rest is refused, also if it was on the page before.
func TestConsentOffersWhatIsOpen(t *testing.T) {
	t.Parallel()
	h, c := newGuarded(t, nil), testClients()["native"]
	h.leave("admins")
	b := h.newBrowser()
	request := asksFor(c, "", notes, tasks)
	page := b.consentTo(request)
	want := map[string][]string{"Notes": {notes + " notes:read"}, "Tasks": {tasks + " tasks:read", tasks + " tasks:write"}}
	if got := page.boxes(); fmt.Sprint(got) != fmt.Sprint(want) || strings.Contains(page.body, "Add and change notes") {
		t.Errorf("offered: %v", got)
	}
	if r := b.tick(notes+" notes:read", notes+" notes:write"); r.status != http.StatusBadRequest || !strings.Contains(r.body, "not on this page") {
		t.Errorf("a tick that was not offered: %s", r)
	}
	h.leave("staff")
	if r := b.tick(notes+" notes:read", tasks+" tasks:read"); r.status != http.StatusBadRequest || strings.Contains(r.body, "tasks:read") {
		t.Errorf("a tick that was offered before: %s", r)
	}
	if got := b.page.boxes(); fmt.Sprint(got) != fmt.Sprint(map[string][]string{"Permissions": {"notes:read"}}) {
		t.Errorf("offered after leaving: %v", got)
	}
	if r := b.tick("notes:read"); r.location(t).Query().Get("code") == "" {
		t.Errorf("the rest: %s", r)
	}
}

// TestNothingIsOpen: a person who may use nothing of what is asked for gets a page that says so.
// The client hears access_denied when the person goes back, and not before.
func TestNothingIsOpen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]testClient{"native": testClients()["native"], "web": testClients()["web"], "app": testClients()["app"]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newGuarded(t, nil)
			h.leave("staff")
			b := h.newBrowser()
			b.walk(asksFor(c, "", tasks), "allow")
			closed := func(r reply) {
				t.Helper()
				if r.status != http.StatusForbidden || r.header.Get("Location") != "" || !strings.Contains(r.body, "Your account may not use this") ||
					!strings.Contains(r.body, "<code>access_denied</code>") || strings.Contains(r.body, `value="allow"`) {
					t.Errorf("not the page: %s", r)
				}
			}
			closed(b.last)
			closed(b.submit("decision", "allow"))
			closed(b.submit("decision", "allow", "scope", "tasks:read"))
			if !strings.Contains(h.log.String(), "nothing of what is asked for is open to the person") || !strings.Contains(h.log.String(), "user "+personName) {
				t.Error("the log does not say why")
			}
			back := b.submit("decision", "deny").location(t)
			if q := back.Query(); q.Get("error") != "access_denied" || q.Get("state") == "" || q.Get("iss") != h.issuer || !strings.HasPrefix(back.String(), c.redirect[:6]) {
				t.Errorf("the client gets %s", back)
			}
			if r := b.submit("decision", "deny"); r.status != http.StatusBadRequest {
				t.Errorf("a second time: %s", r)
			}
			h.join("staff")
			if h.newBrowser().code(asksFor(c, "", tasks)) == "" {
				t.Error("no code for a member")
			}
		})
	}
}

// TestClosedPageTakesNothingBack: who goes back to the application from the page that says that nothing is
// open to them has declined nothing. What they remembered counts again when they may use it again.
func TestClosedPageTakesNothingBack(t *testing.T) {
	t.Parallel()
	trail := &events{}
	h, web := newGuarded(t, func(c *authz.Config) { c.Audit = trail.record }), testClients()["web"]
	request := asksFor(web, "", tasks)
	b := h.newBrowser()
	b.decide(request, "always")
	h.leave("staff")
	b.consentTo(replaced(request, "prompt", "consent"))
	trail.taken()
	back := b.submit("decision", "deny").location(t).Query()
	if back.Get("error") != "access_denied" || !strings.Contains(back.Get("error_description"), "not open to the person") {
		t.Errorf("the client gets %s", back)
	}
	h.join("staff")
	if got := b.unasked(request); got != "code" {
		t.Errorf("for a member again: %s", got)
	}
	for _, e := range trail.taken() {
		if e.Kind == audit.Denied {
			t.Errorf("the trail says that they declined: %+v", e)
		}
	}
}

// TestReplacedGroup: a group of the same name is another group. The server notices within five
// seconds of its clock.
func TestReplacedGroup(t *testing.T) {
	t.Parallel()
	h, c := newGuarded(t, nil), testClients()["native"]
	held := h.tokens(c)
	if got := h.scopeAt(notes, held.access); got != "notes:read notes:write" {
		t.Fatalf("before: %q", got)
	}
	if err := admin.RemoveGroup(t.Context(), h.store, "admins"); err != nil {
		t.Fatal(err)
	}
	h.clock.advance(5*time.Second - 1)
	soon := h.scopeAt(notes, held.access)
	h.clock.advance(1)
	late := h.scopeAt(notes, held.access)
	if soon != "notes:read notes:write" || late != "notes:read" {
		t.Errorf("just before five seconds %q, at five seconds %q", soon, late)
	}
	if _, err := admin.AddGroup(t.Context(), h.store, "admins"); err != nil {
		t.Fatal(err)
	}
	h.clock.advance(5 * time.Second)
	if got := h.scopeAt(notes, held.access); got != "notes:read" {
		t.Errorf("a member of the group before is taken as one of the next: %q", got)
	}
	h.join("admins")
	if got := h.scopeAt(notes, held.access); got != "notes:read notes:write" {
		t.Errorf("a member of the next: %q", got)
	}
}

// TestNobodyHoldsTheGrant: where the person's record is read, one that is disabled, gone or of
// somebody else ends the use of a grant that nobody has revoked yet.
func TestNobodyHoldsTheGrant(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(h *harness){
		"disabled": func(h *harness) { h.changePerson(func(u *storage.User) { u.Disabled = true }) },
		"removed":  func(h *harness) { _ = h.store.DeleteUser(h.t.Context(), personName, h.subject()) },
		"replaced": func(h *harness) { h.changePerson(func(u *storage.User) { u.Subject = "another" }) },
	} {
		for _, known := range []bool{true, false} {
			h, c := newGuarded(t, nil), testClients()["native"]
			held := h.tokens(c)
			code := h.newBrowser().code(asks(c))
			end(h)
			if !known {
				h.restart()
			}
			if h.active(held.access) {
				t.Errorf("%s: the token is active", name)
			}
			mustRefuse(t, h.toToken(c, refreshing(c, held.refresh)), http.StatusBadRequest, "invalid_grant")
			mustRefuse(t, h.toToken(c, redemption(c, code)), http.StatusBadRequest, "invalid_grant")
		}
	}
}

// TestRulesChangeWithARestart: the rules of the configuration that runs now decide, also for
// grants from before.
func TestRulesChangeWithARestart(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	held := h.tokens(c)
	l := heldGrant{h: h, c: c, refresh: held.refresh}
	open := slices.Clone(h.cfg.Resources)
	for _, tt := range []struct {
		allow authz.Allow
		want  string
	}{
		{authz.Allow{People: []string{"somebody"}}, "notes:read"},
		{authz.Allow{People: []string{personName, "somebody"}}, "notes:read notes:write"},
		{authz.Allow{People: []string{personName}, Groups: []string{"team"}}, "notes:read"},
		{authz.Allow{}, "notes:read notes:write"},
	} {
		h.cfg.Resources = slices.Clone(open)
		h.cfg.Resources[0].Scopes = slices.Clone(open[0].Scopes)
		h.cfg.Resources[0].Scopes[1].Allow = tt.allow
		h.restart()
		if got := h.scopeAt(notes, held.access); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.allow, got, tt.want)
		}
		l.mustHold(notes, strings.Fields(tt.want))
	}
	if !strings.Contains(h.log.String(), "authz group add team") {
		t.Error("the log does not say how to make the group that is missing")
	}
}
