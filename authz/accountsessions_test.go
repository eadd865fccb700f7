package authz_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// TestSessions: the page lists where a person is signed in and marks the browser that asks; one
// ends, or all others, and this one goes on with another cookie.
func TestSessions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	var all []*browser
	for range 4 {
		b := h.newBrowser()
		b.account(personName, "/account")
		all = append(all, b)
		h.clock.advance(time.Minute)
	}
	me := all[3]
	page := me.account(personName, "/account/sessions")
	ends := page.buttons("end")
	if len(ends) != 4 || strings.Count(page.body, "this browser</span>") != 1 || strings.Index(page.body, ends[0]) < strings.Index(page.body, "this browser</span>") {
		t.Fatalf("%d sessions:\n%s", len(ends), page.body)
	}
	for range 2 { // again it is not there
		answer := me.push(page, "/account/sessions", "end", ends[3])
		if answer.status != http.StatusOK && answer.status != http.StatusNotFound {
			t.Errorf("ending one: %s", answer)
		}
	}
	if all[0].signedIn() || !all[1].signedIn() || !me.signedIn() {
		t.Errorf("after ending the oldest: %t %t %t", all[0].signedIn(), all[1].signedIn(), me.signedIn())
	}
	before := cookiesOfJar(me)
	answer := me.push(page, "/account/sessions", "end-others", "yes")
	if answer.status != http.StatusOK || !strings.Contains(answer.body, "You are signed out everywhere else") {
		t.Fatalf("ending all others: %s", answer)
	}
	if all[1].signedIn() || all[2].signedIn() || !me.signedIn() {
		t.Errorf("after ending all others: %t %t %t", all[1].signedIn(), all[2].signedIn(), me.signedIn())
	}
	if cookiesOfJar(me) == before {
		t.Error("the session goes on under the cookie of before")
	}
	page = me.account(personName, "/account/sessions")
	if ends = page.buttons("end"); len(ends) != 1 || !strings.Contains(page.body, "signed in nowhere else") {
		t.Errorf("%d sessions:\n%s", len(ends), page.body)
	}
	h.wantEvent(me, "You signed out everywhere else.")
	h.wantEvent(me, "You signed another browser out.")
	if answer := me.push(me.account(personName, "/account/sessions"), "/account/sessions", "end", ends[0]); !strings.Contains(answer.body, "You are signed out") || me.signedIn() {
		t.Errorf("ending this one: %s", answer)
	} else if cookiesOfJar(me) != "" {
		t.Errorf("the browser keeps the cookie: %v", answer.header)
	}
}

// cookiesOfJar returns the value of the session's cookie.
func cookiesOfJar(b *browser) string {
	for _, c := range b.jar.Cookies(mustURL(b.h.issuer)) {
		if strings.Contains(c.Name, "authz_session") {
			return c.Value
		}
	}
	return ""
}

// TestEndOthersWhileTheStoreFails: the page never says that the others are signed out when they
// are not; and a lost reply is settled by the same write.
func TestEndOthersWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	me, other := h.newBrowser(), h.newBrowser()
	other.account(personName, "/account")
	page := me.account(personName, "/account/sessions")
	h.faults.SetDown(true)
	answer := me.push(page, "/account/sessions", "end-others", "yes")
	h.faults.SetDown(false)
	mustShow(t, answer, http.StatusServiceUnavailable, "temporarily_unavailable")
	if answer.header.Get("Retry-After") == "" || !other.signedIn() || !me.signedIn() {
		t.Errorf("%v; signed in: %t, %t", answer.header, other.signedIn(), me.signedIn())
	}
	h.faults.LoseReplies(2)
	if answer := me.push(page, "/account/sessions", "end-others", "yes"); answer.status != http.StatusOK || other.signedIn() || !me.signedIn() {
		t.Errorf("with lost replies: %s; signed in: %t, %t", answer, other.signedIn(), me.signedIn())
	}
}

// TestEndOthersTogether: of two browsers that end all others at once, at most one stays signed in.
func TestEndOthersTogether(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	browsers, answers := []*browser{h.newBrowser(), h.newBrowser(), h.newBrowser()}, make(chan int, 3)
	for _, b := range browsers {
		b.account(personName, "/account/sessions")
	}
	h.meter.holdReadsOf("user", 3)
	for _, b := range browsers {
		page := b.page
		go func() { answers <- b.push(page, "/account/sessions", "end-others", "yes").status }()
	}
	won := 0
	for range browsers {
		if <-answers == http.StatusOK {
			won++
		}
	}
	stay := 0
	for _, b := range browsers {
		if b.signedIn() {
			stay++
		}
	}
	if won != 1 || stay != 1 {
		t.Errorf("%d were told that all others ended, and %d are signed in", won, stay)
	}
}

// TestActivityOfSignIns: sign-ins and failed ones are on the page, and no number of failures
// removes anything.
func TestActivityOfSignIns(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	b := h.newBrowser()
	b.account(personName, "/account")
	h.wantEvent(b, "You signed in with a password.")
	guess := func(name string) {
		g := h.newBrowser()
		g.open(h.issuer + "/account")
		g.follow()
		g.submit("username", name, "password", "wrong")
	}
	guess("nobody")
	for range 3 {
		guess(personName)
	}
	h.wantEvent(b, "3 sign-ins failed since you last signed in.")
	h.clock.advance(time.Hour)
	b = h.newBrowser()
	page := b.account(personName, "/account/activity")
	if !strings.Contains(page.body, "3 sign-ins had failed before.") || strings.Contains(page.body, "since you last signed in") {
		t.Errorf("after a sign-in:\n%s", page.body)
	}
	if kept, err := h.store.Activity(t.Context(), h.subjectOf(personName)); err != nil || len(kept.Events) != 0 {
		t.Errorf("a request waited for the list: %+v, %v", kept, err)
	}
}

// TestActivityIsWritten: what happened is in the store some seconds later, also what happened while
// the store did not answer.
func TestActivityIsWritten(t *testing.T) {
	t.Parallel()
	inBubble(t, [][]byte{masterKey}, func(t *testing.T, s *bubble) {
		end := s.run()
		g, token := s.granted(s.store, "registered")
		answer, _ := s.refresh("registered", token)
		second := answer.member(t, "refresh_token")
		if again, _ := s.refresh("registered", second); again.status != http.StatusOK {
			t.Fatal(again)
		}
		time.Sleep(time.Minute)
		if answer, _ = s.refresh("registered", token); answer.status != http.StatusBadRequest {
			t.Fatal(answer)
		}
		s.faults.SetDown(true)
		time.Sleep(20 * time.Second)
		s.faults.SetDown(false)
		time.Sleep(10 * time.Second)
		a, err := s.store.Activity(t.Context(), "subject")
		if err != nil || len(a.Events) != 1 || a.Events[0].What != "refresh-token-reused" || a.Events[0].About != g.ClientID {
			t.Errorf("%+v, %v", a, err)
		}
		if a.Events[0].Times > 1 || !a.Events[0].At.Equal(time.Now().Add(-30*time.Second).Round(0)) && time.Since(a.Events[0].At) > 31*time.Second {
			t.Errorf("%+v", a.Events[0])
		}
		end()
	})
}

// TestEndRacesRefresh: of a refresh and the end of its grant at the same time either may be first,
// and afterwards nothing is alive.
func TestEndRacesRefresh(t *testing.T) {
	t.Parallel()
	for _, button := range []string{"end-grant", "end-application", "end-all"} {
		h, c := newHarness(t, setup{}), testClients()["native"]
		b := h.newBrowser()
		held := b.tokens(c, asks(c))
		h.clock.advance(time.Second)
		b.tokens(c, asks(c))
		path, value := "/account/applications", c.ID
		page := b.account(personName, path)
		switch button {
		case "end-grant":
			value = page.buttons(button)[1] // the older one
		case "end-all":
			path, value = path+"/end-all", "yes"
			page = b.account(personName, path)
		}
		begun, stop, ended := make(chan struct{}), make(chan struct{}), make(chan []string)
		go func() {
			var access []string
			token := held.refresh
			for {
				select {
				case <-stop:
					ended <- append(access, token)
					return
				default:
				}
				if answer := h.toToken(c, refreshing(c, token)); answer.status == http.StatusOK {
					access, token = append(access, answer.member(t, "access_token")), answer.member(t, "refresh_token")
					if len(access) == 2 {
						close(begun)
					}
				}
			}
		}()
		<-begun
		answer := b.push(page, path, button, value)
		close(stop)
		got := <-ended
		token := got[len(got)-1]
		if answer.status != http.StatusOK {
			t.Errorf("%s: %s", button, answer)
		}
		if answer := h.toToken(c, refreshing(c, token)); answer.status != http.StatusBadRequest {
			t.Errorf("%s: the last refresh token is good after the end: %s", button, answer)
		}
		for _, access := range got[:len(got)-1] {
			if h.active(access) {
				t.Errorf("%s: a token of before is active", button)
			}
		}
	}
}

// TestEndAllInParts: with a store that fails in the middle, the page says how many have ended and
// that others are left; repeating it ends them.
func TestEndAllInParts(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	user, err := h.store.User(t.Context(), personName)
	if err != nil {
		t.Fatal(err)
	}
	var grants []storage.Grant
	for range 250 {
		grants = append(grants, h.addGrant(user, "native-client", notes))
		h.clock.advance(time.Second)
	}
	b := h.newBrowser()
	page := b.account(personName, "/account/applications/end-all")
	puts := h.faults.Puts()
	down := func(op, _ string) {
		if op == "put" && h.faults.Puts()-puts > 120 {
			h.faults.SetDown(true)
		}
	}
	h.meter.before.Store(&down)
	answer := b.push(page, "/account/applications/end-all", "end-all", "yes")
	h.meter.before.Store(nil)
	h.faults.SetDown(false)
	mustShow(t, answer, http.StatusServiceUnavailable, "temporarily_unavailable")
	if !strings.Contains(answer.body, "Not everything is ended") || strings.Contains(answer.body, "All applications are ended") || answer.header.Get("Retry-After") == "" {
		t.Errorf("%s", answer)
	}
	if n := h.alive(grants); n == 0 || n == len(grants) {
		t.Fatalf("%d are alive", n)
	}
	if answer := b.push(page, "/account/applications/end-all", "end-all", "yes"); answer.status != http.StatusOK || !strings.Contains(answer.body, "All applications are ended") {
		t.Errorf("repeated: %s", answer)
	}
	if n := h.alive(grants); n != 0 {
		t.Errorf("%d are alive after all", n)
	}
	if page := b.account(personName, "/account/applications"); !strings.Contains(page.body, "No application acts for you.") {
		t.Errorf("%s", page.body)
	}
}

// alive returns how many of the grants have not ended.
func (h *harness) alive(grants []storage.Grant) (n int) {
	h.t.Helper()
	for _, g := range grants {
		now, err := h.store.Grant(h.t.Context(), g.ID)
		if err != nil {
			h.t.Fatal(err)
		}
		if now.State != storage.GrantRevoked {
			n++
		}
	}
	return n
}

var nextPage = regexp.MustCompile(`href="([^"]*)" rel="next"`)

// TestAccountOfThousands: a page of the list costs the same round trips with some grants and with
// ten thousand, and the pages together have each of them.
func TestAccountOfThousands(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	user, err := h.store.User(t.Context(), personName)
	if err != nil {
		t.Fatal(err)
	}
	b := h.newBrowser()
	b.account(personName, "/account")
	cost := func(path string) int64 {
		before := h.roundTrips.Load()
		b.account(personName, path)
		return h.roundTrips.Load() - before
	}
	add := func(n int) {
		for range n {
			g, _, err := h.store.PrepareGrant(storage.NewGrant{
				ClientID: "native-client", ClientName: "Many", Subject: user.Subject, UserName: user.Name, Resources: []string{notes}, CodeTTL: time.Hour,
			})
			if err == nil {
				err = h.store.CreateGrant(t.Context(), g)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	add(60)
	few := map[string]int64{"/account": cost("/account"), "/account/applications": cost("/account/applications")}
	add(9940)
	for path, n := range few {
		if m := cost(path); m != n || m > 7 {
			t.Errorf("%s: %d round trips with sixty grants, %d with ten thousand", path, n, m)
		}
	}
	seen, pages := 0, 0
	page := b.account(personName, "/account/applications")
	for {
		pages++
		seen += len(page.buttons("end-grant"))
		next := nextPage.FindStringSubmatch(page.body)
		if next == nil || pages > 300 {
			break
		}
		page = b.open(h.issuer + next[1])
	}
	if seen != 10000 || pages != 200 {
		t.Errorf("%d grants on %d pages", seen, pages)
	}
	for _, bad := range []string{"?before=%00", "?before=a&before=b", "?before=!!!!", "?before=" + strings.Repeat("A", 600)} {
		mustShow(t, b.open(h.issuer+"/account/applications"+bad), http.StatusBadRequest, "invalid_request")
	}
}
