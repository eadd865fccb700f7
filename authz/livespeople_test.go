package authz_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// request returns a random authorization request, and what it asks for. A scope that is named counts at
// each resource that defines it; without one, each resource is asked for with all of its scopes. Clients
// often ask for the same again.
func (l *life) request(name string, c testClient) (url.Values, access) {
	uris, named, asked := some(l.random, livesResources), []string{}, access{}
	uris = uris[:1+l.random.IntN(min(2, len(uris)))]
	before := l.someGrant(func(g *modelGrant) bool { return g.person == name && g.client.ID == c.ID })
	if before != nil && l.random.IntN(5) > 1 {
		uris = some(l.random, slices.Sorted(maps.Keys(before.allowed)))
	}
	l.random.Shuffle(len(uris), func(i, j int) { uris[i], uris[j] = uris[j], uris[i] })
	for _, uri := range uris {
		if r := l.entry(uri); r != nil {
			asked[uri] = r.names()
		}
	}
	if l.random.IntN(4) > 0 {
		for _, uri := range uris {
			if len(asked[uri]) > 0 {
				named = append(named, some(l.random, asked[uri])...)
			}
		}
		asked = asked.where(func(_, scope string) bool { return slices.Contains(named, scope) })
	}
	for _, uri := range uris {
		asked[uri] = append([]string{}, asked[uri]...) // also one that is not there
	}
	return asksFor(c, strings.Join(named, " "), uris...), asked
}

// expectPage says what comes of an authorization request, and what the person may allow.
func (l *life) expectPage(w *modelBrowser, c testClient, asked access, prompt string, maxAge time.Duration) (string, access) {
	p := w.of
	if !l.clients[c.ID].usable() {
		return "refused", nil
	}
	for uri := range asked {
		if r := l.entry(uri); r == nil || r.disabled {
			return "invalid_target", nil
		}
	}
	fresh := w.live(l.now()) && l.now().Sub(w.signedIn) <= maxAge
	switch {
	case prompt == "none" && !fresh:
		return "login_required", nil
	case !p.canSignIn():
		return "sign-in", nil
	}
	offered := l.mayHave(p, asked, l.now())
	switch known := l.remembered(p, c, offered) && (prompt == "" || prompt == "none"); {
	case len(offered) == 0 && prompt == "none":
		return "interaction_required", nil
	case len(offered) == 0:
		return "closed", nil
	case known:
		return "code", offered
	case prompt == "none":
		return "consent_required", nil
	}
	return "consent", offered
}

// authorize: a person follows the request of a client, up to its end or to a page that stays open.
func (l *life) authorize() bool {
	l.t.Helper()
	name, p := l.somebody()
	w := pick(l.random, p.browsers)
	c, _ := l.someClient()
	request, asked := l.request(name, c)
	prompt, maxAge := pick(l.random, []string{"", "", "", "", "none", "none", "consent", "login", "select_account"}), 24*time.Hour
	if prompt != "" {
		request.Set("prompt", prompt)
	}
	if l.random.IntN(5) == 0 {
		maxAge = pick(l.random, []time.Duration{time.Second, 10 * time.Minute, time.Hour})
		request.Set("max_age", strconv.Itoa(int(maxAge/time.Second)))
	}
	l.tell("%s asks %s for %s, prompt %q, max_age %s", c.ID, name, asked, prompt, maxAge)
	want, offered := l.expectPage(w, c, asked, prompt, maxAge)
	got := l.follow(w, name, request, prompt == "login" || prompt == "select_account" || l.now().Sub(w.signedIn) > maxAge)
	if l.tell("  %s", got); got != want {
		l.t.Errorf("%s at a request of %s for %s: got %s, want %s: status %d %s", name, c.ID, asked, got, want, w.last.status, w.last.header.Get("Location"))
		return true
	}
	switch got {
	case "code":
		l.coded(w.last, name, c, offered)
	case "closed":
		if w.submit("decision", "deny"); l.at(w.browser) != "access_denied" {
			l.t.Errorf("back from the page that says that nothing is open: %s", w.last)
		}
	case "consent":
		shown := &modelPage{page: w.page, in: w, person: name, of: p.incarnation, session: w.sessions, client: c, states: l.clients[c.ID].states, asked: asked, offered: offered, at: l.now()}
		l.mustShow(shown)
		l.meet(shown)
	}
	return true
}

// meet answers a page at once, after something changed meanwhile, or not yet.
func (l *life) meet(o *modelPage) {
	l.t.Helper()
	switch l.random.IntN(6) {
	case 0:
		l.open = append(l.open, o)
		return
	case 1, 2:
		pick(l.random, []func() bool{l.changeGroup, l.changeGroup, l.reload, l.replaceResource, l.switchResource, l.removeResource, l.rename})()
	}
	l.decide(o)
}

// follow sends a request with the browser of a person and goes on to a page or an answer. A session that
// counts is not asked to sign in, unless it must.
func (l *life) follow(w *modelBrowser, name string, request url.Values, mustSignIn bool) string {
	l.t.Helper()
	b := w.browser
	b.open(l.h.issuer + "/authorize?" + request.Encode())
	for range 6 {
		switch at := l.at(b); {
		case at == "follow":
			b.follow()
		case at == "sign-in" && w.of.canSignIn():
			if w.live(l.now()) && !mustSignIn {
				l.t.Errorf("the session of %s does not count: %s", name, b.last)
			}
			b.submit("username", name, "password", w.of.password)
			w.signedIn, w.sessions = l.now(), w.sessions+1
		default:
			return at
		}
	}
	return l.at(b)
}

// shownError is the code on a page for an error that a client is told only when the person goes back.
var shownError = regexp.MustCompile(`<code>(invalid_target|login_required|consent_required|interaction_required|access_denied)</code>`)

// at names what a browser was answered.
func (l *life) at(b *browser) string {
	if b.last.status == http.StatusSeeOther {
		if strings.HasPrefix(b.last.header.Get("Location"), l.h.issuer+"/") {
			return "follow"
		}
		q := b.last.location(l.t).Query()
		if q.Get("code") != "" {
			return "code"
		}
		return q.Get("error")
	}
	decides := strings.Contains(b.last.body, `name="decision"`)
	switch code := shownError.FindStringSubmatch(b.last.body); {
	case b.last.status == http.StatusForbidden && decides:
		return "closed"
	case b.last.status >= http.StatusBadRequest && code != nil:
		return code[1]
	case b.last.status >= http.StatusBadRequest:
		return "refused"
	case strings.Contains(b.last.body, `name="password"`):
		return "sign-in"
	case decides:
		return "consent"
	}
	return b.last.String()
}

// mustShow compares what may be ticked on a page with what is open to the person.
func (l *life) mustShow(o *modelPage) {
	l.t.Helper()
	_, values := o.page.inputs(l.t)
	if shown := slices.Sorted(slices.Values(values["scope"])); !slices.Equal(shown, o.offered.boxes()) {
		l.t.Errorf("the page shows %v, want %v", shown, o.offered.boxes())
	}
}

// answerLater answers a page that stayed open while other things happened.
func (l *life) answerLater() bool {
	l.t.Helper()
	if len(l.open) == 0 {
		return false
	}
	i := l.random.IntN(len(l.open))
	o := l.open[i]
	l.open = slices.Delete(l.open, i, i+1)
	l.decide(o)
	return true
}

// counts reports whether an answer to a page still counts.
func (l *life) counts(o *modelPage) bool {
	p, client := l.people[o.person], l.clients[o.client.ID]
	offered := l.mayHave(p, o.asked, o.at)
	return l.now().Before(o.at.Add(10*time.Minute)) && p.incarnation == o.of && o.in.live(l.now()) && o.in.sessions == o.session &&
		client.usable() && client.states == o.states && offered.contains(o.offered) && o.offered.contains(offered)
}

// decide answers a page at random.
func (l *life) decide(o *modelPage) {
	l.t.Helper()
	p, client := l.people[o.person], l.clients[o.client.ID]
	b := &browser{h: l.h, jar: o.in.jar, page: o.page}
	counts := l.counts(o)
	if counts && l.random.IntN(8) == 0 {
		l.tell("  %s declines", o.person)
		if b.submit("decision", "deny"); l.at(b) != "access_denied" {
			l.t.Errorf("declined, and then %s", b.last)
		}
		delete(p.memory, o.client.ID)
		return
	}
	ticked, remember := o.offered.boxes(), pick(l.random, []string{"once", "always", "always", "day"})
	if l.random.IntN(2) == 0 {
		ticked = some(l.random, ticked)
	}
	pairs := []string{"decision", "allow", "scope", ""}
	if !client.recognised {
		remember = "once"
	} else {
		pairs = append(pairs, "remember", remember)
	}
	for _, box := range ticked {
		pairs = append(pairs, "scope", box)
	}
	allowed := o.offered.where(func(uri, scope string) bool { return slices.Contains(ticked, o.offered.box(uri, scope)) })
	l.tell("  %s allows %s to %s, remember %s", o.person, allowed, o.client.ID, remember)
	b.submit(pairs...)
	switch got := l.at(b); {
	case counts && got == "code":
		l.remember(p, o.client, o.offered, allowed, remember)
		l.coded(b.last, o.person, o.client, allowed)
	case counts || got == "code":
		l.t.Errorf("the answer counts: %t, and then %s: %s", counts, got, b.last)
	}
}

// coded notes the code that a client got.
func (l *life) coded(answer reply, name string, c testClient, allowed access) {
	l.grants = append(l.grants, &modelGrant{
		person: name, of: l.people[name].incarnation, client: c, allowed: allowed, at: l.now(),
		code: answer.location(l.t).Query().Get("code"), ended: map[string]bool{},
	})
}

// onAccount opens a page of the account in a browser of a person; there is none if the person is not
// signed in there.
func (l *life) onAccount(path string) (string, *modelBrowser, reply) {
	l.t.Helper()
	name, p := l.somebody()
	w := pick(l.random, p.browsers)
	page := w.open(l.h.issuer + path)
	if live := w.live(l.now()); live != (page.status == http.StatusOK) {
		l.t.Errorf("%s is signed in: %t, and %s is %s", name, live, path, page)
	} else if !live {
		return "", nil, reply{}
	}
	return name, w, page
}

// press presses one of the buttons with a name on a page, and returns its value; "" without any.
func (l *life) press(w *modelBrowser, page reply, path, name string) string {
	l.t.Helper()
	values := page.buttons(name)
	if len(values) == 0 {
		return ""
	}
	value := pick(l.random, values)
	if answer := w.push(page, path, name, value); answer.status != http.StatusOK {
		l.t.Errorf("%s: %s", name, answer)
	}
	return value
}

func (l *life) endApplication() bool {
	l.t.Helper()
	name, w, page := l.onAccount("/account/applications")
	if w == nil {
		return false
	}
	id := l.press(w, page, "/account/applications", "end-application")
	l.tell("%s ends %s", name, id)
	l.end(func(g *modelGrant) bool { return g.person == name && g.client.ID == id })
	delete(w.of.memory, id)
	return id != ""
}

func (l *life) endGrant() bool {
	l.t.Helper()
	name, w, page := l.onAccount("/account/applications")
	if w == nil {
		return false
	}
	id := l.press(w, page, "/account/applications", "end-grant")
	l.tell("%s ends the grant %s", name, id)
	l.end(func(g *modelGrant) bool { return g.id() == id })
	return id != ""
}

func (l *life) endAll() bool {
	l.t.Helper()
	name, w, page := l.onAccount("/account/applications/end-all")
	if w == nil {
		return false
	}
	l.tell("%s ends everything", name)
	l.press(w, page, "/account/applications/end-all", "end-all")
	l.end(func(g *modelGrant) bool { return g.person == name })
	clear(w.of.memory)
	return true
}

func (l *life) forget() bool {
	l.t.Helper()
	name, w, page := l.onAccount("/account/remembered")
	if w == nil {
		return false
	}
	id := l.press(w, page, "/account/remembered", "forget")
	l.tell("%s forgets %s", name, id)
	delete(w.of.memory, id)
	return id != ""
}

func (l *life) signOut() bool {
	l.t.Helper()
	name, w, page := l.onAccount("/account")
	if w == nil {
		return false
	}
	l.tell("%s signs out", name)
	l.press(w, page, "/logout", "sign-out")
	w.signedIn = time.Time{}
	return true
}

// endSession ends one session, perhaps that of the browser itself.
func (l *life) endSession() bool {
	l.t.Helper()
	name, w, page := l.onAccount("/account/sessions")
	if w == nil {
		return false
	}
	l.tell("%s ends one session", name)
	l.press(w, page, "/account/sessions", "end")
	before := w.of.signedIn(l.now())
	for _, other := range before {
		if other.open(l.h.issuer + "/account"); other.last.status != http.StatusOK {
			other.signedIn = time.Time{}
		}
	}
	if ended := len(before) - len(w.of.signedIn(l.now())); ended != 1 {
		l.t.Errorf("%d sessions ended with one", ended)
	}
	return true
}

// endOtherSessions signs out everywhere else. This browser goes on under another cookie.
func (l *life) endOtherSessions() bool {
	l.t.Helper()
	name, w, page := l.onAccount("/account/sessions")
	if w == nil || l.press(w, page, "/account/sessions", "end-others") == "" {
		return false
	}
	l.tell("%s ends all other sessions", name)
	w.of.signOut(w)
	w.sessions++
	return true
}

// changeOwnPassword signs out everywhere else, too. It needs a sign-in of the last ten minutes.
func (l *life) changeOwnPassword() bool {
	l.t.Helper()
	name, p := l.somebody()
	w := pick(l.random, p.browsers)
	if !w.live(l.now()) || l.now().Sub(w.signedIn) >= 10*time.Minute {
		return false
	}
	l.tell("%s chooses another password", name)
	w.open(l.h.issuer + "/account/password")
	before := p.password
	p.password = fmt.Sprint("my own password ", l.random.Uint32())
	if answer := w.submit("current", before, "new", p.password); answer.status != http.StatusOK {
		l.t.Errorf("a new password: %s", answer)
	}
	p.signOut(w)
	w.sessions++
	return true
}
