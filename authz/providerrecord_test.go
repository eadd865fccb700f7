package authz_test

import (
	"context"
	"errors"
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

// TestRecheckStillAsked: after an answer that was lost, a question that is not even sent does not make
// the token known to be current again.
func TestRecheckStillAsked(t *testing.T) {
	t.Parallel()
	p, b, held := newRechecked(t, anybody)
	p.company.Change(func(a *upstreamtest.Answers) {
		a.First = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/token" {
				panic(http.ErrAbortHandler)
			}
			return false
		}
	})
	p.after(t, time.Hour)
	p.company.Change(func(a *upstreamtest.Answers) { a.First = down("/.well-known/openid-configuration") })
	p.restart()
	p.after(t, time.Hour)
	p.company.Change(func(a *upstreamtest.Answers) { a.First = nil })
	p.company.Forget()
	p.after(t, time.Hour)
	p.wantEnded(t, "a refusal of a token that may have been replaced", b, &held, false)
}

// TestRecheckKeepsNewToken: a token that came with an answer of which nothing else could be judged is
// kept, and the person is asked about soon.
func TestRecheckKeepsNewToken(t *testing.T) {
	t.Parallel()
	p, b, held := newRechecked(t, upstream.Allow{People: []string{"ada@example.com"}})
	p.meter.failReads("pin")
	p.after(t, time.Hour)
	p.meter.failReads("")
	id, now := storage.IdentityAlias("company", p.company.URL(), "1"), p.clock.Now()
	if token, err := p.store.ProviderToken(t.Context(), id); err != nil || !token.Due.Equal(now.Add(time.Minute)) || !token.LeaseUntil.IsZero() {
		t.Errorf("the record is %+v, %v; want the next question in a minute", token, err)
	}
	for range 2 { // each token counts once
		p.after(t, time.Minute)
		p.wantEnded(t, "after a failure of the store", b, &held, false)
		token, err := p.store.ProviderToken(t.Context(), id)
		if err != nil || !token.Confirmed.Equal(p.clock.Now()) || token.Asked {
			t.Errorf("the record is %+v, %v", token, err)
		}
		p.clock.advance(59 * time.Minute)
	}
}

// TestRecheckWaits: without an answer the next question comes later each time, but not later than the
// provider is asked anyway, nor than an hour.
func TestRecheckWaits(t *testing.T) {
	t.Parallel()
	for every, waits := range map[time.Duration][]int{
		10 * time.Minute: {1, 2, 4, 8, 10, 10},
		8 * time.Hour:    {1, 2, 4, 8, 16, 32, 60, 60},
	} {
		p, _, _ := newRechecked(t, anybody)
		p.cfg.Providers[0].Recheck, p.cfg.RecheckGrace = every, 48*time.Hour
		p.restart()
		p.company.Change(func(a *upstreamtest.Answers) { a.First = down("/token") })
		pause := time.Hour
		for i, wait := range waits {
			p.after(t, pause)
			pause = time.Duration(wait) * time.Minute
			token, err := p.store.ProviderToken(t.Context(), storage.IdentityAlias("company", p.company.URL(), "1"))
			if err != nil || token.Failures != i+1 || token.Due.Sub(p.clock.Now()) != pause {
				t.Errorf("every %s: failure %d: the next question in %s, %v; want %s", every, i+1, token.Due.Sub(p.clock.Now()), err, pause)
			}
		}
	}
}

// TestRecheckMeanwhile: who is disabled while the provider is asked is no failure; that the record
// cannot be written is one; and a no does not end the sessions of somebody who has the name by then.
func TestRecheckMeanwhile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		path   string
		change func(p *atProvider, user storage.User) error
		failed bool
		gone   bool
	}{
		"disabled": {"/userinfo", func(p *atProvider, user storage.User) error {
			user.Disabled = true
			return p.store.UpdateUser(t.Context(), user)
		}, false, false},
		"store down": {"/userinfo", func(p *atProvider, _ storage.User) error {
			p.meter.once(&p.meter.before, "put", "user", func() { p.faults.SetDown(true) })
			return nil
		}, true, false},
		"somebody else": {"/token", func(p *atProvider, user storage.User) error {
			user.Subject = "somebody else"
			return p.store.UpdateUser(t.Context(), user)
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, _, _ := newRechecked(t, anybody)
			if test.gone {
				p.company.Forget()
			}
			user, once := p.user(t, adaName), sync.Once{}
			p.company.Change(func(a *upstreamtest.Answers) {
				a.IDToken = func(m map[string]any) { m["name"] = "Ada L" }
				a.First = func(_ http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path == test.path {
						once.Do(func() { p.must(test.change(p, user)) })
					}
					return false
				}
			})
			p.clock.advance(time.Hour)
			p.must(p.handler.Load().RecheckDue(t.Context()))
			p.meter.before.Store(nil)
			p.faults.SetDown(false)
			if log := p.log.String(); strings.Contains(log, "cannot be checked") != test.failed || strings.Contains(log, "were ended") {
				t.Errorf("the log:\n%s", log)
			}
			if now := p.user(t, adaName); now.SessionEpoch != user.SessionEpoch {
				t.Errorf("sessions of %s ended", now.Subject)
			}
		})
	}
}

// TestRecheckUnreadable: a record that cannot be read is in the log and keeps nobody else from being
// asked about; that nothing can be read is an error.
func TestRecheckUnreadable(t *testing.T) {
	t.Parallel()
	p, _, _ := newRechecked(t, anybody)
	p.company.SignIn(personOf("2", "grace@example.com"))
	p.newBrowser().granted(p.company, testClients()["native"])
	key := "gatehouse:provider-token:" + string(storage.IdentityAlias("company", p.company.URL(), "1"))
	p.putRaw(key, storage.Item{Data: []byte{99, 0, 0, 0, 0, 0, 0, 0, 0, '{', '}'}, Version: storage.Version{1}})
	asked := p.company.Requests("/token")
	p.after(t, time.Hour)
	if n := p.company.Requests("/token") - asked; n != 1 || !strings.Contains(p.log.String(), "the provider token of a person cannot be read") {
		t.Errorf("%d were asked about; want the one who can be read\n%s", n, p.log)
	}
	p.faults.SetDown(true)
	if err := p.handler.Load().RecheckDue(t.Context()); err == nil {
		t.Error("a store that does not answer has nobody who is due")
	}
}

// TestRecheckBesideADamagedGrant: the end of a person is drawn once, although one of their grants cannot be
// read. A session that begins later in another way goes on.
func TestRecheckBesideADamagedGrant(t *testing.T) {
	t.Parallel()
	p, b, held := newRechecked(t, anybody)
	p.damage(p.only("grant"))
	other := b.tokens(testClients()["native"], asks(testClients()["native"]))
	p.company.Forget()
	p.after(t, time.Hour)
	if b.live() || p.active(other.access) || p.active(held.access) {
		t.Error("the person goes on")
	}
	id := storage.IdentityAlias("company", p.company.URL(), "1")
	if _, err := p.store.ProviderToken(t.Context(), id); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the record is still there: %v", err)
	}
	epoch := func() int {
		user, err := p.store.UserOf(t.Context(), id)
		p.must(err)
		return user.SessionEpoch
	}
	before := epoch()
	p.after(t, time.Minute)
	if now := epoch(); now != before {
		t.Errorf("a later round ends sessions again: %d, then %d", before, now)
	}
	p.wantLogged(`msg="a grant that should end cannot be read"`)
}

// TestRecheckRecord: while a question is under way its record has the lease; an answer is on record
// as it is, and no answer is counted, with the time of the next question.
func TestRecheckRecord(t *testing.T) {
	t.Parallel()
	p, _, _ := newRechecked(t, anybody)
	id := storage.IdentityAlias("company", p.company.URL(), "1")
	record := func() storage.ProviderToken {
		token, err := p.store.ProviderToken(t.Context(), id)
		if err != nil {
			t.Error(err)
		}
		return token
	}
	p.company.Change(func(a *upstreamtest.Answers) {
		a.First = func(w http.ResponseWriter, r *http.Request) bool {
			if at := record(); r.URL.Path == "/token" && (!at.Asked || !at.LeaseUntil.After(p.clock.Now())) {
				t.Errorf("asked without a lease: %+v", at)
			}
			return down("/token")(w, r)
		}
	})
	for failures, wait := range []time.Duration{time.Minute, 2 * time.Minute} {
		p.after(t, []time.Duration{time.Hour, time.Minute}[failures])
		if at := record(); at.Failures != failures+1 || !at.LeaseUntil.IsZero() || !at.Due.Equal(p.clock.Now().Add(wait)) {
			t.Errorf("without an answer: %+v; want the next question in %s", at, wait)
		}
	}
	p.company.Change(func(a *upstreamtest.Answers) { a.First = nil })
	p.after(t, 2*time.Minute)
	now := p.clock.Now()
	if at := record(); at.Failures != 0 || !at.LeaseUntil.IsZero() || !at.Confirmed.Equal(now) || !at.Due.Equal(now.Add(time.Hour)) {
		t.Errorf("after an answer: %+v; want it confirmed at %s", at, now)
	}
}

// TestRecheckOfNobody: a provider is not asked about who is disabled, who has disconnected the account
// there, or after whom somebody else has it, and the token is forgotten. Nor is it if the operator
// does not want that any more; then everything goes on.
func TestRecheckOfNobody(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *atProvider, user *storage.User){
		"disabled": func(p *atProvider, user *storage.User) { user.Disabled = true },
		"disconnected": func(p *atProvider, user *storage.User) {
			user.Identities, user.Password = nil, "another way to sign in"
		},
		"somebody else's": func(p *atProvider, user *storage.User) {
			alias, err := p.store.Alias(p.t.Context(), user.Aliases()[0])
			user.Subject = "somebody else"
			p.must(errors.Join(err, p.store.PutAlias(p.t.Context(), user.Aliases()[0], alias.Leading(user.Name, user.Subject))))
		},
		"not configured": func(p *atProvider, _ *storage.User) {
			p.cfg.Providers[0].Recheck = 0
			p.restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, b, held := newRechecked(t, anybody)
			user, asked := p.user(t, adaName), p.company.Requests("/token")
			change(p, &user)
			p.must(p.store.UpdateUser(t.Context(), user))
			p.after(t, time.Hour)
			if n := p.company.Requests("/token") - asked; n != 0 {
				t.Errorf("the provider was asked %d times", n)
			}
			if _, err := p.store.ProviderToken(t.Context(), storage.IdentityAlias("company", p.company.URL(), "1")); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("the token: %v", err)
			}
			if name == "not configured" {
				p.after(t, 24*time.Hour)
				p.wantEnded(t, name, b, &held, false)
			}
		})
	}
}

// TestRecheckWithoutProvider: of people of a provider that is not configured any more it is unknown
// whether they are still known there, and what they have ends with the grace.
func TestRecheckWithoutProvider(t *testing.T) {
	t.Parallel()
	p, b, held := newRechecked(t, anybody)
	p.cfg.Providers = p.cfg.Providers[1:]
	p.restart()
	p.after(t, time.Hour)
	p.after(t, 3*time.Hour-time.Second)
	p.wantEnded(t, "within the grace", b, &held, false)
	p.after(t, time.Second)
	p.wantEnded(t, "after the grace", b, &held, true)
	if log := p.log.String(); !strings.Contains(log, "not configured any more") || !strings.Contains(log, "company has not confirmed the person for 4h0m0s") {
		t.Errorf("the log does not say why:\n%s", log)
	}
}

// TestRecheckPause: Run looks for people who are due as often as the provider needs that is asked most
// often, in whichever order they are configured, and not at all if none is asked.
func TestRecheckPause(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		company, other, want time.Duration
	}{
		{0, 0, 0},
		{8 * time.Hour, 0, 15 * time.Second},
		{time.Minute, time.Hour, 15 * time.Second},
		{4 * time.Second, time.Hour, time.Second},
		{time.Hour, 4 * time.Second, time.Second},
		{0, time.Second, 250 * time.Millisecond},
	} {
		p := newAtProvider(t, func(c *authz.Config) { c.Providers[0].Recheck, c.Providers[1].Recheck = tt.company, tt.other })
		if got, ok := p.handler.Load().RecheckPause(); ok != (tt.want > 0) || ok && got != tt.want {
			t.Errorf("%s and %s: %s, %t; want %s", tt.company, tt.other, got, ok, tt.want)
		}
	}
}

// TestRunRechecks: Run asks about those who are due, says when it cannot, and ends with its context.
func TestRunRechecks(t *testing.T) {
	t.Parallel()
	p, _, _ := newRechecked(t, anybody)
	p.cfg.Providers[0].Recheck = time.Second
	p.restart()
	asked, once := make(chan struct{}), sync.Once{}
	p.company.Change(func(a *upstreamtest.Answers) {
		a.First = func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/token" {
				once.Do(func() { close(asked) })
			}
			return false
		}
	})
	p.clock.advance(time.Hour)
	running, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.handler.Load().Run(running) }()
	<-asked
	p.faults.SetDown(true)
	for !strings.Contains(p.log.String(), "the providers cannot be asked about people") {
		time.Sleep(5 * time.Millisecond)
	}
	p.faults.SetDown(false)
	end()
	<-ended
}
