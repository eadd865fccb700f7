package authz_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/upstream/upstreamtest"
	"gatehouse.example/storage"
)

// sendLogout posts a logout token of the company to a provider's endpoint.
func (p *atProvider) sendLogout(provider string, values url.Values) reply {
	return p.send(p.newRequest(http.MethodPost, "/login/"+provider+"/logout", values))
}

func (p *atProvider) logoutOf(claims map[string]any) url.Values {
	return form("logout_token", p.company.LogoutToken(claims))
}

// live reports whether a browser is signed in.
func (b *browser) live() bool {
	b.h.t.Helper()
	request := replaced(asks(testClients()["native"]), "prompt", "none")
	return b.open(b.h.issuer+"/authorize?"+request.Encode()).location(b.h.t).Query().Get("error") != "login_required"
}

// TestBackChannelLogout: sid ends that session, sub all sessions that began with the account there,
// and no other; grants stay.
func TestBackChannelLogout(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	sid := func(name string) {
		p.company.Change(func(a *upstreamtest.Answers) { a.IDToken = func(m map[string]any) { m["sid"] = name } })
	}
	one, two, three, own := p.newBrowser(), p.newBrowser(), p.newBrowser(), p.newBrowser()
	sid("one")
	held := one.granted(p.company, c)
	sid("two")
	two.arrive(p.company, "company", asks(c))
	three.arrive(p.company, "company", asks(c))
	own.code(asks(c))
	want := func(what string, live ...bool) {
		t.Helper()
		for i, b := range []*browser{one, two, three, own} {
			if b.live() != live[i] {
				t.Errorf("%s: browser %d: live %t", what, i+1, !live[i])
			}
		}
	}
	want("before", true, true, true, true)
	accepted := func(values url.Values) {
		t.Helper()
		r := p.sendLogout("company", values)
		if r.status != http.StatusOK || r.header.Get("Cache-Control") != "no-store" || r.body != "" {
			t.Errorf("a logout: %s", r)
		}
	}
	accepted(p.logoutOf(map[string]any{"sid": "unknown"}))
	accepted(p.logoutOf(map[string]any{"sub": "unknown"}))
	want("of nobody", true, true, true, true)
	accepted(p.logoutOf(map[string]any{"sid": "one"}))
	want("sid", false, true, true, true)
	token := p.logoutOf(map[string]any{"sub": "1"})
	accepted(token)
	want("sub", false, false, false, true)
	if !p.active(held.access) {
		t.Error("a logout ended a grant")
	}
	sid("three")
	p.clock.advance(time.Second)
	one.arrive(p.company, "company", asks(c))
	mustRefuse(t, p.sendLogout("company", token), http.StatusBadRequest, "invalid_request") // a replay
	want("after a replay", true, false, false, true)
	// A sign-in whose session there has ended while it was under way does not begin one here.
	late := p.newBrowser()
	late.choose("company", asks(c))
	back := late.leave(p.company)
	accepted(p.logoutOf(map[string]any{"sid": "three"}))
	mustShowPage(t, late.open(back.String()), http.StatusBadRequest)
	want("ended meanwhile", false, false, false, true)
}

// TestLogoutAfterEndingOthers: a session that went on under another cookie, because its person ended all
// others, ends with the one at the provider, and does not go on if that has ended meanwhile.
func TestLogoutAfterEndingOthers(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, nil)
	logout := func() {
		if r := p.sendLogout("company", p.logoutOf(map[string]any{"sid": "session of 1"})); r.status != http.StatusOK {
			t.Errorf("a logout: %s", r)
		}
	}
	b := p.newBrowser()
	b.arrive(p.company, "company", asks(testClients()["native"]))
	b.open(p.issuer + "/account/sessions")
	if r := b.submit("end-others", "yes"); r.status != http.StatusOK || !b.live() {
		t.Fatalf("ending all others: %s", r)
	}
	logout()
	if b.live() {
		t.Error("the session goes on after the logout at the provider")
	}
	p = newAtProvider(t, nil)
	b = p.newBrowser()
	b.arrive(p.company, "company", asks(testClients()["native"]))
	b.open(p.issuer + "/account/sessions")
	done := p.meanwhile("session", logout)
	mustShowPage(t, b.submit("end-others", "yes"), http.StatusBadRequest)
	done()
	if b.live() {
		t.Error("the session goes on after a logout in between")
	}
}

// TestLogoutBesideDamage: a session or a grant that cannot be read keeps no other one alive, and the token
// counts once.
func TestLogoutBesideDamage(t *testing.T) {
	t.Parallel()
	c := testClients()["native"]
	p := newAtProvider(t, func(c *authz.Config) { c.Providers[0].LogoutEndsGrants = true })
	first, b := p.newBrowser(), p.newBrowser()
	first.arrive(p.company, "company", asks(c))
	p.damage(p.only("session"))
	spoiled := b.granted(p.company, c)
	p.damage(p.only("grant"))
	held := b.tokens(c, asks(c))
	token := p.logoutOf(map[string]any{"sid": "session of 1"})
	if r := p.sendLogout("company", token); r.status != http.StatusOK {
		t.Errorf("a logout: %s", r)
	}
	if b.live() || p.active(held.access) {
		t.Errorf("the session goes on: %t, the grant: %t", b.live(), p.active(held.access))
	}
	if r := p.toToken(c, refreshing(c, spoiled.refresh)); r.status == http.StatusOK {
		t.Errorf("the damaged grant: %s", r)
	}
	mustRefuse(t, p.sendLogout("company", token), http.StatusBadRequest, "invalid_request")
	p.wantLogged("msg=\"a grant that should end cannot be read\"")
}

// TestBackChannelLogoutRefuses: a token that is not one of this provider's for this server, about a
// logout, once, is 400 with an error, and ends nothing.
func TestBackChannelLogoutRefuses(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	b := p.newBrowser()
	b.arrive(p.company, "company", asks(c))
	sub := map[string]any{"sub": "1"}
	with := func(name string, value any) url.Values {
		return p.logoutOf(map[string]any{"sub": "1", name: value})
	}
	good := p.company.LogoutToken(sub)
	for name, values := range map[string]url.Values{
		"no token":       form("other", "x"),
		"nonsense":       form("logout_token", "x.y.z"),
		"two tokens":     {"logout_token": {good, good}},
		"too long":       form("logout_token", strings.Repeat("a", 20<<10)),
		"a changed one":  form("logout_token", good[:len(good)-4]+"AAAA"),
		"another issuer": with("iss", p.other.URL()),
		"another client": with("aud", "another"),
		"expired":        with("exp", 1),
		"with a nonce":   with("nonce", "n"),
		"no events":      with("events", nil),
		"other events":   with("events", map[string]any{"other": map[string]any{}}),
		"no jti":         with("jti", nil),
		"no iat":         with("iat", nil),
		"no subject":     p.logoutOf(nil),
		"another's key":  form("logout_token", p.other.LogoutToken(map[string]any{"sub": "1", "iss": p.company.URL()})),
	} {
		r := p.sendLogout("company", values)
		if r.status != http.StatusBadRequest || r.member(t, "error") != "invalid_request" || r.header.Get("Cache-Control") != "no-store" || len(r.header.Values("Set-Cookie")) > 0 {
			t.Errorf("%s: %s", name, r)
		}
	}
	if r := p.sendLogout("other", form("logout_token", good)); r.status != http.StatusBadRequest {
		t.Errorf("at another provider: %s", r)
	}
	if r := p.sendLogout("nobody", form("logout_token", good)); r.status != http.StatusNotFound || r.member(t, "error") != "invalid_request" {
		t.Errorf("at none: %s", r)
	}
	if r := p.sendLogout("company", form("other", "x")); !strings.Contains(r.member(t, "error_description"), "logout_token is missing") {
		t.Errorf("without a token: %s", r)
	}
	if r := p.get("/login/company/logout"); r.status != http.StatusMethodNotAllowed {
		t.Errorf("GET: %s", r)
	}
	p.faults.SetDown(true)
	if r := p.sendLogout("company", form("logout_token", good)); r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
		t.Errorf("without a store: %s", r)
	}
	p.faults.SetDown(false)
	for _, kind := range []string{"alias", "provider-session", "once"} {
		p.meter.failReads(kind)
		values := p.logoutOf(map[string]any{"sub": "1", "sid": "session of 1"})
		if kind == "alias" {
			values = form("logout_token", good)
		}
		if r := p.sendLogout("company", values); r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
			t.Errorf("where %s cannot be read: %s", kind, r)
		}
		p.meter.failReads("")
	}
	if !b.live() {
		t.Error("a session ended")
	}
	// The provider may send again what could not be done.
	if r := p.sendLogout("company", form("logout_token", good)); r.status != http.StatusOK || b.live() {
		t.Errorf("the same token later: %s", r)
	}
}

// TestLogoutWhileTheProviderIsDown: a token that cannot be checked is 503, ends nothing, and counts
// when the provider sends it again.
func TestLogoutWhileTheProviderIsDown(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, nil)
	p.company.Change(func(a *upstreamtest.Answers) {
		a.First = func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
	})
	token := p.logoutOf(map[string]any{"sub": "1"})
	r := p.sendLogout("company", token)
	if r.status != http.StatusServiceUnavailable || r.member(t, "error") != "temporarily_unavailable" || r.header.Get("Retry-After") == "" || r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("without the keys: %s", r)
	}
	p.company.Change(func(a *upstreamtest.Answers) { a.First = nil })
	p.clock.advance(10 * time.Second)
	b := p.newBrowser()
	b.arrive(p.company, "company", asks(testClients()["native"]))
	if r := p.sendLogout("company", token); r.status != http.StatusOK || b.live() {
		t.Errorf("the same token later: %s", r)
	}
}

// TestLogoutEndsGrants: only with the setting a logout ends what the person allowed.
func TestLogoutEndsGrants(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, func(c *authz.Config) { c.Providers[0].LogoutEndsGrants = true })
	held := p.newBrowser().granted(p.company, testClients()["native"])
	p.sendLogout("company", p.logoutOf(map[string]any{"sid": "session of 1"}))
	if p.active(held.access) {
		t.Error("the grant goes on")
	}
}

// TestLogoutWhileDeciding: with the setting a logout also ends what the person is allowing at that moment,
// whether its grant is listed already or not.
func TestLogoutWhileDeciding(t *testing.T) {
	t.Parallel()
	for _, step := range []struct{ op, kind string }{{"index add", "user-grants"}, {"put", "grant"}} {
		p, c := newAtProvider(t, func(c *authz.Config) { c.Providers[0].LogoutEndsGrants = true }), testClients()["native"]
		b := p.newBrowser()
		b.arrive(p.company, "company", asks(c))
		_, values := b.page.inputs(t)
		p.meter.once(&p.meter.before, step.op, step.kind, func() {
			if r := p.sendLogout("company", p.logoutOf(map[string]any{"sid": "session of 1"})); r.status != http.StatusOK {
				t.Errorf("a logout: %s", r)
			}
		})
		r := b.submit("decision", "allow", "scope", values["scope"][0])
		p.meter.before.Store(nil)
		mustShowPage(t, r, http.StatusBadRequest)
		for grant, err := range p.store.UserGrants(t.Context(), p.user(t, adaName).Subject) {
			if err != nil || grant.State != storage.GrantRevoked {
				t.Errorf("%s: a grant is left: %+v, %v", step.op, grant, err)
			}
		}
	}
}

// TestStrangersLogoutTokens: tokens of strangers are limited by network before their signatures are
// checked, and keep nobody else's from counting.
func TestStrangersLogoutTokens(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, func(c *authz.Config) { c.TrustedProxies = loopbackProxies })
	send := func(from string, values url.Values) int {
		r := p.newRequest(http.MethodPost, "/login/company/logout", values)
		r.Header.Set("X-Forwarded-For", from)
		answer := p.send(r)
		if limited := answer.status == http.StatusTooManyRequests; limited && (answer.member(t, "error") != "temporarily_unavailable" || answer.header.Get("Retry-After") == "") {
			t.Errorf("a limited one: %s", answer)
		}
		return answer.status
	}
	limited := 0
	for range 400 {
		if send("192.0.2.1", form("logout_token", "x.y.z")) == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited != 100 {
		t.Errorf("%d of 400 tokens were refused for their number", limited)
	}
	for range 400 {
		if status := send("198.51.100.1", p.logoutOf(map[string]any{"sub": "nobody"})); status != http.StatusOK {
			t.Fatalf("the provider's token: %d", status)
		}
	}
}

// TestLogoutTwiceAtOnce: a logout token that two processes get at the same time, and one that ends two
// sessions, are one logout for the person.
func TestLogoutTwiceAtOnce(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	one, two := p.newBrowser(), p.newBrowser()
	one.arrive(p.company, "company", asks(c))
	two.arrive(p.company, "company", asks(c))
	values := p.logoutOf(map[string]any{"sub": "1", "sid": "session of 1"})
	p.meter.once(&p.meter.before, "put", "once", func() {
		if r := p.sendLogout("company", values); r.status != http.StatusOK {
			t.Errorf("the inner one: %s", r)
		}
	})
	if r := p.sendLogout("company", values); r.status != http.StatusOK || one.live() || two.live() {
		t.Errorf("the outer one: %s", r)
	}
	p.meter.before.Store(nil)
	p.company.Change(func(a *upstreamtest.Answers) { a.IDToken = func(m map[string]any) { m["sid"] = "the next" } })
	if page := p.newBrowser().happened(p.company); strings.Count(page, signedOut) != 1 {
		t.Errorf("the person reads of it %d times", strings.Count(page, signedOut))
	}
}
