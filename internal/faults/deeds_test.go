//go:build e2e

package faults

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"gatehouse.example/storage"
)

// deed is one kind of request that needs the store.
type deed struct {
	name string
	// page is set if a person sends the request and the answer is a page.
	page bool
	// atOnce is the number of simultaneous requests in a crowd.
	atOnce int
	// begin prepares a trial, on a front that works.
	begin func(t testing.TB, s *site) trial
}

// trial is a deed that is prepared.
type trial struct {
	// try sends the request, again or at the same time as others.
	try func(at *process) answer
	// beaten reports whether an answer is right for one of several simultaneous requests.
	beaten func(a answer) bool
	// judge checks the answers and the records, and goes on from there, after the trouble has
	// ended.
	judge func(t testing.TB, said []answer)
}

// deeds returns all of them.
func deeds() []deed {
	return []deed{
		{name: "allow", page: true, atOnce: 20, begin: allowing},
		{name: "deny", page: true, atOnce: 20, begin: denying},
		{name: "register", atOnce: 20, begin: registering},
		{name: "authorize", page: true, atOnce: 20, begin: authorizing},
		{name: "sign in", page: true, atOnce: 4, begin: signingIn}, // passwords are checked two at a time
		{name: "redeem", atOnce: 20, begin: redeeming},
		{name: "refresh", atOnce: 20, begin: refreshing},
		{name: "revoke", atOnce: 20, begin: revoking},
		{name: "introspect", atOnce: 20, begin: introspecting},
	}
}

// never is for deeds that all succeed, however many there are.
func never(answer) bool { return false }

// expired reports whether an answer is the page about a transaction that is over.
func expired(a answer) bool {
	return a.Status == http.StatusBadRequest && strings.Contains(a.body, "This page has expired")
}

// must expects that ok holds for an answer.
func must(t testing.TB, what string, a answer, ok func(answer) bool) answer {
	t.Helper()
	if !ok(a) {
		t.Errorf("not %s: %s", what, a)
	}
	return a
}

func invalidGrant(a answer) bool { return a.invalidGrant() }
func isLive(a answer) bool       { return succeeded(a) && a.Active }
func isDead(a answer) bool       { return succeeded(a) && !a.Active }

// mustLive expects that tokens work, and rotates them.
func mustLive(t testing.TB, p *party, at *process, tokens answer) answer {
	t.Helper()
	must(t, "live", p.introspect(at, tokens.Access), isLive)
	return must(t, "rotated", p.refresh(at, tokens.Refresh), func(a answer) bool { return succeeded(a) && a.Refresh != tokens.Refresh })
}

// mustBeDead expects that tokens do not work.
func mustBeDead(t testing.TB, p *party, at *process, tokens answer) {
	t.Helper()
	must(t, "dead", p.introspect(at, tokens.Access), isDead)
	must(t, "refused", p.refresh(at, tokens.Refresh), invalidGrant)
}

// mustWork expects that a client can get tokens.
func mustWork(t testing.TB, p *party, at *process) {
	t.Helper()
	mustLive(t, p, at, must(t, "tokens", p.redeem(at, p.mustConsent(at)), succeeded))
}

// registering: each registration that is acknowledged is one client whose id works, and none
// makes two.
func registering(t testing.TB, s *site) trial {
	name := rand.Text()
	register := func(at *process) answer {
		r := newRequest(http.MethodPost, s.fleet.issuer+"/register", `{"client_name":"`+name+`","redirect_uris":["`+redirectURI+`"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"]}`)
		r.Header.Set("Content-Type", "application/json")
		return at.call("register", r)
	}
	judge := func(t testing.TB, said []answer) {
		said = append(said, must(t, "registered", register(s.process), succeeded))
		made := s.clients(t, name)
		if len(made) > len(said) {
			t.Errorf("%d registrations made %d clients", len(said), len(made))
		}
		for _, a := range only(said, granted) {
			if !made[a.Client] {
				t.Errorf("not a client, or that of another answer: %s", a)
			}
			delete(made, a.Client)
			p := s.as(t)
			p.id = a.Client
			must(t, "shown a page", authorization(s, p.authorizeURL(), newJar(t), s.process), succeeded)
		}
		p := s.as(t)
		p.id = said[len(said)-1].Client
		mustWork(t, p, s.process)
	}
	return trial{try: register, beaten: never, judge: judge}
}

// authorization asks for a code with the cookies of a jar.
func authorization(s *site, address string, jar http.CookieJar, at *process) answer {
	browser := *at.client
	browser.Jar = jar
	a, resp := at.send("authorize", &browser, newRequest(http.MethodGet, address, ""))
	if resp != nil {
		a.Code = resp.Header.Get("Location")
	}
	return a
}

func tabOf(tabs *sync.Map, page string) http.CookieJar {
	tab, _ := tabs.Load(page)
	return tab.(http.CookieJar)
}

// authorizing: a request that is sent to a page gets it.
func authorizing(t testing.TB, s *site) trial {
	var tabs sync.Map // by the page to which each was sent
	try := func(at *process) answer {
		tab := newTab(s.way.browser.Jar)
		a := authorization(s, s.way.authorizeURL(), tab, at)
		tabs.Store(a.Code, tab)
		return a
	}
	judge := func(t testing.TB, said []answer) {
		said = append(said, must(t, "sent to a page", try(s.process), succeeded))
		for _, a := range only(said, granted) {
			must(t, "shown the page", authorization(s, a.Code, tabOf(&tabs, a.Code), s.process), func(a answer) bool {
				action, form := parseForm(a.body)
				return succeeded(a) && strings.HasSuffix(action, "/consent") && form.Has("transaction")
			})
		}
	}
	return trial{try: try, beaten: never, judge: judge}
}

// signingIn: a person who was answered so has signed in, and no other request got a session.
func signingIn(t testing.TB, s *site) trial {
	form := s.form(t, s.way, newJar(t))
	var mu sync.Mutex
	sessions := map[string][]*http.Cookie{} // those in each answer, by its page
	try := func(at *process) answer {
		a, resp := at.send("sign in", at.client, form.request())
		if resp == nil {
			return a
		}
		mu.Lock()
		defer mu.Unlock()
		if given := resp.Cookies(); succeeded(a) == (len(given) == 0) {
			a.Status, a.body = 0, "a session and an answer that do not fit: "+a.String()
		} else if len(given) > 0 {
			a.Code = given[0].Value
			sessions[a.Code] = given
		}
		return a
	}
	judge := func(t testing.TB, said []answer) {
		said = append(said, must(t, "signed in", try(s.process), succeeded))
		for _, a := range only(said, granted) {
			jar := newJar(t)
			site, _ := url.Parse(s.fleet.issuer)
			jar.SetCookies(site, sessions[a.Code])
			if form := s.form(t, s.way, jar); !strings.HasSuffix(form.address, "/consent") {
				t.Errorf("somebody who has signed in is shown %s", form.address)
			}
		}
	}
	return trial{try: try, beaten: never, judge: judge}
}

// decision sends a form of the consent page.
func decision(form filled) func(at *process) answer {
	return func(at *process) answer {
		a, resp := at.send("decide", at.client, form.request())
		if resp == nil {
			return a
		}
		if target, err := resp.Location(); err == nil {
			a.Code, a.Error = target.Query().Get("code"), target.Query().Get("error")
		}
		return a
	}
}

func gaveCode(a answer) bool { return succeeded(a) && a.Code != "" && a.Error == "" }
func denied(a answer) bool   { return succeeded(a) && a.Code == "" && a.Error == "access_denied" }

func either(one, other func(answer) bool) func(answer) bool {
	return func(a answer) bool { return one(a) || other(a) }
}

// consentPage returns a page on which a new client waits for a decision, and a function that
// counts the grants of this client.
func consentPage(t testing.TB, s *site) (form filled, made func(testing.TB) int) {
	p := s.as(t).another(s.aside.process)
	form = s.form(t, p, p.browser.Jar)
	return form, func(t testing.TB) (n int) {
		for _, err := range s.aside.store.ClientGrants(t.Context(), p.id) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
}

// allowing: one page gives at most one code, and makes at most one grant.
func allowing(t testing.TB, s *site) trial {
	form, made := consentPage(t, s)
	try := decision(form)
	judge := func(t testing.TB, said []answer) {
		said = append(said, must(t, "a code or the end of the page", try(s.process), either(gaveCode, expired)))
		codes := only(said, granted)
		mustAll(t.(*testing.T), codes, "a code", gaveCode)
		if n := made(t); len(codes) > 1 || n > 1 || n < len(codes) {
			t.Errorf("one page gave %d codes and made %d grants", len(codes), n)
		}
		p := s.as(t)
		p.id = form.client
		for _, a := range codes {
			mustLive(t, p, s.process, must(t, "tokens", p.redeem(s.process, a.Code), succeeded))
		}
		must(t, "the end of the page", decision(form.with("decision", "deny"))(s.process), expired)
		mustWork(t, p, s.process)
	}
	return trial{try: try, beaten: expired, judge: judge}
}

// denying: one page is declined at most once, and never gives a code afterwards.
func denying(t testing.TB, s *site) trial {
	form, made := consentPage(t, s)
	try := decision(form.with("decision", "deny"))
	judge := func(t testing.TB, said []answer) {
		said = append(said, must(t, "declined or the end of the page", try(s.process), either(denied, expired)))
		refusals := only(said, granted)
		mustAll(t.(*testing.T), refusals, "declined", denied)
		must(t, "the end of the page", decision(form)(s.process), expired)
		if n := made(t); len(refusals) > 1 || n > 0 {
			t.Errorf("one page was declined %d times and made %d grants", len(refusals), n)
		}
	}
	return trial{try: try, beaten: expired, judge: judge}
}

// redeeming: one code gives at most one set of tokens. Tokens whose answers were all certain
// work; when the code is sent once more, no token of the family does. A family whose tokens no
// client received may be left alone.
func redeeming(t testing.TB, s *site) trial {
	p := s.as(t)
	code := p.mustConsent(s.aside.process)
	try := func(at *process) answer { return p.redeem(at, code) }
	judge := func(t testing.TB, said []answer) {
		sets := only(said, granted)
		if len(sets) == 1 && len(said) == 1 {
			sets = append(sets, mustLive(t, p, s.process, sets[0]))
		}
		again := must(t, "tokens or invalid_grant", try(s.process), tokensOrInvalidGrant)
		if succeeded(again) && len(sets) == 0 {
			sets = append(sets, again, mustLive(t, p, s.process, again))
		}
		if n := len(only(append(said, again), granted)); n > 1 {
			t.Errorf("one code gave tokens %d times", n)
		}
		must(t, "refused", try(s.process), invalidGrant)
		for _, tokens := range sets {
			mustBeDead(t, p, s.process, tokens)
		}
		id, _ := storage.CodeGrant(code)
		g, err := s.aside.store.Grant(t.Context(), id)
		if unanswered := len(sets) == 0 && g.Unanswered; err != nil || !unanswered && g.State != storage.GrantRevoked {
			t.Errorf("the code came twice, and its grant is %s, %v", g.State, err)
		}
	}
	return trial{try: try, beaten: invalidGrant, judge: judge}
}

// tokensFor returns tokens for a trial.
func tokensFor(t testing.TB, s *site) (*party, answer) {
	p := s.as(t)
	return p, p.mustTokens(s.aside.process)
}

// refreshing: one token has one successor, in every answer, and that one works.
func refreshing(t testing.TB, s *site) trial {
	p, first := tokensFor(t, s)
	try := func(at *process) answer { return p.refresh(at, first.Refresh) }
	judge := func(t testing.TB, said []answer) {
		said = append(said, must(t, "tokens", try(s.process), succeeded))
		tokens := only(said, granted)
		mustAgree(t.(*testing.T), tokens, first.Refresh)
		next := mustLive(t, p, s.process, tokens[0])
		for _, a := range tokens {
			must(t, "live", p.introspect(s.process, a.Access), isLive)
		}
		mustLive(t, p, s.process, next)
	}
	return trial{try: try, beaten: never, judge: judge}
}

// revoking: an acknowledged revocation holds.
func revoking(t testing.TB, s *site) trial {
	p, tokens := tokensFor(t, s)
	try := func(at *process) answer { return p.revoke(at, tokens.Refresh) }
	judge := func(t testing.TB, said []answer) {
		if len(only(said, granted)) == 0 {
			must(t, "revoked", try(s.process), succeeded)
		}
		mustBeDead(t, p, s.aside.process, tokens)
		must(t, "revoked", try(s.process), succeeded)
		mustBeDead(t, p, s.process, tokens)
	}
	return trial{try: try, beaten: never, judge: judge}
}

// introspecting: a valid token is never reported inactive.
func introspecting(t testing.TB, s *site) trial {
	p, tokens := tokensFor(t, s)
	try := func(at *process) answer { return p.introspect(at, tokens.Access) }
	judge := func(t testing.TB, said []answer) {
		said = append(said, try(s.process))
		for _, a := range only(said, granted) {
			must(t, "live", a, isLive)
		}
		mustLive(t, p, s.process, tokens)
	}
	return trial{try: try, beaten: never, judge: judge}
}
