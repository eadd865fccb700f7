package authz_test

import (
	"context"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
	"gatehouse.example/storage"
)

// TestStateCountsOnce: whoever kept the cookies of before the callback does not use its state
// again: the provider is not asked, and the state is remembered no longer than it could count.
func TestStateCountsOnce(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	b := p.newBrowser()
	b.choose("company", asks(c))
	back := b.leave(p.company)
	home, err := url.Parse(p.issuer + "/login/company/callback")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, cookie := range b.jar.Cookies(home) {
		cookie.Secure, cookie.Path = true, "/"
		kept.SetCookies(home, []*http.Cookie{cookie})
	}
	if r := b.open(back.String()); r.status != http.StatusSeeOther {
		t.Fatalf("the callback: %s", r)
	}
	asked := p.company.Requests("/token")
	p.clock.advance(9 * time.Minute) // it is still within the time of the transaction
	again := p.newBrowser()
	again.jar = kept
	mustShowPage(t, again.open(back.String()), http.StatusBadRequest)
	if n := p.company.Requests("/token") - asked; n != 0 {
		t.Errorf("the code was sent to the provider %d times more", n)
	}
	state := back.Query().Get("state")
	p.clock.advance(time.Hour)
	if taken, err := p.store.Taken(t.Context(), "state at a provider", state); err != nil || taken {
		t.Errorf("an hour later the state is remembered: %t, %v", taken, err)
	}
}

// TestDecisionIsForOneProvider: the page before a provider decides for that provider only, and for
// a client that is still there.
func TestDecisionIsForOneProvider(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	b := p.newBrowser()
	b.choose("company", asks(c))
	mustShow(t, b.submit("decision", "allow", "provider", "other"), http.StatusForbidden, "invalid_request")
	b.choose("company", asks(c))
	if err := admin.DisableClient(t.Context(), p.store, c.ID); err != nil {
		t.Fatal(err)
	}
	if r := b.submit("decision", "allow"); r.status != http.StatusBadRequest || r.header.Get("Location") != "" {
		t.Errorf("with a client that was disabled meanwhile: %s", r)
	}
}

// TestWhatIsAskedOfTheProvider: what the client asks of a sign-in is asked of the provider. GitHub
// cannot be asked: a client hears that, and the pages of a person take the way back as enough.
func TestWhatIsAskedOfTheProvider(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, func(c *authz.Config) {
		other := c.Providers[1]
		c.Providers[1].Preset, c.Providers[1].Issuer = upstream.GitHub, other.Issuer
	})
	c := testClients()["native"]
	sent := func(provider string, with ...string) url.Values {
		t.Helper()
		b := p.newBrowser()
		b.choose(provider, replaced(asks(c), with...))
		r := b.submit("decision", "allow")
		if r.status != http.StatusSeeOther {
			return nil
		}
		return r.location(t).Query()
	}
	if q := sent("company", "prompt", "login"); q.Get("prompt") != "login" {
		t.Errorf("prompt=login: %v", q)
	}
	if q := sent("company", "max_age", "77"); q.Get("max_age") != "77" {
		t.Errorf("max_age: %v", q)
	}
	if q := sent("company"); q == nil || q.Has("max_age") || q.Get("prompt") == "login" {
		t.Errorf("without either: %v", q)
	}
	if q := sent("other", "prompt", "login"); q != nil {
		t.Errorf("GitHub was asked for a new sign-in: %v", q)
	}
	b := p.newBrowser()
	b.signInForAccount(personName)
	p.clock.advance(11 * time.Minute)
	for id, prompt := range map[string]string{"other": "", "company": "login"} {
		b.open(p.issuer + "/account/providers")
		b.follow()
		fake := map[string]*upstreamtest.Provider{"other": p.other, "company": p.company}[id]
		r := b.submit("provider", id)
		if r.status != http.StatusSeeOther || !strings.HasPrefix(r.header.Get("Location"), fake.URL()) || r.location(t).Query().Get("prompt") != prompt {
			t.Errorf("for a page of this server: %s", r)
		}
	}
}

// TestTimeOfSignIn: a session counts from the sign-in at the provider, and from now if the provider
// was asked for a new one. Where it was asked for a recent one, the sign-in counts as no older than that,
// since its clock may be behind.
func TestTimeOfSignIn(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	for name, asked := range map[string]struct {
		with []string
		old  time.Duration
	}{
		"nothing asked": {nil, 30 * time.Second},
		"prompt=login":  {[]string{"prompt", "login"}, 0},
		"max_age":       {[]string{"max_age", "600"}, 30 * time.Second},
		"just too old":  {[]string{"max_age", "20"}, 20 * time.Second},
	} {
		p.clock.advance(time.Minute)
		now := p.clock.Now()
		p.company.Change(func(a *upstreamtest.Answers) {
			a.IDToken = func(m map[string]any) { m["auth_time"] = now.Add(-30 * time.Second).Unix() }
		})
		p.newBrowser().arrive(p.company, "company", replaced(asks(c), asked.with...))
		var last time.Time
		for session, err := range p.store.Sessions(t.Context(), p.user(t, adaName).Subject) {
			if err != nil {
				t.Fatal(err)
			}
			if session.AuthTime.After(last) {
				last = session.AuthTime
			}
		}
		if got := now.Sub(last).Round(time.Second); got != asked.old {
			t.Errorf("%s: the session counts from %s ago; want %s", name, got, asked.old)
		}
	}
}

// TestRecordFollowsTheProvider: each thing that the provider states differently is on record after
// the next sign-in, and what it states about one account changes no other one. A sign-in that
// changes nothing writes nothing to the record.
func TestRecordFollowsTheProvider(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	come := func(email string, more ...any) storage.User {
		t.Helper()
		p.company.SignIn(personOf("1", email, more...))
		p.newBrowser().arrive(p.company, "company", asks(c))
		return p.user(t, adaName)
	}
	user := come("ada@example.com", "name", "Ada", "groups", []string{"staff"})
	others := []storage.Identity{
		{Provider: "former", Issuer: p.company.URL(), Subject: "1", Handle: "kept"},
		{Provider: "company", Issuer: "https://former.example.com", Subject: "1", Handle: "kept"},
		{Provider: "company", Issuer: p.company.URL(), Subject: "2", Handle: "kept"},
	}
	user.Identities = append(user.Identities, others...)
	if err := p.store.UpdateUser(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	if user = come("ada@example.com", "name", "Ada L", "groups", []string{"staff"}); user.FullName != "Ada L" {
		t.Errorf("another name: %+v", user)
	}
	if user = come("ada@example.com", "name", "Ada L", "groups", []string{"admins"}); len(user.Identities[0].Groups) != 1 || user.Identities[0].Groups[0] != "admins" {
		t.Errorf("other groups: %+v", user)
	}
	if user = come("lovelace@example.com", "name", "Ada L", "groups", []string{"admins"}); user.Email != "lovelace@example.com" || user.Identities[0].Handle != "lovelace@example.com" {
		t.Errorf("another address: %+v", user)
	}
	used := user.Identities[0].Used
	puts := 0
	count := func(op, key string) {
		if op == "put" && strings.HasPrefix(key, "gatehouse:user:") {
			puts++
		}
	}
	p.meter.before.Store(&count)
	p.clock.advance(59 * time.Minute)
	user = come("lovelace@example.com", "name", "Ada L", "groups", []string{"admins"})
	p.meter.before.Store(nil)
	if puts != 0 || !user.Identities[0].Used.Equal(used) {
		t.Errorf("the record was written %d times though nothing changed", puts)
	}
	p.clock.advance(time.Minute)
	if user = come("lovelace@example.com", "name", "Ada L", "groups", []string{"admins"}); !user.Identities[0].Used.Equal(used.Add(time.Hour)) {
		t.Errorf("the last use is %s; want an hour after %s", user.Identities[0].Used, used)
	}
	for i, other := range user.Identities[1:] {
		if other.Handle != "kept" || len(other.Groups) != 0 || !other.Used.IsZero() {
			t.Errorf("another account, number %d, was changed: %+v", i, other)
		}
	}
}

// TestSameFieldsAlone: a handle or an address that changes alone is on record too.
func TestSameFieldsAlone(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	p.newBrowser().arrive(p.company, "company", asks(c))
	for name, change := range map[string]func(*storage.User){
		"address": func(u *storage.User) { u.Email = "former@example.com" },
		"handle":  func(u *storage.User) { u.Identities[0].Handle = "former" },
	} {
		user := p.user(t, adaName)
		change(&user)
		if err := p.store.UpdateUser(t.Context(), user); err != nil {
			t.Fatal(err)
		}
		p.newBrowser().arrive(p.company, "company", asks(c))
		if user = p.user(t, adaName); user.Email != "ada@example.com" || user.Identities[0].Handle != "ada@example.com" {
			t.Errorf("%s: %+v", name, user)
		}
	}
}

// TestAliasIsMended: an account whose alias is missing is found again, not made anew.
func TestAliasIsMended(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	p.newBrowser().arrive(p.company, "company", asks(c))
	before := p.user(t, adaName)
	id := storage.IdentityAlias("company", p.company.URL(), "1")
	if err := p.endAlias(id); err != nil {
		t.Fatal(err)
	}
	p.newBrowser().arrive(p.company, "company", asks(c))
	if user, err := p.store.UserOf(t.Context(), id); err != nil || user.Subject != before.Subject {
		t.Errorf("the person is %+v, %v", user, err)
	}
	if _, err := p.store.User(t.Context(), adaName+"~2"); err == nil {
		t.Error("there is a second account")
	}
}

// TestConnectedMeanwhile: a sign-in takes an alias that does not count yet. If its person lists
// the account by then, they keep it, and the sign-in is theirs.
func TestConnectedMeanwhile(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	reader := p.user(t, personName)
	id := storage.IdentityAlias("company", p.company.URL(), "1")
	if err := p.store.PutAlias(t.Context(), id, storage.Alias{}.Leading(reader.Name, reader.Subject)); err != nil {
		t.Fatal(err)
	}
	b := p.newBrowser()
	b.choose("company", asks(c))
	back := b.leave(p.company)
	p.meter.once(&p.meter.before, "put", "alias", func() {
		reader.Identities = []storage.Identity{{Provider: "company", Issuer: p.company.URL(), Subject: "1", Handle: "ada@example.com"}}
		if err := p.store.UpdateUser(t.Context(), reader); err != nil {
			t.Error(err)
		}
	})
	r := b.open(back.String())
	p.meter.before.Store(nil)
	if user, err := p.store.UserOf(t.Context(), id); err != nil || user.Subject != reader.Subject {
		t.Errorf("the account leads to %+v, %v; the answer is %s", user.Name, err, r)
	}
	if _, err := p.store.User(t.Context(), adaName); err == nil {
		t.Error("the sign-in made another account")
	}
	if page := b.follow(); r.status != http.StatusSeeOther || !strings.Contains(page.body, personName) {
		t.Errorf("the sign-in is not that of %s: %s", personName, page)
	}
}

// TestGoneMeanwhile: a person who is disabled or removed while the callback is under way is not let in.
func TestGoneMeanwhile(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(ctx context.Context, store *storage.Store, name string) error{
		"disabled": admin.DisableUser, "removed": admin.RemoveUser,
	} {
		p, c := newAtProvider(t, nil), testClients()["native"]
		p.newBrowser().arrive(p.company, "company", asks(c))
		b := p.newBrowser()
		p.company.SignIn(personOf("1", "ada@example.com", "name", "Ada L"))
		b.choose("company", asks(c))
		back := b.leave(p.company)
		p.meter.once(&p.meter.before, "put", "user", func() { p.must(end(t.Context(), p.store, adaName)) })
		r := b.open(back.String())
		p.meter.before.Store(nil)
		mustShowPage(t, r, http.StatusBadRequest)
		if log := p.log.String(); !strings.Contains(log, "sign-in refused") || !strings.Contains(log, "provider_sub=1") {
			t.Errorf("%s: the log does not say who was refused:\n%s", name, log)
		}
	}
}

// TestHalfMadeAccount: of an account only the alias is on record, after a crash: the next sign-in makes
// an account. An alias that leads to somebody who does not list the account is free.
func TestHalfMadeAccount(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	reader := p.user(t, personName)
	for id, leads := range map[string]storage.Alias{
		"1": storage.Alias{}.Leading("company/ada", "the subject of before"),
		"2": storage.Alias{}.Leading(reader.Name, reader.Subject),
	} {
		p.must(p.store.PutAlias(t.Context(), storage.IdentityAlias("company", p.company.URL(), id), leads))
	}
	p.newBrowser().arrive(p.company, "company", asks(c))
	if user := p.user(t, adaName); user.Subject == "the subject of before" || len(user.Identities) != 1 {
		t.Errorf("the account is %+v", user)
	}
	p.company.SignIn(personOf("2", "grace@example.com"))
	p.newBrowser().arrive(p.company, "company", asks(c))
	if user := p.user(t, "company/grace@example.com"); user.Subject == reader.Subject || len(p.user(t, personName).Identities) != 0 {
		t.Errorf("the account is %+v", user)
	}
}

// TestManyOfOneHandle: sixty-four people of a provider may have one handle, and no more.
func TestManyOfOneHandle(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	for n := 1; n < 64; n++ {
		name := adaName
		if n > 1 {
			name += "~" + strconv.Itoa(n)
		}
		if err := p.store.CreateUser(t.Context(), storage.User{Name: name, Subject: "subject " + strconv.Itoa(n)}); err != nil {
			t.Fatal(err)
		}
	}
	p.newBrowser().arrive(p.company, "company", asks(c))
	p.user(t, adaName+"~64")
	p.company.SignIn(personOf("2", "ada@example.com"))
	b := p.newBrowser()
	b.choose("company", asks(c))
	if r := b.open(b.leave(p.company).String()); r.status != http.StatusConflict || cookiesOf(t, r)[hostSession] != nil {
		t.Errorf("the sixty-fifth: %s", r)
	}
}

// TestPinIsForOne: of two accounts that come at the same time with one address that the
// configuration names, one is let in. While pins cannot be read nobody is judged.
func TestPinIsForOne(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, func(c *authz.Config) { c.Providers[0].Allow = upstream.Allow{People: []string{"ada@example.com"}} })
	c := testClients()["native"]
	backs, browsers := make([]string, 2), []*browser{p.newBrowser(), p.newBrowser()}
	for i, b := range browsers {
		p.company.SignIn(personOf(strconv.Itoa(i+1), "ada@example.com"))
		b.choose("company", asks(c))
		backs[i] = b.leave(p.company).String()
	}
	var inner reply
	p.meter.once(&p.meter.before, "put", "pin", func() { inner = browsers[1].open(backs[1]) })
	outer := browsers[0].open(backs[0])
	p.meter.before.Store(nil)
	if inner.status != http.StatusSeeOther {
		t.Errorf("the first account: %s", inner)
	}
	mustShow(t, outer, http.StatusForbidden, "access_denied")
	if log := p.log.String(); !strings.Contains(log, "sign-in refused") || !strings.Contains(log, "provider_sub=1") {
		t.Errorf("the log does not say who was refused:\n%s", log)
	}
	p.company.SignIn(personOf("1", "ada@example.com"))
	b := p.newBrowser()
	b.choose("company", asks(c))
	back := b.leave(p.company).String()
	p.meter.failReads("pin")
	r := b.open(back)
	p.meter.failReads("")
	mustShow(t, r, http.StatusServiceUnavailable, "temporarily_unavailable")
	if n := strings.Count(p.log.String(), "sign-in refused"); n != 1 {
		t.Errorf("the log has %d refusals; that nobody was judged is none", n)
	}
}
