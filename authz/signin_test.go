package authz_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
)

// behindProxy trusts the proxy of the tests, so that requests can set their address.
func behindProxy(c *authz.Config) {
	c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// signInForm is the sign-in page of a browser, which a test can submit any number of times.
type signInForm struct {
	*browser
	action string
	hidden map[string]string
}

// signInForm opens the sign-in page. A previous session of the browser ends.
func (b *browser) signInForm() signInForm {
	b.h.t.Helper()
	here := &url.URL{Scheme: "https", Host: "auth.example.com", Path: "/"}
	for _, cookie := range b.jar.Cookies(here) {
		if strings.Contains(cookie.Name, "session") {
			b.jar.SetCookies(here, []*http.Cookie{{Name: cookie.Name, Path: "/", Secure: true, MaxAge: -1}})
		}
	}
	b.open(b.h.issuer + "/authorize?" + asks(testClients()["native"]).Encode())
	b.follow()
	action, values := b.page.inputs(b.h.t)
	target, err := b.page.url.Parse(action)
	if err != nil {
		b.h.t.Fatal(err)
	}
	f := signInForm{browser: b, action: target.String(), hidden: map[string]string{}}
	for name := range values {
		f.hidden[name] = values.Get(name)
	}
	return f
}

// send signs in from an address. It is safe for concurrent use.
func (f signInForm) send(from, name, password string) reply {
	values := form("username", name, "password", password)
	for name, value := range f.hidden {
		values.Set(name, value)
	}
	r := f.h.newRequest(http.MethodPost, f.action, values)
	r.Header.Set("Origin", origin(f.h.issuer))
	r.Header.Set("X-Forwarded-For", from)
	return f.h.with(f.jar, r)
}

// countComparisons replaces the comparison of passwords by a cheap one, and counts it. Only
// personPassword matches.
func (h *harness) countComparisons() *atomic.Int64 {
	var compared atomic.Int64
	h.handler.Load().OnCompare(func(hash, password string, matches func(string, string) bool) bool {
		compared.Add(1)
		return hash == personHash && matches(hash, password)
	})
	return &compared
}

func mustSignIn(t *testing.T, what string, r reply) {
	t.Helper()
	if r.status != http.StatusSeeOther {
		t.Errorf("%s: %s", what, r)
	}
}

// mustWait checks that a sign-in was refused for a while, and returns for how long.
func mustWait(t *testing.T, what string, r reply) time.Duration {
	t.Helper()
	seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
	if r.status != http.StatusTooManyRequests || err != nil || seconds < 1 || seconds > 600 {
		t.Fatalf("%s: want 429 with Retry-After: %s", what, r)
	}
	return time.Duration(seconds) * time.Second
}

// TestInventedNames: a network that tries many names, known or not, has few passwords
// hashed and gets the time to wait. Other networks can sign in, and after that time it can
// too.
func TestInventedNames(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		from func(i int) string
		user func(i int) string
		most int64
	}{
		"700 invented names from one address": {func(int) string { return "192.0.2.1" }, func(i int) string { return fmt.Sprint("invented", i) }, 100},
		"names that cannot be":                {func(int) string { return "192.0.2.1" }, func(i int) string { return strings.Repeat("x", 100) + fmt.Sprint(i) }, 100},
		"from all addresses of a /64":         {func(i int) string { return fmt.Sprintf("2001:db8::%x", i) }, func(i int) string { return fmt.Sprint("person", i) }, 100},
		"from all networks of a /48":          {func(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i) }, func(i int) string { return fmt.Sprint("person", i) }, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{config: behindProxy})
			compared := h.countComparisons()
			f := h.newBrowser().signInForm()
			for i := range 700 {
				f.send(tt.from(i), tt.user(i), "Spring2026")
			}
			before := h.roundTrips.Load()
			wait := mustWait(t, "the last attempt", f.send(tt.from(699), tt.user(700), "Spring2026"))
			if n := h.roundTrips.Load() - before; n > 0 {
				t.Errorf("an attempt that is refused for its network costs %d round trips", n)
			}
			if n := compared.Load(); n > tt.most {
				t.Errorf("%d passwords were hashed, want at most %d", n, tt.most)
			}
			mustSignIn(t, "another network", h.newBrowser().signInForm().send("198.51.100.1", personName, personPassword))
			h.clock.advance(wait)
			f = h.newBrowser().signInForm()
			mustSignIn(t, "the same network later", f.send(tt.from(699), personName, personPassword))
		})
	}
}

// TestADistributedSpray: while hundreds of networks guess the password of one person, each
// of them has few guesses, and the person can sign in at once from a network that does not
// take part.
func TestADistributedSpray(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: behindProxy})
	compared := h.countComparisons()
	f := h.newBrowser().signInForm()
	for i := range 1500 {
		f.send(fmt.Sprintf("10.%d.%d.7", i%3, i%150), personName, fmt.Sprint("guess ", i))
	}
	if n := compared.Load(); n > 200+150*4 {
		t.Errorf("%d guesses, want about four for each of 150 networks once it is an attack", n)
	}
	for _, from := range []string{"198.51.100.1", "203.0.113.77", "2001:db8::1"} {
		f := h.newBrowser().signInForm()
		f.send(from, personName, "mistyped")
		mustSignIn(t, from, f.send(from, personName, personPassword))
	}
}

// TestAKnownBrowser: after an attacker has used up the guesses of the person's own address,
// a browser that signed in before can sign in, and another one gets the time to wait.
func TestAKnownBrowser(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: behindProxy})
	h.addPerson("writer")
	h.countComparisons()
	const home = "192.0.2.1"
	known := h.newBrowser()
	mustSignIn(t, "the first time", known.signInForm().send(home, personName, personPassword))
	flood := h.newBrowser().signInForm()
	for i := range 120 {
		flood.send(home, fmt.Sprint("invented", i), "x")
	}
	for range 24 {
		flood.send(home, personName, "x")
	}
	mustWait(t, "a new browser at home", h.newBrowser().signInForm().send(home, personName, personPassword))
	f := known.signInForm()
	for range 30 {
		mustSignIn(t, "the known browser", f.send(home, personName, personPassword))
	}
	mustWait(t, "the known browser with the name of somebody else", f.send(home, "writer", personPassword))
}

// TestAStolenDeviceCookie gives a few guesses at one person's password, and ends with the
// password, the person, or after half a year.
func TestAStolenDeviceCookie(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: behindProxy})
	h.addPerson("writer")
	compared := h.countComparisons()
	const lair = "192.0.2.1"
	guesses := func(stolen signInForm, name string) int64 {
		before := compared.Load()
		for i := range 100 {
			stolen.send(lair, name, fmt.Sprint("guess ", i))
		}
		return compared.Load() - before
	}
	steal := func() signInForm {
		h.t.Helper()
		b := h.newBrowser()
		mustSignIn(t, "the person", b.signInForm().send("198.51.100.1", personName, personPassword))
		return b.signInForm()
	}
	first, second := steal(), steal()
	flood := h.newBrowser().signInForm()
	for i := range 120 {
		flood.send(lair, fmt.Sprint("invented", i), "x") // uses up the limit of the network
	}
	if n := guesses(first, "writer"); n != 0 {
		t.Errorf("it gives %d guesses at another person", n)
	}
	if n := guesses(first, personName); n != 20 {
		t.Errorf("it buys %d guesses, want 20", n)
	}
	mustSignIn(t, "another browser of the person there", second.send(lair, personName, personPassword))
	mustSignIn(t, "the person with that browser", first.send("198.51.100.1", personName, personPassword))

	ended := steal()
	h.clock.advance(181 * 24 * time.Hour)
	for i := range 120 {
		flood = h.newBrowser().signInForm()
		flood.send(lair, fmt.Sprint("invented", i), "x")
	}
	old := ended.browser.signInForm()
	if n := guesses(old, personName); n != 0 {
		t.Errorf("after half a year it buys %d guesses", n)
	}
	changed := steal()
	if err := admin.SetPassword(t.Context(), h.store, personName, "another password"); err != nil {
		t.Fatal(err)
	}
	if n := guesses(changed, personName); n != 0 {
		t.Errorf("after a change of the password it buys %d guesses", n)
	}
}

// TestTurnsAreShared: one network holds every hashing place and has filled the queue. The
// first sign-in from another network is next. That is so as well when as many networks wait
// as fit into the queue, if those have failed before or if the browser signed in before.
func TestTurnsAreShared(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		from         func(i int) string
		known, noisy bool
	}{
		"one network":                      {func(i int) string { return fmt.Sprintf("192.0.2.%d", i%3) }, false, false},
		"many networks, a known browser":   {func(i int) string { return fmt.Sprintf("10.0.%d.1", i) }, true, false},
		"many that have failed, a new one": {func(i int) string { return fmt.Sprintf("10.0.%d.1", i) }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{config: behindProxy})
			person := h.newBrowser()
			if tt.known {
				mustSignIn(t, "the first time", person.signInForm().send("198.51.100.1", personName, personPassword))
			}
			form, flood := person.signInForm(), h.newBrowser().signInForm()
			sent := authz.Hashing() + authz.SignInsMost() + 5
			if tt.noisy {
				h.countComparisons()
				for i := range 3 * sent {
					flood.send(tt.from(i%sent), "invented", "x")
				}
			}
			gate, compared := make(chan struct{}), make(chan string, 1000)
			h.handler.Load().OnCompare(func(_, password string, _ func(string, string) bool) bool {
				<-gate
				compared <- password
				return password == personPassword
			})
			var all sync.WaitGroup
			turnedAway := make(chan int, 1000)
			for i := range sent {
				all.Go(func() {
					if r := flood.send(tt.from(i), fmt.Sprint("invented", i), "x"); r.status == http.StatusServiceUnavailable {
						turnedAway <- i
					}
				})
			}
			for range 5 {
				<-turnedAway // the queue is full
			}
			all.Go(func() { mustSignIn(t, "the person", form.send("198.51.100.1", personName, personPassword)) })
			<-turnedAway // the person's sign-in waits
			close(gate)
			all.Wait()
			close(compared)
			place := 0
			for password := range compared {
				if place++; password == personPassword {
					break
				}
			}
			if most := 3*authz.Hashing() + 1; place > most {
				t.Errorf("the person was number %d, want at most %d", place, most)
			}
		})
	}
}

// TestHashingLeavesAProcessor: during two hundred sign-ins at once the number of hashed
// passwords leaves one processor to other work.
func TestHashingLeavesAProcessor(t *testing.T) {
	t.Parallel()
	if n, processors := authz.Hashing(), runtime.GOMAXPROCS(0); n < 1 || n > 8 || (processors > 1 && n >= processors) {
		t.Errorf("%d passwords are hashed at a time on %d processors", n, processors)
	}
	h := newHarness(t, setup{config: behindProxy})
	f := h.newBrowser().signInForm()
	gate := make(chan struct{})
	var at, most atomic.Int64
	h.handler.Load().OnCompare(func(hash, password string, matches func(string, string) bool) bool {
		n := at.Add(1)
		defer at.Add(-1)
		<-gate
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		return matches(hash, password)
	})
	var all sync.WaitGroup
	var answered [600]atomic.Int64
	for i := range 200 {
		all.Go(func() {
			r := f.send(fmt.Sprintf("10.0.%d.1", i), personName, personPassword)
			answered[r.status].Add(1)
			if r.status != http.StatusSeeOther && r.header.Get("Retry-After") == "" {
				t.Errorf("neither signed in nor told to come back: %s", r)
			}
		})
	}
	for h.handler.Load().SignInsWaiting() < authz.SignInsMost() {
		runtime.Gosched()
	}
	close(gate)
	all.Wait()
	if n := most.Load(); n != int64(authz.Hashing()) {
		t.Errorf("%d at a time, want %d", n, authz.Hashing())
	}
	if n := answered[http.StatusSeeOther].Load(); n < int64(authz.SignInsMost()) {
		t.Errorf("%d signed in, want all that found a place in the line", n)
	}
}
