package throttle

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"gatehouse.example/internal/fair"
)

// clock is a clock that a test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time          { return c.at }
func (c *clock) advance(d time.Duration) { c.at = c.at.Add(d) }
func newClock() *clock                   { return &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// failures returns how many of n failing attempts are permitted.
func failures(g *Throttle, n int, attempt func(i int) SignIn) (made int) {
	for i := range n {
		if _, wait := g.Begin(attempt(i)); wait == 0 {
			made++
		}
	}
	return made
}

func same(s SignIn) func(int) SignIn { return func(int) SignIn { return s } }

// TestGuessesAtOneName: one address has thirty failures in ten minutes, and other addresses
// have their own.
func TestGuessesAtOneName(t *testing.T) {
	c := newClock()
	g := New(c.now, nil)
	guess := SignIn{Name: "a", From: addr("192.0.2.1")}
	if n := failures(g, 1000, same(guess)); n != 30 {
		t.Fatalf("%d guesses, want 30", n)
	}
	if n := failures(g, 1000, same(SignIn{Name: "a", From: addr("192.0.2.2")})); n != 30 {
		t.Errorf("%d from the address beside, want 30", n)
	}
	if n := failures(g, 1000, same(SignIn{Name: "a", From: addr("192.0.2.3")})); n != 0 {
		t.Errorf("%d more from the same /24, want none", n)
	}
	if _, wait := g.Begin(SignIn{Name: "b", From: addr("192.0.2.1")}); wait != 0 {
		t.Errorf("another name waits %s", wait)
	}
	_, wait := g.Begin(guess)
	if wait <= 0 || wait > time.Minute {
		t.Fatalf("the next waits %s, want at most a minute", wait)
	}
	c.advance(wait)
	if _, wait := g.Begin(guess); wait != 0 {
		t.Errorf("after that it waits %s", wait)
	}
}

// TestOnePasswordOverManyNames counts by network for all names together, also in IPv6.
func TestOnePasswordOverManyNames(t *testing.T) {
	for _, tt := range []struct {
		name string
		from func(i int) netip.Addr
		want int
	}{
		{"an address", func(int) netip.Addr { return addr("192.0.2.1") }, 100},
		{"a /24", func(i int) netip.Addr { return addr(fmt.Sprintf("192.0.2.%d", i%256)) }, 200},
		{"a /64", func(i int) netip.Addr { return addr(fmt.Sprintf("2001:db8::%x", i)) }, 100},
		{"a /56", func(i int) netip.Addr { return addr(fmt.Sprintf("2001:db8:0:%x::1", i%256)) }, 200},
		{"a /48", func(i int) netip.Addr { return addr(fmt.Sprintf("2001:db8:0:%x::1", i)) }, 400},
		{"no address", func(int) netip.Addr { return netip.Addr{} }, 100},
	} {
		g := New(newClock().now, nil)
		spray := func(i int) SignIn { return SignIn{Name: fmt.Sprint("person", i), From: tt.from(i)} }
		if n := failures(g, 3000, spray); n > tt.want || n < tt.want*9/10 {
			t.Errorf("%s: %d names were tried, want %d", tt.name, n, tt.want)
		}
		if _, wait := g.Begin(SignIn{Name: "reader", From: addr("198.51.100.1")}); wait != 0 {
			t.Errorf("%s: another network waits %s", tt.name, wait)
		}
	}
}

// TestAnAccountUnderAttack: while a thousand networks guess at one name, each has fewer
// guesses, and a network that has not failed yet can still sign in.
func TestAnAccountUnderAttack(t *testing.T) {
	c := newClock()
	g := New(c.now, nil)
	made := 0
	for i := range 1000 {
		from := addr(fmt.Sprintf("10.%d.%d.1", i/256, i%256))
		made += failures(g, 30, same(SignIn{Name: "reader", From: from}))
	}
	if made > 5000 {
		t.Errorf("%d guesses, want about four for each network", made)
	}
	waiting := 0
	for i := range 100 {
		attempt, wait := g.Begin(SignIn{Name: "reader", From: addr(fmt.Sprintf("203.0.113.%d", i))})
		if wait != 0 {
			waiting++
			continue
		}
		_, _ = attempt.Right(t.Context())
	}
	if waiting > 3 { // keys share places, so a few may be affected
		t.Errorf("%d of 100 people wait", waiting)
	}
	if n := failures(g, 30, same(SignIn{Name: "reader", From: addr("198.51.100.1")})); n != 4 {
		t.Errorf("another network has %d guesses, want 4", n)
	}
}

// TestAKnownBrowser has failures of its own: the used-up limit of its network does not stop
// it, its failures do not count for the network, and after its own limit it is treated like
// other browsers.
func TestAKnownBrowser(t *testing.T) {
	g := New(newClock().now, nil)
	home := addr("192.0.2.1")
	failures(g, 1000, func(i int) SignIn { return SignIn{Name: fmt.Sprint("invented", i), From: home} })
	failures(g, 1000, same(SignIn{Name: "reader", From: home}))
	known := SignIn{Name: "reader", From: home, Device: "one"}
	for i := range 50 {
		attempt, wait := g.Begin(known)
		if wait != 0 || attempt.Lane != LaneKnown {
			t.Fatalf("sign-in %d waits %s", i, wait)
		}
		_, _ = attempt.Right(t.Context())
	}
	if n := failures(g, 1000, same(known)); n != 20 {
		t.Errorf("a stolen cookie buys %d guesses, want 20", n)
	}
	other := SignIn{Name: "reader", From: home, Device: "two"}
	if _, wait := g.Begin(other); wait != 0 {
		t.Errorf("another browser of the same person waits %s", wait)
	}
	quiet := addr("198.51.100.1")
	if attempt, wait := g.Begin(SignIn{Name: "reader", From: quiet, Device: "one"}); wait != 0 || attempt.Lane != LaneQuiet {
		t.Errorf("elsewhere the browser whose failures are used up waits %s", wait)
	}
	g = New(newClock().now, nil)
	failures(g, 20, same(known))
	if n := failures(g, 100, same(SignIn{Name: "reader", From: home})); n != 30 {
		t.Errorf("failures of a known browser count for its network: %d are left of 30", n)
	}
}

// TestTheRightPassword resets the earlier failures for that name, is not a failure of the
// network, and is counted as a sign-in.
func TestTheRightPassword(t *testing.T) {
	g := New(newClock().now, nil)
	from := addr("192.0.2.1")
	for round := range 2 {
		failures(g, 19, same(SignIn{Name: "reader", From: from}))
		attempt, wait := g.Begin(SignIn{Name: "reader", From: from})
		if wait != 0 {
			t.Fatalf("round %d: the right password waits %s", round, wait)
		}
		_, _ = attempt.Right(t.Context())
	}
	if n := failures(g, 100, func(i int) SignIn { return SignIn{Name: fmt.Sprint(i), From: from} }); n != 100-2*19 {
		t.Errorf("%d failures are left to the network, want %d: the right password does not pay for other names", n, 100-2*19)
	}
	g = New(newClock().now, nil)
	signedIn := 0
	for range 10_000 {
		if attempt, wait := g.Begin(SignIn{Name: "reader", From: from}); wait == 0 {
			_, _ = attempt.Right(t.Context())
			signedIn++
		}
	}
	if signedIn != 3000 {
		t.Errorf("%d sign-ins of one address, want 3000", signedIn)
	}
	attempt, _ := g.Begin(SignIn{Name: "reader", From: addr("198.51.100.1")})
	for range 1000 {
		attempt.Void()
		if attempt, _ = g.Begin(SignIn{Name: "reader", From: addr("198.51.100.1")}); attempt == nil {
			t.Fatal("what was not compared counts")
		}
	}
}

// TestNoisyNetworks wait in a lane of their own for an hour, so that networks that take
// part in a flood do not delay others.
func TestNoisyNetworks(t *testing.T) {
	c := newClock()
	g := New(c.now, nil)
	lane := func(from string) string {
		a, wait := g.Begin(SignIn{Name: "reader", From: addr(from)})
		if wait != 0 {
			t.Fatalf("%s waits %s", from, wait)
		}
		defer a.Void()
		return a.Lane
	}
	failures(g, 3, same(SignIn{Name: "invented", From: addr("192.0.2.1")}))
	if lane("192.0.2.1") != LaneNoisy || lane("192.0.2.2") != LaneQuiet || lane("198.51.100.1") != LaneQuiet {
		t.Error("a network with three failures is as good as others, or others are as bad")
	}
	c.advance(30 * time.Minute)
	failures(g, 2, same(SignIn{Name: "invented", From: addr("192.0.2.1")}))
	if lane("192.0.2.1") != LaneNoisy {
		t.Error("half an hour makes a network quiet that goes on")
	}
	c.advance(time.Hour)
	if lane("192.0.2.1") != LaneQuiet {
		t.Error("an hour later the network is noisy still")
	}
}

// TestAFloodOfNetworksFillsNoCount: after ten thousand networks have used up their limit
// for one name, hardly any other network is affected.
func TestAFloodOfNetworksFillsNoCount(t *testing.T) {
	g := New(newClock().now, nil)
	for i := range 10_000 {
		failures(g, 5, same(SignIn{Name: "reader", From: addr(fmt.Sprintf("10.%d.%d.1", i/256, i%256))}))
	}
	paying := 0
	for i := range 1000 {
		if _, wait := g.Begin(SignIn{Name: fmt.Sprint("person", i), From: addr(fmt.Sprintf("172.%d.%d.1", 16+i/256, i%256))}); wait > 0 {
			paying++
		}
	}
	if paying > 150 { // about 55 are to be expected
		t.Errorf("%d of 1000 pay for others", paying)
	}
}

// TestWrongSecrets are counted by client and network, and by network for all clients.
func TestWrongSecrets(t *testing.T) {
	c := newClock()
	g := New(c.now, nil)
	told := func(n int, id func(int) string, from string) (told int) {
		for i := range n {
			if g.Wrong(id(i), addr(from)) == 0 {
				told++
			}
		}
		return told
	}
	one := func(id string) func(int) string { return func(int) string { return id } }
	if n := told(100, one("a"), "192.0.2.1"); n != 20 {
		t.Errorf("%d wrong secrets, want 20", n)
	}
	if n := told(100, one("b"), "192.0.2.1"); n != 20 {
		t.Errorf("%d of another client, want 20", n)
	}
	if n := told(100, one("a"), "198.51.100.1"); n != 20 {
		t.Errorf("%d from another network, want 20", n)
	}
	if n := told(1000, func(i int) string { return fmt.Sprint(i) }, "203.0.113.1"); n > 200 || n < 190 {
		t.Errorf("%d of many clients, want 200", n)
	}
	c.advance(period)
	if n := told(100, one("a"), "192.0.2.1"); n != 20 {
		t.Errorf("%d after ten minutes, want 20", n)
	}
}

// TestCodesOfAKnownBrowser: a browser that is known has guesses at a second factor of its own. They keep
// no other browser out, and those of others do not keep it out.
func TestCodesOfAKnownBrowser(t *testing.T) {
	g := New(newClock().now, nil)
	codes := func(s SignIn) (made int) {
		for range 100 {
			if _, wait := g.BeginCode(s); wait == 0 {
				made++
			}
		}
		return made
	}
	for i, want := range []int{10, 5, 0} {
		if n := codes(SignIn{Name: "ada", From: addr(fmt.Sprintf("192.0.%d.1", i))}); n != want {
			t.Errorf("network %d has %d guesses, want %d", i, n, want)
		}
	}
	for _, device := range []string{"one", "another"} {
		if n := codes(SignIn{Name: "ada", From: addr("192.0.0.1"), Device: device}); n != 10 {
			t.Errorf("the browser %s has %d guesses, want 10", device, n)
		}
	}
	if n := codes(SignIn{Name: "ben", From: addr("192.0.3.1")}); n != 10 {
		t.Errorf("another person has %d guesses, want 10", n)
	}
}

// TestVoidLeavesNoNoise: attempts without a comparison make no network noisy.
func TestVoidLeavesNoNoise(t *testing.T) {
	g := New(newClock().now, nil)
	for i := range 10 {
		a, wait := g.Begin(SignIn{Name: "reader", From: addr("192.0.2.1")})
		if wait != 0 || a.Lane != LaneQuiet {
			t.Fatalf("attempt %d waits %s in lane %s", i, wait, a.Lane)
		}
		a.Void()
	}
}

// TestSharedCounts: with a counter, the answers about passwords are counted there: a wrong one in what
// may fail, a right one in what may succeed, and then the failures of its name are given back.
func TestSharedCounts(t *testing.T) {
	var told []fair.Charge
	g := New(newClock().now, func(_ context.Context, charges []fair.Charge) ([]time.Duration, bool, error) {
		told = charges
		return make([]time.Duration, len(charges)), true, nil
	})
	spent := func(prefix string) (sum int64) {
		for _, c := range told {
			if strings.HasPrefix(c.Bucket.Key, prefix) {
				sum += c.Spend
			}
		}
		return sum
	}
	begin := func() *Attempt {
		a, wait := g.Begin(SignIn{Name: "reader", From: addr("192.0.2.1")})
		if wait != 0 {
			t.Fatalf("it waits %s", wait)
		}
		return a
	}
	if wait, err := begin().Wrong(t.Context()); wait != 0 || err != nil || spent("failed reader from") <= 0 || spent("failed from") <= 0 || spent("noise of") <= 0 || spent("signed in from") != 0 {
		t.Errorf("a wrong password: %s, %v, %+v", wait, err, told)
	}
	if wait, err := begin().Right(t.Context()); wait != 0 || err != nil || spent("failed reader from") != -failuresPerName.Burst || spent("signed in from") <= 0 {
		t.Errorf("the right password: %s, %v, %+v", wait, err, told)
	}
}
