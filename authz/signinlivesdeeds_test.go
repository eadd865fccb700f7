package authz_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

func (l *signInLife) somebody() (string, *signer) {
	name := pick(l.random, l.names())
	if l.people[l.aim] != nil {
		name = l.aim
	}
	return name, l.people[name]
}

// own returns somebody who is not of a provider.
func (l *signInLife) own() (string, *signer) {
	name := pick(l.random, []string{personName, "writer"})
	if l.aim != "" && !ofProvider(l.aim) {
		name = l.aim
	}
	return name, l.people[name]
}

// byPassword: a password, and where there is a second factor a code of either kind.
func (l *signInLife) byPassword() bool {
	l.t.Helper()
	name, p := l.own()
	l.p.clock.advance(time.Minute) // the last code is over
	w := l.atPage()
	typed := p.password
	if typed == "" {
		typed = personPassword
	}
	w.submit("username", name, "password", typed)
	ok := p.password != "" && !p.disabled && l.passwords
	if ok && p.factor != nil {
		if !strings.Contains(w.last.header.Get("Location"), "/login/code?") {
			l.t.Errorf("the password of %s leads to %s", name, brief(w.last))
			return true
		}
		w.follow()
		at, ended := l.now(), p.ended
		l.meanwhile(w, name, l.while)
		ok = l.people[name] == p && !p.disabled && p.ended == ended && l.now().Before(at.Add(10*time.Minute))
		code := app{l.p.harness, p.factor}.code()
		if ok {
			l.typeWrong(w, code)
		}
		if len(p.recovery) > 0 && l.random.IntN(3) == 0 {
			code = p.recovery[0]
			if ok {
				p.recovery = p.recovery[1:]
				l.want[audit.PersonChanged]++
			}
		}
		if w.submit("code", code); ok {
			l.typeAgain(name, p, code)
		}
	}
	l.arrived(w, name, "", ok)
	return true
}

// lighten gives a person, most of the time, the password with a hash that takes little work, so that the test
// is quick.
func (l *signInLife) lighten(name string) {
	l.t.Helper()
	if l.random.IntN(8) == 0 || l.people[name].password == "" {
		return
	}
	u := l.p.user(l.t, name)
	u.Password, l.people[name].password = personHash, personPassword
	l.p.must(l.p.store.UpdateUser(l.t.Context(), u))
}

func (l *signInLife) byPasskey() bool {
	l.t.Helper()
	name, p := l.own()
	if len(p.passkeys) == 0 {
		return false
	}
	w, k := l.atPage(), pick(l.random, p.passkeys)
	l.meanwhile(w, name)
	w.answer(k, nil)
	p = l.people[name]
	l.arrived(w, name, withPasskey, !p.disabled && slices.Contains(p.passkeys, k))
	return true
}

// byProvider: an account that leads to nobody makes a person.
func (l *signInLife) byProvider() bool {
	l.t.Helper()
	id, at, account := l.fake()
	if !l.configured(account) {
		return false
	}
	w := l.atPage()
	w.submit("provider", id)
	back, out := w.leave(at), false
	l.meanwhile(w, l.owner(account), func() bool {
		out = id == "company"
		return out && l.logout(account)
	})
	w.open(back.String())
	name := l.owner(account)
	ok := name == "" || !l.people[name].disabled
	if name == "" {
		name = account
		for n := 2; l.people[name] != nil; n++ { // somebody has the name who has disconnected the account
			name = fmt.Sprintf("%s~%d", account, n)
		}
		l.people[name] = &signer{incarnation: len(l.story), accounts: map[string]bool{account: true}}
	}
	if ok { // the company vouched for the account, whatever it said of sessions meanwhile
		l.told(account)
	}
	l.arrived(w, name, account, ok && !out)
	return true
}

// byLink opens a link, and chooses a password or makes a passkey with it, once. A link does not lead around a
// second factor: then it makes no passkey.
func (l *signInLife) byLink() bool {
	l.t.Helper()
	if len(l.links) == 0 {
		return false
	}
	link, w := pick(l.random, l.links), l.window()
	n, name, p := slices.Index(l.windows, w), link.who, l.people[link.who]
	page := w.at(link.address).last
	if works := !link.over && l.now().Before(link.until); !works || page.status != http.StatusOK {
		if l.tell("the link of %s is opened in browser %d, works: %t", name, n, works); works || page.status != http.StatusBadRequest {
			l.t.Errorf("the link: %s", brief(page))
		}
		return true
	}
	asked := p.factor != nil && l.passwords
	if passkeyForm.MatchString(page.body) == asked {
		l.t.Errorf("the link of %s makes a passkey: %t", name, asked)
		return true
	}
	l.leave(name)
	l.want[audit.PersonChanged]++
	with := ""
	if !l.passwords || !asked && len(p.passkeys) < 3 && l.random.IntN(2) == 0 {
		l.tell("%s makes a passkey with a link, in browser %d", name, n)
		k := newPasskey(l.p.user(l.t, name))
		w.answer(k, nil)
		with = withPasskey
		p.passkeys = append(p.passkeys, k)
	} else {
		l.tell("%s chooses a password with a link, in browser %d", name, n)
		p.password = fmt.Sprint("chosen password ", l.random.Uint32())
		w.post(l.p.issuer+"/invite", form("csrf", page.csrf(), "do", "password", "new", p.password))
	}
	if w.last.status != http.StatusSeeOther {
		l.t.Errorf("the link: %s", brief(w.last))
	}
	if !asked {
		l.begin(w, name, with)
	}
	l.lighten(name)
	return true
}

// on opens a page with a browser in which somebody is signed in; nil if nobody is. With a page for which
// the sign-in must be new, one that is not leads to another sign-in.
func (l *signInLife) on(path string, recent bool) *window {
	l.t.Helper()
	w := l.window()
	if !l.live(w) || recent && ofProvider(w.who) {
		return nil
	}
	r := w.open(l.p.issuer + path)
	if want := !recent || l.recent(w); (r.status == http.StatusOK) != want {
		l.t.Errorf("%s, who signed in at %s, opens %s: %s", w.who, w.since, path, brief(r))
	} else if want {
		return w
	}
	return nil
}

func (l *signInLife) signOutHere() bool {
	w := l.on("/account", false)
	if w == nil {
		return false
	}
	l.tell("%s signs out of browser %d", w.who, slices.Index(l.windows, w))
	w.push(w.last, "/logout", "sign-out", w.last.buttons("sign-out")[0])
	w.who = ""
	l.want[audit.SignedOut]++
	return true
}

// endOne ends one of the sessions on the list. Which browser has it, the browsers tell: exactly one of the person.
func (l *signInLife) endOne() bool {
	w := l.on("/account/sessions", false)
	if w == nil {
		return false
	}
	page := w.page
	ids := page.buttons("end")
	id := pick(l.random, ids)
	w.push(page, "/account/sessions", "end", id)
	l.want[audit.SignedOut]++
	l.tell("%s ends session %d of the list", w.who, slices.Index(ids, id))
	for _, other := range l.windows {
		if other.who == w.who && other != w && l.p.with(other.jar, l.p.newRequest(http.MethodGet, l.p.issuer+"/account", nil)).status != http.StatusOK {
			other.who = ""
			return true
		}
	}
	w.who = ""
	return true
}

func (l *signInLife) endOthers() bool {
	w := l.on("/account/sessions", false)
	if w == nil {
		return false
	}
	l.tell("%s signs out everywhere else", w.who)
	w.push(w.page, "/account/sessions", "end-others", "yes")
	l.want[audit.SignedOut]++
	l.elsewhere(w)
	return true
}

func (l *signInLife) changeOwnPassword() bool {
	if !l.passwords {
		return false
	}
	w := l.on("/account/password", true)
	if w == nil || l.people[w.who].password == "" {
		return false
	}
	p := l.people[w.who]
	next := fmt.Sprint("own password ", l.random.Uint32())
	page := w.page
	if w.account != withPasskey && l.random.IntN(3) == 0 {
		if r := w.submit("current", "not the password", "new", next); r.status == http.StatusOK {
			l.t.Errorf("the password changes without the current one: %s", brief(r))
		}
		w.page = page
	}
	r := w.submit("current", p.password, "new", next)
	if l.tell("%s changes the password", w.who); r.status != http.StatusOK {
		l.t.Errorf("changing the password: %s", brief(r))
	}
	p.password = next
	l.want[audit.PersonChanged]++
	l.elsewhere(w)
	l.lighten(w.who)
	return true
}

func (l *signInLife) addPasskey() bool {
	w := l.window()
	if !l.recent(w) || ofProvider(w.who) || len(l.people[w.who].passkeys) > 2 {
		return false
	}
	if r := w.open(l.p.issuer + "/account/passkeys"); r.status != http.StatusOK {
		l.t.Errorf("%s, who signed in at %s, opens the page of passkeys: %s", w.who, w.since, brief(r))
		return true
	}
	k := newPasskey(l.p.user(l.t, w.who))
	if r := w.answer(k, nil); r.status != http.StatusSeeOther {
		l.t.Errorf("making a passkey: %s", brief(r))
	}
	l.tell("%s makes a passkey", w.who)
	l.want[audit.PersonChanged]++
	l.people[w.who].passkeys = append(l.people[w.who].passkeys, k)
	return true
}

// removePasskey removes the first one on the page, unless it is the last way to sign in.
func (l *signInLife) removePasskey() bool {
	w := l.window()
	if !l.recent(w) || ofProvider(w.who) || len(l.people[w.who].passkeys) == 0 {
		return false
	}
	p := l.people[w.who]
	w.open(l.p.issuer + "/account/passkeys")
	r, ok := w.submit("do", "remove"), l.ways(p) > 1
	if l.tell("%s removes a passkey", w.who); (r.status == http.StatusSeeOther) != ok {
		l.t.Errorf("removing a passkey, want %t: %s", ok, brief(r))
	}
	if ok {
		p.passkeys = p.passkeys[1:]
		l.want[audit.PersonChanged]++
		l.elsewhere(w)
	}
	return true
}

var shownRecovery = regexp.MustCompile(`<li><code>([0-9a-z-]{19})</code></li>`)

// changeFactor sets a second factor up, removes it, or makes new recovery codes.
func (l *signInLife) changeFactor() bool {
	w := l.window()
	if !l.recent(w) || !l.passwords || l.people[w.who].password == "" {
		return false
	}
	p := l.people[w.who]
	w.open(l.p.issuer + "/account/second-factor")
	l.want[audit.PersonChanged]++
	switch {
	case p.factor == nil:
		l.tell("%s sets up a second factor", w.who)
		p.factor = secretOn(l.t, w.page)
		w.submit("code", app{l.p.harness, p.factor}.code())
	case l.random.IntN(2) == 0:
		l.tell("%s removes the second factor", w.who)
		w.submit("do", "remove")
		p.factor, p.recovery = nil, nil
		l.elsewhere(w)
		return true
	default:
		l.tell("%s makes new recovery codes", w.who)
		w.submit("do", "recovery")
	}
	p.recovery = nil
	for _, found := range shownRecovery.FindAllStringSubmatch(w.last.body, -1) {
		p.recovery = append(p.recovery, found[1])
	}
	if len(p.recovery) != 10 {
		l.t.Errorf("the recovery codes: %s", brief(w.last))
	}
	l.elsewhere(w)
	return true
}

func (l *signInLife) connectAccount() bool {
	id, at, account := l.fake()
	w := l.window()
	if !l.recent(w) || l.owner(account) != "" || !l.configured(account) {
		return false
	}
	w.open(l.p.issuer + "/account/providers")
	w.open(w.connecting(at, id).String())
	if l.tell("%s connects %s", w.who, account); w.last.status != http.StatusSeeOther {
		l.t.Errorf("connecting: %s", brief(w.last))
	}
	l.people[w.who].accounts[account] = true
	l.told(account)
	l.want[audit.PersonChanged]++
	return true
}

func (l *signInLife) disconnectAccount() bool {
	id, at, account := l.fake()
	w := l.window()
	if !l.recent(w) || l.owner(account) != w.who {
		return false
	}
	subject := account[len(id)+2 : len(id)+3]
	page := w.open(l.p.issuer + "/account/providers")
	r := w.post(l.p.issuer+"/account/providers", form("csrf", page.csrf(), "disconnect", string(storage.IdentityAlias(id, at.URL(), subject))))
	p := l.people[w.who]
	left := l.ways(p)
	if l.configured(account) {
		left--
	}
	ok := left > 0
	if l.tell("%s disconnects %s", w.who, account); (r.status == http.StatusSeeOther) != ok {
		l.t.Errorf("disconnecting, want %t: %s", ok, brief(r))
	}
	if ok {
		delete(p.accounts, account)
		delete(l.tokens, account)
		l.want[audit.PersonChanged]++
		l.signOut(func(other *window) bool { return other != w && other.account == account })
	}
	return true
}

func (l *signInLife) setPassword() bool {
	name, p := l.own()
	if p.disabled {
		return false
	}
	l.tell("an operator gives %s a password", name)
	p.password = fmt.Sprint("new password ", l.random.Uint32())
	l.p.must(admin.SetPassword(l.t.Context(), l.p.store, name, p.password))
	l.leave(name)
	l.lighten(name)
	return true
}

func (l *signInLife) resetPerson() bool {
	name, p := l.own()
	if p.disabled {
		return false
	}
	how := admin.Link{For: pick(l.random, []time.Duration{time.Hour, 7 * 24 * time.Hour}), Now: l.now(), DropSecondFactor: l.random.IntN(2) == 0, DropPasskeys: l.random.IntN(2) == 0}
	made, err := admin.Reset(l.t.Context(), l.p.store, name, how)
	l.p.must(err)
	l.tell("an operator resets %s: %+v", name, how)
	l.leave(name)
	p.password = ""
	if how.DropSecondFactor {
		p.factor, p.recovery = nil, nil
	}
	if how.DropPasskeys {
		p.passkeys = nil
	}
	l.links = append(l.links, &link{address: l.p.issuer + "/invite?token=" + made.Token, who: name, until: how.Now.Add(how.For)})
	return true
}

func (l *signInLife) disable() bool {
	name, p := l.somebody()
	l.tell("%s is disabled", name)
	l.p.must(admin.DisableUser(l.t.Context(), l.p.store, name))
	p.disabled = true
	l.leave(name)
	return true
}

// remove removes a person, and adds another one of the same name, who comes from a provider at their
// next sign-in.
func (l *signInLife) remove() bool {
	name, p := l.somebody()
	l.tell("%s is removed", name)
	l.p.must(admin.RemoveUser(l.t.Context(), l.p.store, name))
	l.leave(name)
	delete(l.people, name)
	if !ofProvider(name) {
		l.p.addPerson(name)
		l.people[name] = &signer{incarnation: p.incarnation + 1, password: personPassword, accounts: map[string]bool{}}
	}
	return true
}

func (l *signInLife) logoutAtProvider() bool {
	return l.logout("company/p" + pick(l.random, []string{"1", "2"}) + "@example.com")
}
