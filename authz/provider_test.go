package authz_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
	"gatehouse.example/storage"
)

// atProvider is a harness with an identity provider "company", and "other" as a second one.
type atProvider struct {
	*harness
	company, other *upstreamtest.Provider
}

// adaName is the account of the person of the fake provider.
const adaName = "company/ada@example.com"

func newAtProvider(t testing.TB, change func(*authz.Config)) *atProvider {
	t.Helper()
	p := &atProvider{company: upstreamtest.New(t), other: upstreamtest.New(t)}
	p.harness = newHarness(t, setup{config: func(c *authz.Config) {
		p.company.Now, p.other.Now = c.Now, c.Now
		p.configure(c)
		if change != nil {
			change(c)
		}
	}})
	return p
}

// configure adds both providers to a configuration. Everybody may come in.
func (p *atProvider) configure(c *authz.Config) {
	c.InsecureProviders = true
	for id, fake := range map[string]*upstreamtest.Provider{"company": p.company, "other": p.other} {
		one := fake.Provider(id, upstream.OIDC)
		one.Name, one.Allow = "The "+id, upstream.Allow{Anybody: true}
		c.Providers = append(c.Providers, one)
	}
	if c.Providers[0].ID == "other" {
		c.Providers[0], c.Providers[1] = c.Providers[1], c.Providers[0]
	}
}

// person returns a person of the provider with a proven e-mail address.
func personOf(subject, email string, more ...any) upstreamtest.Person {
	claims := map[string]any{"email": email, "email_verified": true}
	for i := 0; i+1 < len(more); i += 2 {
		claims[more[i].(string)] = more[i+1]
	}
	return upstreamtest.Person{Subject: subject, Claims: claims}
}

// choose opens the sign-in page of a request and presses the button of a provider.
func (b *browser) choose(provider string, request url.Values) reply {
	b.h.t.Helper()
	b.open(b.h.issuer + "/authorize?" + request.Encode())
	b.follow()
	return b.submit("provider", provider)
}

// leave goes on to the provider, and returns the address to which that sends the browser back.
func (b *browser) leave(fake *upstreamtest.Provider) *url.URL {
	b.h.t.Helper()
	if r := b.submit("decision", "allow"); r.status != http.StatusSeeOther || !strings.HasPrefix(r.header.Get("Location"), fake.URL()) {
		b.h.t.Fatalf("the browser is not sent to the provider: %s", r)
	}
	return fake.Return(b.h.t, b.last.header.Get("Location"))
}

// arrive signs in with a provider, up to the consent page.
func (b *browser) arrive(fake *upstreamtest.Provider, provider string, request url.Values) reply {
	b.h.t.Helper()
	b.choose(provider, request)
	if r := b.open(b.leave(fake).String()); r.status != http.StatusSeeOther {
		b.h.t.Fatalf("the callback: %s", r)
	}
	return b.follow()
}

// granted signs in with the provider, allows, and redeems the code.
func (b *browser) granted(fake *upstreamtest.Provider, c testClient) tokens {
	b.h.t.Helper()
	b.arrive(fake, "company", asks(c))
	_, values := b.page.inputs(b.h.t)
	code := b.submit("decision", "allow", "scope", values["scope"][0]).location(b.h.t).Query().Get("code")
	if code == "" {
		b.h.t.Fatalf("no code: %s", b.last)
	}
	answer := b.h.toToken(c, redemption(c, code))
	if answer.status != http.StatusOK {
		b.h.t.Fatalf("no tokens: %s", answer)
	}
	return tokens{access: answer.member(b.h.t, "access_token"), refresh: answer.member(b.h.t, "refresh_token")}
}

func (p *atProvider) user(t testing.TB, name string) storage.User {
	t.Helper()
	user, err := p.store.User(t.Context(), name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return user
}

// TestClientBeforeProvider: the person decides on the client on a page of this server before
// anybody is sent to a provider; no state for the provider exists before; deny goes to the client.
func TestClientBeforeProvider(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	b := p.newBrowser()
	page := b.choose("company", asks(c))
	if faults := pageFaults(page, http.StatusOK); len(faults) > 0 {
		t.Error(strings.Join(faults, "\n"))
	}
	for _, shown := range []string{c.Metadata.ClientName, "127.0.0.1", "Notes", "The company", `name="decision" value="allow"`, `name="decision" value="deny"`} {
		if !strings.Contains(page.body, shown) {
			t.Errorf("the page before the provider does not show %q", shown)
		}
	}
	if strings.Contains(page.body, p.company.URL()) || page.header.Get("Location") != "" {
		t.Error("the provider's address exists before the decision")
	}
	_, decision := b.page.inputs(t)
	denied := b.submit("decision", "deny").location(t)
	if denied.Query().Get("error") != "access_denied" || denied.Query().Get("iss") != p.issuer || denied.Query().Get("state") == "" {
		t.Errorf("denied: %s", denied)
	}
	// The decision counts once: the page of a request that was denied is over.
	mustShow(t, p.with(b.jar, postForm(p.harness, "/login", replaced(decision, "decision", "allow"))), http.StatusBadRequest, "invalid_request")
	// The token of the sign-in page does not skip the page.
	b.open(p.issuer + "/authorize?" + asks(c).Encode())
	b.follow()
	mustShow(t, b.submit("provider", "company", "decision", "allow"), http.StatusForbidden, "invalid_request")
	if n := p.company.Requests("/authorize") + p.company.Requests("/token"); n != 0 {
		t.Errorf("the provider was asked %d times", n)
	}
}

// TestSignInWithProvider: the whole way. The account that signed in is on the consent page before
// there is a code, and the record has what the provider says.
func TestSignInWithProvider(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	p.company.SignIn(personOf("1", "ada@example.com", "name", "Ada", "groups", []string{"staff"}))
	b := p.newBrowser()
	page := b.arrive(p.company, "company", asks(c))
	if !strings.Contains(page.body, "ada@example.com (The company)") || !strings.Contains(page.body, `value="allow"`) {
		t.Errorf("the consent page does not show who signed in: %s", page)
	}
	user := p.user(t, adaName)
	if user.FullName != "Ada" || user.Email != "ada@example.com" || user.Password != "" || len(user.Identities) != 1 {
		t.Fatalf("the account is %+v", user)
	}
	if i := user.Identities[0]; i.Provider != "company" || i.Issuer != p.company.URL() || i.Subject != "1" || i.Handle != "ada@example.com" || len(i.Groups) != 1 {
		t.Errorf("the identity is %+v", i)
	}
	got := p.newBrowser().granted(p.company, c)
	if log := p.log.String(); strings.Count(log, `msg="account made"`) != 1 || strings.Count(log, `msg="signed in" user=`+adaName+" sub="+user.Subject+" provider=company") != 2 {
		t.Errorf("the log of two sign-ins, one of which made the account:\n%s", log)
	}
	if sub := claims(t, got.access)["sub"]; sub != user.Subject {
		t.Errorf("the token is for %v; want %s, the same account", sub, user.Subject)
	}
	// What the provider says later replaces it, and an address that is not proven is not kept.
	p.clock.advance(time.Hour)
	p.company.SignIn(upstreamtest.Person{Subject: "1", Claims: map[string]any{"email": "ada@example.com", "email_verified": false, "name": "Ada L"}})
	p.newBrowser().arrive(p.company, "company", asks(c))
	if user = p.user(t, adaName); user.FullName != "Ada L" || user.Email != "" || len(user.Identities[0].Groups) != 0 {
		t.Errorf("after another sign-in: %+v", user)
	}
}

// TestHintOfAnotherName: whoever signs in for a request decides who it is, also if they signed in at the
// provider long before it and the client expected another name. Later requests with that name ask.
func TestHintOfAnotherName(t *testing.T) {
	t.Parallel()
	p, web := newAtProvider(t, nil), testClients()["web"]
	p.company.Change(func(a *upstreamtest.Answers) {
		a.IDToken = func(m map[string]any) { m["auth_time"] = p.clock.Now().Add(-time.Hour).Unix() }
	})
	b, hinted := p.newBrowser(), replaced(asks(web), "login_hint", "ada")
	if page := b.arrive(p.company, "company", hinted); page.status != http.StatusOK || !strings.Contains(page.body, `name="decision"`) {
		t.Errorf("the sign-in does not count: %s", page)
	}
	p.clock.advance(time.Second)
	if got := b.unasked(hinted); got != "login_required" {
		t.Errorf("a later request: %s", got)
	}
	if got := b.unasked(replaced(asks(web), "max_age", "60")); got != "login_required" {
		t.Errorf("a sign-in of a minute ago: %s", got)
	}
}

// TestNamesThatCollide: two accounts with one handle are two people with two names.
func TestNamesThatCollide(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	for subject, name := range map[string]string{"1": adaName, "2": adaName + "~2", "3": adaName + "~3"} {
		_ = name
		p.company.SignIn(personOf(subject, "ada@example.com"))
		p.newBrowser().arrive(p.company, "company", asks(c))
	}
	p.other.SignIn(personOf("1", "ada@example.com"))
	p.newBrowser().arrive(p.other, "other", asks(c))
	subjects := map[string]bool{}
	for _, name := range []string{adaName, adaName + "~2", adaName + "~3", "other/ada@example.com"} {
		subjects[p.user(t, name).Subject] = true
	}
	if len(subjects) != 4 {
		t.Errorf("four accounts have %d subjects", len(subjects))
	}
}

// TestStateIsOfThisBrowser: a callback counts once, in the browser and for the transaction and
// provider for which it was begun, in ten minutes; whatever else comes back makes nothing.
func TestStateIsOfThisBrowser(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	begin := func() (*browser, *url.URL) {
		b := p.newBrowser()
		b.choose("company", asks(c))
		return b, b.leave(p.company)
	}
	with := func(u *url.URL, change func(url.Values)) string {
		values := maps.Clone(u.Query())
		change(values)
		changed := *u
		changed.RawQuery = values.Encode()
		return changed.String()
	}
	before := p.company.Requests("/token")
	for name, attack := range map[string]func() reply{
		"J19/another browser": func() reply { _, back := begin(); return p.newBrowser().open(back.String()) },
		"J19/another browser with a transaction": func() reply {
			_, back := begin()
			other, _ := begin()
			return other.open(back.String())
		},
		"J20/before the decision": func() reply {
			b := p.newBrowser()
			_, values := b.choose("company", asks(c)).inputs(t)
			return b.open(p.issuer + "/login/company/callback?" + form("code", "made-up", "state", values.Get("transaction")+".").Encode())
		},
		"J20/no state": func() reply {
			b, back := begin()
			return b.open(with(back, func(v url.Values) { v.Del("state") }))
		},
		"J20/wrong random part": func() reply {
			b, back := begin()
			return b.open(with(back, func(v url.Values) { v.Set("state", v.Get("state")[:len(v.Get("state"))-1]+"?") }))
		},
		"J20/only the transaction": func() reply {
			b, back := begin()
			return b.open(with(back, func(v url.Values) { v.Set("state", strings.Split(v.Get("state"), ".")[0]+".") }))
		},
		"J21/the random part of another transaction": func() reply {
			b, back := begin()
			b.choose("company", asks(c))
			second := b.leave(p.company)
			return b.open(with(second, func(v url.Values) {
				id, _, _ := strings.Cut(v.Get("state"), ".")
				_, secret, _ := strings.Cut(back.Query().Get("state"), ".")
				v.Set("state", id+"."+secret)
			}))
		},
		"J21/mix-up: the other provider's callback": func() reply {
			b, back := begin()
			return b.open(strings.Replace(back.String(), "/login/company/", "/login/other/", 1))
		},
		"J21/an unknown provider": func() reply {
			b, back := begin()
			return b.open(strings.Replace(back.String(), "/login/company/", "/login/none/", 1))
		},
		"J20/expired": func() reply {
			b, back := begin()
			p.clock.advance(10 * time.Minute)
			return b.open(back.String())
		},
		"J20/state twice": func() reply {
			b, back := begin()
			return b.open(back.String() + "&state=" + back.Query().Get("state"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := attack()
			if r.status < 400 || r.status >= 500 || cookiesOf(t, r)[hostSession] != nil || !strings.Contains(r.body, "<h1") {
				t.Errorf("%s", r)
			}
		})
	}
	if n := p.company.Requests("/token") - before; n != 0 {
		t.Errorf("%d codes were sent to the provider", n)
	}
	if _, err := p.store.User(t.Context(), adaName); err == nil {
		t.Error("an account was made")
	}
	t.Run("J20/replay", func(t *testing.T) {
		b, back := begin()
		if r := b.open(back.String()); r.status != http.StatusSeeOther {
			t.Fatalf("the callback itself: %s", r)
		}
		mustShowPage(t, b.open(back.String()), http.StatusBadRequest)
		if n := p.company.Requests("/token") - before; n != 1 {
			t.Errorf("the provider was asked for tokens %d times; want once", n)
		}
	})
}

// TestRepeatedAtCallback: a parameter that comes back twice, of which readers differ in what it says,
// is refused before the attempt is used.
func TestRepeatedAtCallback(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	p.company.Change(func(a *upstreamtest.Answers) {
		a.Metadata = func(m map[string]any) { delete(m, "authorization_response_iss_parameter_supported") }
	})
	b := p.newBrowser()
	b.choose("company", asks(c))
	back := b.leave(p.company).String()
	for _, twice := range []string{"iss=" + url.QueryEscape(p.other.URL()), "code=another", "error=access_denied&error=access_denied"} {
		mustShowPage(t, b.open(back+"&"+twice), http.StatusBadRequest)
	}
	if n := p.company.Requests("/token"); n != 0 {
		t.Errorf("%d codes were sent to the provider", n)
	}
	if r := b.open(back); r.status != http.StatusSeeOther {
		t.Errorf("the callback itself: %s", r)
	}
}

func mustShowPage(t testing.TB, r reply, status int) {
	t.Helper()
	if r.status != status || !strings.Contains(r.body, "<h1") || r.header.Get("Location") != "" {
		t.Errorf("%s; want a page with status %d", r, status)
	}
}
