package gateway

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Verdicts on names are those of the rule, whether they are kept or not; and strangers cannot make
// the gateway keep more than it is meant to.
func TestJudgedNamesAreBounded(t *testing.T) {
	rule := passing{"X-User": true}.drops
	asked := 0
	j := newJudged(func(name string) bool { asked++; return rule(name) })
	names := []string{"Accept", "Authorization", "X-User", "X-Users", "x_user", "Gatehouse-Subject", "Mcp-Param-User", "User-Agent",
		strings.Repeat("X", maxJudgedName+1)}
	for range 3 {
		for _, name := range names {
			if got, want := j.of(name), rule(name); got != want {
				t.Errorf("%s is dropped: %t, want %t", name, got, want)
			}
		}
	}
	if want := len(names) - 1 + 3; asked != want {
		t.Errorf("the rule was asked %d times, want %d: once for each name, and each time for the long one", asked, want)
	}
	for n := range 2 * maxJudged {
		j.of(fmt.Sprint("X-Name-", n))
	}
	if n := len(*j.known.Load()); n != maxJudged {
		t.Errorf("%d names are kept, want %d", n, maxJudged)
	}
	if !j.of("X-User-Of-Nobody") || j.of("X-Colour") {
		t.Error("a name that is not kept is judged otherwise")
	}
	if n := testing.AllocsPerRun(10, func() { j.of("Accept") }); n > 0 {
		t.Errorf("%v allocations for a name that is known", n)
	}
}

// Requests at the same time judge alike.
func TestJudgedAtTheSameTime(t *testing.T) {
	rule := passing(nil).drops
	j := newJudged(rule)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := range 2 * maxJudged {
				for _, name := range []string{fmt.Sprint("X-Name-", n), fmt.Sprint("X-User-", n)} {
					if j.of(name) != rule(name) {
						t.Errorf("%s is judged otherwise", name)
					}
				}
			}
		})
	}
	all.Wait()
	if n := len(*j.known.Load()); n > maxJudged {
		t.Errorf("%d names are kept", n)
	}
}
