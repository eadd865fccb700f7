package authz_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
	"gatehouse.example/storage"
)

// newRechecked is a harness whose provider is asked every hour, with a grant of somebody there.
func newRechecked(t *testing.T, allow upstream.Allow) (*atProvider, *browser, tokens) {
	t.Helper()
	p := newAtProvider(t, func(c *authz.Config) {
		c.Providers[0].Recheck, c.Providers[0].Allow, c.RecheckGrace = time.Hour, allow, 4*time.Hour
		c.RefreshIdle, c.AccessTokenTTL, c.SessionIdle, c.SessionMax = 90*24*time.Hour, time.Hour, 7*24*time.Hour, 7*24*time.Hour
	})
	p.company.Change(func(a *upstreamtest.Answers) { a.Rotates = true })
	p.company.SignIn(personOf("1", "ada@example.com", "groups", []string{"staff"}))
	b := p.newBrowser()
	return p, b, b.granted(p.company, testClients()["native"])
}

var anybody = upstream.Allow{Anybody: true}

// after lets time pass and asks about those who are due.
func (p *atProvider) after(t testing.TB, d time.Duration) {
	t.Helper()
	p.clock.advance(d)
	if err := p.handler.Load().RecheckDue(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// wantEnded checks whether the person's session and grant have ended, and refreshes the grant if
// not.
func (p *atProvider) wantEnded(t testing.TB, what string, b *browser, held *tokens, ended bool) {
	t.Helper()
	c := testClients()["native"]
	answer := p.toToken(c, refreshing(c, held.refresh))
	if answer.status == http.StatusOK {
		held.access, held.refresh = answer.member(t, "access_token"), answer.member(t, "refresh_token")
	}
	prompt := b.open(p.issuer + "/authorize?" + replaced(asks(c), "prompt", "none").Encode()).location(t).Query().Get("error")
	if got := answer.status != http.StatusOK; got != ended || p.active(held.access) == ended || (prompt == "login_required") != ended {
		t.Errorf("%s: refresh %d, active %t, %s; ended should be %t\n%s", what, answer.status, p.active(held.access), prompt, ended, p.log)
	}
}

// TestRecheck: a person whom the provider still knows goes on, with the groups of now; one whom it
// does not know any more loses sessions and grants at the next question, and not before.
func TestRecheck(t *testing.T) {
	t.Parallel()
	p, b, held := newRechecked(t, anybody)
	p.after(t, 59*time.Minute)
	if n := p.company.Requests("/token"); n != 1 {
		t.Fatalf("the provider was asked %d times before the time", n-1)
	}
	for _, group := range []string{"staff", "admins", "guests"} {
		p.company.Change(func(a *upstreamtest.Answers) {
			a.IDToken = func(m map[string]any) { m["groups"] = []string{group} }
			a.Userinfo = a.IDToken
		})
		p.after(t, time.Hour)
		p.wantEnded(t, "still known", b, &held, false)
		if groups := p.user(t, adaName).Identities[0].Groups; len(groups) != 1 || groups[0] != group {
			t.Errorf("the groups are %q; want %s", groups, group)
		}
	}
	if n := p.company.Requests("/token"); n != 4 {
		t.Errorf("the provider was asked %d times in three hours", n-1)
	}
	p.company.Forget()
	p.after(t, 30*time.Minute)
	p.wantEnded(t, "before the next question", b, &held, false)
	p.after(t, 30*time.Minute)
	p.wantEnded(t, "removed at the provider", b, &held, true)
	if !strings.Contains(p.log.String(), "sessions and grants of a person ended") {
		t.Error("the log does not say so")
	}
	asked := p.company.Requests("/token")
	p.after(t, 24*time.Hour)
	if p.company.Requests("/token") != asked {
		t.Error("the provider is asked about somebody who is gone")
	}
	// Another sign-in begins anew.
	again := b.granted(p.company, testClients()["native"])
	p.after(t, time.Hour)
	p.wantEnded(t, "after another sign-in", b, &again, false)
}

// TestRecheckLosesAllow: who may not come in by the rules any more loses sessions and grants.
func TestRecheckLosesAllow(t *testing.T) {
	t.Parallel()
	p, b, held := newRechecked(t, upstream.Allow{Groups: []string{"staff"}})
	p.after(t, time.Hour)
	p.wantEnded(t, "in the group", b, &held, false)
	p.company.Change(func(a *upstreamtest.Answers) {
		a.IDToken = func(m map[string]any) { m["groups"] = []string{"guests"} }
		a.Userinfo = a.IDToken
	})
	p.after(t, time.Hour)
	p.wantEnded(t, "out of the group", b, &held, true)
	if !strings.Contains(p.log.String(), "may not sign in with The company any more") {
		t.Errorf("the log does not say why:\n%s", p.log)
	}
}

// TestRecheckUnknown: a provider that does not answer, or refuses this server, says nothing about
// the person, for a bounded time.
func TestRecheckUnknown(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]upstreamtest.Answers{
		"down":             {First: down("/token"), Rotates: true},
		"refuses us":       {First: refuses("invalid_client"), Rotates: true},
		"answers nonsense": {First: nonsense, Rotates: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, b, held := newRechecked(t, anybody)
			p.company.Change(func(a *upstreamtest.Answers) { *a = answers })
			for range 4 { // hours after the sign-in; it ends an hour and the grace after it
				p.after(t, time.Hour)
				p.wantEnded(t, "without an answer", b, &held, false)
			}
			if !strings.Contains(p.log.String(), "it is not known whether a person may still sign in") {
				t.Errorf("the log does not say so:\n%s", p.log)
			}
			p.after(t, 59*time.Minute)
			p.wantEnded(t, "just before the end of the grace", b, &held, false)
			p.after(t, time.Minute)
			p.wantEnded(t, "after the grace", b, &held, true)
		})
	}
	t.Run("answers again", func(t *testing.T) {
		t.Parallel()
		p, b, held := newRechecked(t, anybody)
		p.company.Change(func(a *upstreamtest.Answers) { a.First = down("/token") })
		p.after(t, 4*time.Hour)
		p.company.Change(func(a *upstreamtest.Answers) { a.First = nil })
		p.after(t, 30*time.Minute)
		p.after(t, time.Hour)
		p.after(t, 4*time.Hour)
		p.wantEnded(t, "a provider that answers again", b, &held, false)
	})
}

func refuses(code string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/token" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"` + code + `"}`))
		return true
	}
}

func nonsense(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path == "/token" {
		_, _ = w.Write([]byte("<html>"))
	}
	return r.URL.Path == "/token"
}

// TestRecheckLostAnswer: after an answer that was lost the provider may have replaced the token, so
// that its refusal of the old one proves nothing; the grace ends it.
func TestRecheckLostAnswer(t *testing.T) {
	t.Parallel()
	p, b, held := newRechecked(t, anybody)
	p.company.Change(func(a *upstreamtest.Answers) {
		a.First = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/token" {
				panic(http.ErrAbortHandler) // the connection ends without an answer
			}
			return false
		}
	})
	p.after(t, time.Hour)
	p.company.Change(func(a *upstreamtest.Answers) { a.First = nil })
	p.company.Forget()
	p.after(t, 3*time.Hour)
	p.wantEnded(t, "a refusal after a lost answer", b, &held, false)
	p.after(t, time.Hour)
	p.wantEnded(t, "after the grace", b, &held, true)
}

// TestRecheckUnsent: a provider that was not even reached has not replaced the token, so its refusal
// after that counts: who was removed while it was down does not stay for the grace.
func TestRecheckUnsent(t *testing.T) {
	t.Parallel()
	p, b, held := newRechecked(t, anybody)
	p.company.Change(func(a *upstreamtest.Answers) { a.First = down("/.well-known/openid-configuration") })
	p.restart()
	p.after(t, time.Hour)
	p.after(t, time.Hour)
	p.wantEnded(t, "while it is down", b, &held, false)
	p.company.Change(func(a *upstreamtest.Answers) { a.First = nil })
	p.company.Forget()
	p.after(t, time.Hour)
	p.wantEnded(t, "a refusal after questions that were not sent", b, &held, true)
}

// TestRecheckLease: of two processes that look at the same time one asks; a process that was
// overtaken by a new sign-in writes nothing, and ends nobody.
func TestRecheckLease(t *testing.T) {
	t.Parallel()
	p, b, held := newRechecked(t, anybody)
	second := newHarness(t, setup{store: p.store, config: func(c *authz.Config) {
		p.configure(c)
		c.Now, c.Providers[0].Recheck, c.RecheckGrace = p.clock.Now, time.Hour, 4*time.Hour
	}})
	p.clock.advance(time.Hour)
	p.meter.holdReadsOf("provider-token", 2)
	var both sync.WaitGroup
	for _, h := range []*harness{p.harness, second} {
		both.Go(func() {
			if err := h.handler.Load().RecheckDue(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	p.meter.after.Store(nil)
	if n := p.company.Requests("/token"); n != 2 {
		t.Errorf("two processes asked %d times", n-1)
	}
	if log := p.log.String() + second.log.String(); strings.Contains(log, "cannot be checked") {
		t.Errorf("the process without the lease calls it a failure:\n%s", log)
	}
	p.wantEnded(t, "after both", b, &held, false)

	// The provider says no, and meanwhile the person signs in again.
	id := storage.IdentityAlias("company", p.company.URL(), "1")
	p.company.Forget()
	another, again := p.newBrowser(), tokens{}
	once := sync.Once{}
	p.company.Change(func(a *upstreamtest.Answers) {
		a.First = func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/token" && r.FormValue("grant_type") == "refresh_token" {
				once.Do(func() { again = another.granted(p.company, testClients()["native"]) })
			}
			return false
		}
	})
	p.after(t, time.Hour)
	p.wantEnded(t, "overtaken by a sign-in", another, &again, false)
	if token, err := p.store.ProviderToken(t.Context(), id); err != nil || token.Asked || token.Gone != "" {
		t.Errorf("the record of the new sign-in is %+v, %v", token, err)
	}
}

// TestRecheckStoreFails: wherever the store fails between the provider's no and its consequences,
// a later round draws them.
func TestRecheckStoreFails(t *testing.T) {
	t.Parallel()
	for lost := 1; lost <= 4; lost++ {
		p, b, held := newRechecked(t, anybody)
		p.clock.advance(time.Hour)
		p.company.Forget()
		puts := 0
		failing := func(op, key string) {
			if op == "put" {
				if puts++; puts == lost {
					p.faults.SetDown(true)
				}
			}
		}
		p.meter.before.Store(&failing)
		_ = p.handler.Load().RecheckDue(t.Context())
		p.meter.before.Store(nil)
		p.faults.SetDown(false)
		if lost > 2 { // the no is on record: nobody is asked again, and there is no lease to wait for
			p.company.Change(func(a *upstreamtest.Answers) { a.First = down("/token") })
			p.after(t, 0)
		}
		for range 8 {
			p.after(t, time.Hour*time.Duration(max(0, min(1, 3-lost))))
		}
		p.wantEnded(t, "after a failure of the store", b, &held, true)
		log := p.log.String()
		if !strings.Contains(log, "a person cannot be checked at the provider") || lost > 2 && !strings.Contains(log, "does not know the person's sign-in any more") {
			t.Errorf("failure %d: the log does not say what happened:\n%s", lost, log)
		}
	}
}
