package authz_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/authz/upstream/upstreamtest"
)

// asks: a client asks for a sign-in, a recent one, one of somebody, or no page at all.
func (l *signInLife) asks() bool {
	l.t.Helper()
	w := l.window()
	l.p.clock.advance(time.Second)
	prompt, hint := pick(l.random, []string{"", "", "none", "none", "login", "select_account", "consent"}), pick(l.random, []string{"", "", personName, "writer"})
	age := pick(l.random, []time.Duration{-1, -1, 0, time.Minute, 10 * time.Minute, time.Hour})
	request := replaced(asks(testClients()["native"]), "prompt", prompt, "login_hint", hint)
	if age >= 0 {
		request.Set("max_age", fmt.Sprint(int(age.Seconds())))
	}
	enough := l.live(w) && prompt != "login" && prompt != "select_account" && age != 0 && (age < 0 || l.now().Sub(w.since) <= age) && (hint == "" || hint == w.who)
	want := map[bool]string{true: "/consent?", false: "/login?"}[enough]
	if prompt == "none" {
		want = map[bool]string{true: "error=consent_required", false: "error=login_required"}[enough]
	}
	to := w.open(l.p.issuer + "/authorize?" + request.Encode()).header.Get("Location")
	l.tell("browser %d is asked with prompt %q, max_age %s, login_hint %q", slices.Index(l.windows, w), prompt, age, hint)
	if !strings.Contains(to, want) {
		l.t.Errorf("the request of %q, who signed in at %s, leads to %q, want %q", w.who, w.since, to, want)
	}
	return true
}

// guess: a stranger guesses a password thirty times, at any server, and then gets no answer. Nobody else
// is kept out.
func (l *signInLife) guess() bool {
	l.t.Helper()
	name, p := l.own()
	if !l.passwords || p.password != personPassword || l.now().Before(l.guessed[name].Add(time.Hour)) {
		return false
	}
	l.guessed[name] = l.now()
	l.strangers++
	stranger := l.p.newBrowser()
	stranger.from = fmt.Sprintf("100.%d.0.1", 64+l.strangers)
	stranger.open(l.p.issuer + "/authorize?" + asks(testClients()["native"]).Encode())
	page := stranger.follow()
	l.tell("a stranger guesses the password of %s", name)
	for n := range 31 {
		l.p.handler.Store(pick(l.random, l.servers))
		typed, want := "a guess", http.StatusForbidden
		if stranger.page = page; n == 30 {
			typed, want = p.password, http.StatusTooManyRequests
		}
		if r := stranger.submit("username", name, "password", typed); r.status != want {
			l.t.Errorf("guess %d of the password of %s, want status %d: %s", n, name, want, brief(r))
			break
		}
	}
	return true
}

// meanwhile lets, at times, something happen to a person between two steps of a sign-in in a browser.
func (l *signInLife) meanwhile(w *window, name string, also ...func() bool) {
	l.t.Helper()
	if l.random.IntN(4) > 0 {
		return
	}
	page := w.page
	l.aim = name
	pick(l.random, append(also, l.setPassword, l.resetPerson, l.disable, l.remove, l.endOthers, l.guess))()
	l.aim, w.page = "", page
	l.p.handler.Store(pick(l.random, l.servers))
}

// while: a person takes time.
func (l *signInLife) while() bool {
	d := pick(l.random, []time.Duration{9 * time.Minute, 11 * time.Minute})
	l.tell("%s pass", d)
	l.p.clock.advance(d)
	return true
}

// typeWrong enters, at times, a code that is not right.
func (l *signInLife) typeWrong(w *window, right string) {
	l.t.Helper()
	if l.random.IntN(4) > 0 || right == "000000" {
		return
	}
	if r := w.submit("code", "000000"); r.status != http.StatusForbidden {
		l.t.Errorf("a wrong code: %s", brief(r))
	}
}

// typeAgain enters, at times, a code that was used at this moment elsewhere, in another browser.
func (l *signInLife) typeAgain(name string, p *signer, code string) {
	l.t.Helper()
	if l.random.IntN(3) > 0 {
		return
	}
	l.p.handler.Store(pick(l.random, l.servers))
	b := l.p.newBrowser()
	b.open(l.p.issuer + "/authorize?" + asks(testClients()["native"]).Encode())
	b.follow()
	b.submit("username", name, "password", p.password)
	b.follow()
	if r := b.submit("code", code); r.status != http.StatusForbidden {
		l.t.Errorf("the code %s of %s again: %s", code, name, brief(r))
	}
}

// recheck asks the company about those who are due; at times it has forgotten them before.
func (l *signInLife) recheck() bool {
	l.t.Helper()
	if l.random.IntN(3) == 0 {
		l.tell("the company forgets everybody")
		l.p.company.Forget()
		for _, t := range l.tokens {
			t.forgotten = true
		}
	}
	l.tell("the company is asked about people")
	l.p.must(l.p.handler.Load().RecheckDue(l.t.Context()))
	for account, t := range l.tokens {
		name := l.owner(account)
		switch {
		case l.now().Before(t.due):
			continue
		case name != "" && !l.people[name].disabled && !t.forgotten:
			t.due = l.now().Add(time.Hour)
			continue
		case name != "" && !l.people[name].disabled:
			l.ended(name)
			l.signOut(func(w *window) bool { return w.who == name })
			for _, g := range l.grants {
				g.revoked = g.revoked || g.who == name
			}
		}
		delete(l.tokens, account)
	}
	return true
}

// told records that the company vouched for an account now, and can be asked again.
func (l *signInLife) told(account string) {
	if strings.HasPrefix(account, "company/") {
		l.tokens[account] = &signInToken{due: l.now().Add(time.Hour)}
	}
}

// logout ends what began with an account at the company, sign-ins that are under way included.
func (l *signInLife) logout(account string) bool {
	l.t.Helper()
	l.tell("a logout of %s", account)
	if r := l.p.sendLogout("company", l.p.logoutOf(map[string]any{"sub": account[len("company/p"):][:1]})); r.status != http.StatusOK {
		l.t.Errorf("a logout: %s", brief(r))
	}
	l.signOut(func(w *window) bool { return w.account == account })
	if l.owner(account) != "" {
		l.want[audit.SignedOut]++
	}
	return true
}

// fake returns one of the providers, where one of two people is signed in, and the account of that one.
func (l *signInLife) fake() (id string, at *upstreamtest.Provider, account string) {
	id, subject := pick(l.random, []string{"company", "other"}), pick(l.random, []string{"1", "2"})
	at = map[string]*upstreamtest.Provider{"company": l.p.company, "other": l.p.other}[id]
	at.SignIn(personOf(subject, "p"+subject+"@example.com"))
	return id, at, id + "/p" + subject + "@example.com"
}
