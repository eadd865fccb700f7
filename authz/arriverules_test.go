package authz_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/authz/upstream/upstreamtest"
	"gatehouse.example/storage"
)

// TestArrivingMeanwhile: a sign-in at a provider follows what others write at the same moment. It lets
// nobody in whose account left, it signs nobody in while the provider's token cannot be kept, and an
// alias of somebody who does not list the account is taken.
func TestArrivingMeanwhile(t *testing.T) {
	t.Parallel()
	c := testClients()["native"]
	for what, tt := range map[string]struct {
		kind   string
		change func(p *atProvider)
		status int
	}{
		"another name":   {"user", func(p *atProvider) { p.changeAda(func(u *storage.User) { u.FullName = "Another" }) }, http.StatusSeeOther},
		"removed":        {"user", func(p *atProvider) { p.must(admin.RemoveUser(t.Context(), p.store, adaName)) }, http.StatusBadRequest},
		"disconnected":   {"user", func(p *atProvider) { p.changeAda(func(u *storage.User) { u.Identities = nil }) }, http.StatusBadRequest},
		"store down":     {"provider-token", func(p *atProvider) { p.faults.SetDown(true) }, http.StatusServiceUnavailable},
		"nothing at all": {"none", nil, http.StatusSeeOther},
	} {
		p := newAtProvider(t, func(c *authz.Config) { c.Providers[0].Recheck = time.Hour })
		p.company.Change(func(a *upstreamtest.Answers) { a.Rotates = true })
		p.newBrowser().arrive(p.company, "company", asks(c))
		p.wantLogged(`msg="account made" user=` + adaName + " sub=" + p.user(t, adaName).Subject + " provider=company provider_sub=1")
		p.wantLogged(`msg="signed in" user=` + adaName + " sub=" + p.user(t, adaName).Subject + " provider=company")
		p.company.SignIn(personOf("1", "ada@example.com", "name", "Ada L"))
		b := p.newBrowser()
		b.choose("company", asks(c))
		back := b.leave(p.company).String()
		done := p.meanwhile(tt.kind, func() { tt.change(p) })
		r := b.open(back)
		done()
		p.faults.SetDown(false)
		if r.status != tt.status || (cookiesOf(t, r)[hostSession] != nil) != (tt.status == http.StatusSeeOther) {
			t.Errorf("%s: %s", what, r)
		}
		if user, err := p.store.User(t.Context(), adaName); tt.status == http.StatusSeeOther && (err != nil || user.FullName != "Ada L") {
			t.Errorf("%s: on record: %+v, %v", what, user, err)
		}
	}
}

// changeAda changes the record of the person of the fake provider.
func (p *atProvider) changeAda(change func(*storage.User)) {
	p.t.Helper()
	user, err := p.store.User(p.t.Context(), adaName)
	p.must(err)
	change(&user)
	p.must(p.store.UpdateUser(p.t.Context(), user))
}

// TestAliasOfNobodyIsTaken: an alias that leads to somebody who does not list the account, or to a
// record in place of theirs, does not keep the person of the account out.
func TestAliasOfNobodyIsTaken(t *testing.T) {
	t.Parallel()
	for what, subject := range map[string]string{"who does not list it": "", "who is another now": "former"} {
		p := newAtProvider(t, nil)
		reader, id := p.user(t, personName), p.aliasAt("1")
		if subject == "" {
			subject = reader.Subject
		} else {
			reader.Identities = []storage.Identity{{Provider: "company", Issuer: p.company.URL(), Subject: "1"}}
			p.must(p.store.UpdateUser(t.Context(), reader))
		}
		p.must(p.store.PutAlias(t.Context(), id, storage.Alias{}.Leading(personName, subject)))
		p.newBrowser().arrive(p.company, "company", asks(testClients()["native"]))
		if user, err := p.store.UserOf(t.Context(), id); err != nil || user.Name != adaName {
			t.Errorf("%s: the account leads to %q, %v", what, user.Name, err)
		}
	}
}

// TestAliasTakenTwice: of a sign-in that took an alias from somebody who then listed the account, and a
// third one who has it meanwhile, the third one keeps it.
func TestAliasTakenTwice(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, nil)
	writer := p.addPerson("writer")
	reader, id := p.user(t, personName), p.aliasAt("1")
	p.must(p.store.PutAlias(t.Context(), id, storage.Alias{}.Leading(reader.Name, reader.Subject)))
	b := p.newBrowser()
	b.choose("company", asks(testClients()["native"]))
	back := b.leave(p.company).String()
	lists := func(name string) {
		user := p.user(t, name)
		user.Identities = []storage.Identity{{Provider: "company", Issuer: p.company.URL(), Subject: "1", Handle: "ada@example.com"}}
		p.must(p.store.UpdateUser(t.Context(), user))
	}
	taken := false
	steal := func(op, key string) {
		if op != "put" || !strings.HasPrefix(key, "gatehouse:alias:") || taken {
			return
		}
		taken = true
		lists(personName)
		alias, err := p.store.Alias(t.Context(), id)
		p.must(err)
		lists("writer")
		p.must(p.store.PutAlias(t.Context(), id, alias.Leading(writer.Name, writer.Subject)))
	}
	p.meter.after.Store(&steal)
	r := b.open(back)
	p.meter.after.Store(nil)
	if user, err := p.store.UserOf(t.Context(), id); err != nil || user.Name != "writer" || r.status != http.StatusSeeOther {
		t.Errorf("the account leads to %q, %v: %s", user.Name, err, r)
	}
	if _, err := p.store.User(t.Context(), adaName); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the sign-in made another account: %v", err)
	}
}
