package authz_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/storage"
)

var (
	signInLivesMany = flag.Int("signinlives", 6, "how many random lives TestSignInLives lives")
	signInLivesSeed = flag.Uint64("signinlives.seed", 1, "the first of them")
)

// TestSignInLives: people sign in at random with passwords, codes, passkeys and accounts at providers, in
// several browsers and at two servers over one store, and change and lose how they sign in. A plain model
// of the rules (signinlivesmodel_test.go) says after each step who is signed in with which browser, what
// the list of sessions has, how each person can sign in, and which grants go on.
func TestSignInLives(t *testing.T) {
	t.Parallel()
	for seed := *signInLivesSeed; seed < *signInLivesSeed+uint64(*signInLivesMany); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			l := newSignInLife(t, seed)
			for range 50 {
				l.step()
				l.trailAgrees()
				l.agrees()
				if t.Failed() {
					t.Fatalf("go test ./authz -run '^TestSignInLives$' -signinlives 1 -signinlives.seed %d; what happened:\n%s", seed, strings.Join(l.story, "\n"))
				}
			}
		})
	}
}

// signInLife is two servers and the model beside them.
type signInLife struct {
	*signInModel
	t       *testing.T
	p       *atProvider
	servers []*authz.Server
	random  *rand.Rand
	story   []string

	configuredProviders []upstream.Provider
	trail               *events
	want                map[audit.Kind]int   // in the trail, of this step
	aim                 string               // to whom the next thing happens, "" for anybody
	guessed             map[string]time.Time // when a stranger guessed somebody's password
	strangers           int
}

func newSignInLife(t *testing.T, seed uint64) *signInLife {
	l := &signInLife{t: t, random: rand.New(rand.NewPCG(seed, 21)), signInModel: newSignInModel(), trail: &events{}, guessed: map[string]time.Time{}}
	l.p = newAtProvider(t, func(c *authz.Config) {
		c.Audit, c.TrustedProxies, c.Providers[0].Recheck, c.RecheckGrace = l.trail.record, loopbackProxies, time.Hour, 4*time.Hour
	})
	l.configuredProviders = l.p.cfg.Providers
	l.now = l.p.clock.Now
	l.p.addPerson("writer")
	for range 5 {
		l.windows = append(l.windows, &window{browser: l.p.newBrowser()})
	}
	l.servers = append(l.servers, l.p.handler.Load())
	l.p.restart()
	l.servers = append(l.servers, l.p.handler.Load())
	return l
}

func (l *signInLife) tell(format string, args ...any) {
	l.story = append(l.story, l.now().Format("Jan _2 15:04:05 ")+fmt.Sprintf(format, args...))
}

// step lets one thing happen, at one of the servers.
func (l *signInLife) step() {
	l.t.Helper()
	var chances []func() bool
	for _, d := range []deed{
		{14, l.byPassword}, {8, l.byPasskey}, {10, l.byProvider}, {4, l.byLink},
		{3, l.signOutHere}, {3, l.endOne}, {3, l.endOthers},
		{4, l.changeOwnPassword}, {5, l.addPasskey}, {3, l.removePasskey}, {4, l.changeFactor}, {5, l.connectAccount}, {4, l.disconnectAccount},
		{2, l.setPassword}, {2, l.resetPerson}, {1, l.disable}, {2, l.remove}, {3, l.logoutAtProvider},
		{3, l.reload}, {1, l.restart}, {8, l.wait}, {8, l.asks}, {1, l.guess}, {4, l.recheck},
	} {
		chances = append(chances, slices.Repeat([]func() bool{d.do}, d.weight)...)
	}
	l.trail.taken()
	l.want = map[audit.Kind]int{}
	for {
		l.p.handler.Store(pick(l.random, l.servers))
		if pick(l.random, chances)() {
			return
		}
	}
}

var (
	shownAs         = regexp.MustCompile(`<dt>Name</dt><dd>.*?<bdi class="name">([^<]*)</bdi>`)
	shownOfProvider = regexp.MustCompile(`^(.*) \((?:The )?(.*)\)$`)
	shownWay        = regexp.MustCompile(`<dt>(Password|Passkeys|Second step|Other accounts)</dt><dd><p class="line">([^\n]*)`)
)

// trailAgrees: each thing that happened is in the trail once.
func (l *signInLife) trailAgrees() {
	l.t.Helper()
	got := map[audit.Kind]int{}
	for _, e := range l.trail.taken() {
		got[e.Kind]++
	}
	for _, kind := range []audit.Kind{audit.SignedIn, audit.SignedOut, audit.PersonChanged} {
		if got[kind] != l.want[kind] {
			l.t.Errorf("the trail has %d of %s, want %d", got[kind], kind, l.want[kind])
		}
	}
}

// agrees compares what each browser and each list says with the model.
func (l *signInLife) agrees() {
	l.t.Helper()
	in := map[string]int{}
	for _, w := range l.windows {
		if l.live(w) {
			in[w.who]++
		} else {
			w.who = ""
		}
	}
	for i, w := range l.windows {
		l.p.handler.Store(pick(l.random, l.servers))
		page := l.p.with(w.jar, l.p.newRequest(http.MethodGet, l.p.issuer+"/account", nil))
		got := ""
		if found := shownAs.FindStringSubmatch(page.body); page.status == http.StatusOK && found != nil {
			got = shownOfProvider.ReplaceAllString(found[1], "$2/$1")
		}
		if got != w.who {
			l.t.Errorf("browser %d is signed in as %q, want %q: status %d", i, got, w.who, page.status)
		}
		if w.who == "" || got == "" {
			continue
		}
		w.seen = l.now()
		l.waysAgree(w.who, page)
		list := l.p.with(w.jar, l.p.newRequest(http.MethodGet, l.p.issuer+"/account/sessions", nil))
		if n := len(list.buttons("end")); n != in[w.who] {
			l.t.Errorf("the list of %s has %d sessions, want %d", w.who, n, in[w.who])
		}
	}
	for _, server := range l.servers { // the last uses are recorded
		server.DoChores(l.t.Context())
	}
	states := map[string]storage.GrantState{}
	for g, err := range admin.Grants(l.t.Context(), l.p.store, admin.GrantFilter{}) {
		l.p.must(err)
		states[g.ID] = g.State
	}
	for _, g := range l.grants {
		if got, want := states[g.id], l.expectGrant(g); got != want && (got != "" || want == storage.GrantActive) {
			l.t.Errorf("a grant of %s is %q, want %q", g.who, got, want)
		}
	}
}

// waysAgree compares how a person can sign in, as the account shows it, with the model.
func (l *signInLife) waysAgree(name string, page reply) {
	l.t.Helper()
	p, got := l.people[name], map[string]string{}
	for _, found := range shownWay.FindAllStringSubmatch(page.body, -1) {
		got[found[1]] = found[2]
	}
	for way, has := range map[string]bool{
		"Password": p.password != "" && l.passwords, "Passkeys": len(p.passkeys) > 0,
		"Second step": p.factor != nil && l.passwords, "Other accounts": len(l.usable(p)) > 0,
	} {
		none := got[way] == "" || strings.HasPrefix(got[way], "None") || strings.HasPrefix(got[way], "There is none") || strings.HasPrefix(got[way], "It is not") || strings.HasPrefix(got[way], "You need none")
		if has == none {
			l.t.Errorf("the account of %s shows %q of %s, want it: %t", name, got[way], way, has)
		}
	}
	if n := strings.Count(got["Other accounts"], "company") + strings.Count(got["Other accounts"], "other"); n != len(l.usable(p)) {
		l.t.Errorf("the account of %s shows the accounts %q, want %v", name, got["Other accounts"], l.usable(p))
	}
}

func (l *signInLife) window() *window { return pick(l.random, l.windows) }

// atPage opens a browser at the page for a new sign-in.
func (l *signInLife) atPage() *window {
	l.t.Helper()
	w := l.window()
	l.p.clock.advance(time.Second) // a sign-in of this second is new
	w.open(l.p.issuer + "/authorize?" + replaced(asks(testClients()["native"]), "prompt", "login").Encode())
	w.follow()
	return w
}

// arrived compares what a sign-in leads to, and at times allows what the client asked for.
func (l *signInLife) arrived(w *window, name, account string, ok bool) {
	l.t.Helper()
	in := w.last.status == http.StatusSeeOther && strings.Contains(w.last.header.Get("Location"), "/consent?")
	l.tell("%s signs in with browser %d: %t", name, slices.Index(l.windows, w), in)
	if in != ok {
		l.t.Errorf("%s signs in: %t, want %t: %s", name, in, ok, brief(w.last))
	}
	if !in || !ok {
		return
	}
	l.begin(w, name, account)
	if w.follow(); l.random.IntN(3) > 0 {
		return
	}
	c := testClients()["native"]
	code := w.submit("decision", "allow").location(l.t).Query().Get("code")
	if r := l.p.toToken(c, redemption(c, code)); r.status != http.StatusOK {
		l.t.Fatalf("redeeming: %s", brief(r))
	}
	id, _ := storage.CodeGrant(code)
	l.grants = append(l.grants, &signInGrant{who: name, of: l.people[name].incarnation, id: id})
}

// begin is the start of a session, which ends the one of before in the same browser.
func (l *signInLife) begin(w *window, name, account string) {
	l.want[audit.SignedIn]++
	if l.live(w) && w.who != name {
		l.want[audit.SignedOut]++
	}
	w.who, w.account, w.since, w.seen = name, account, l.now(), l.now()
}

func (l *signInLife) wait() bool {
	d := pick(l.random, []time.Duration{time.Second, time.Minute, 9 * time.Minute, 11 * time.Minute, 11 * time.Minute, time.Hour, 2 * time.Hour})
	l.tell("%s pass", d)
	l.p.clock.advance(d)
	return true
}

func (l *signInLife) restart() bool {
	l.tell("a server starts again")
	l.p.restart()
	l.servers[l.random.IntN(len(l.servers))] = l.p.handler.Load()
	return true
}

// reload lowers how long sessions last, or changes whether passwords are used and which providers there are.
func (l *signInLife) reload() bool {
	l.t.Helper()
	switch l.random.IntN(4) {
	case 3:
		l.other = !l.other
	case 0:
		l.idle = min(l.idle, pick(l.random, []time.Duration{30 * time.Minute, 2 * time.Hour}))
	case 1:
		l.limit = min(l.limit, pick(l.random, []time.Duration{45 * time.Minute, 3 * time.Hour, 12 * time.Hour}))
	default:
		l.passwords = !l.passwords || l.random.IntN(2) == 0
	}
	l.tell("reload: idle %s, max %s, passwords %t, both providers %t", l.idle, l.limit, l.passwords, l.other)
	l.p.cfg.SessionIdle, l.p.cfg.SessionMax, l.p.cfg.NoPasswords = l.idle, l.limit, !l.passwords
	l.p.cfg.Providers = slices.DeleteFunc(slices.Clone(l.configuredProviders), func(p upstream.Provider) bool { return !l.configured(p.ID + "/") })
	for _, server := range l.servers {
		l.p.must(server.Reload(l.t.Context(), l.p.cfg))
	}
	if l.random.IntN(2) == 0 { // before their uses are recorded again, sessions of before have the limits of before
		l.tell("an hour passes")
		l.p.clock.advance(time.Hour)
	}
	return true
}

var problemOn = regexp.MustCompile(`(?s)<h1[^>]*>(.*?)</h1>|<p class="problem"[^>]*>(.*?)</p>`)

// brief returns what an answer says in few words.
func brief(r reply) string {
	return fmt.Sprint("status ", r.status, " ", r.header.Get("Location"), problemOn.FindAllString(r.body, -1))
}
