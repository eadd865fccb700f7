package middleware

import (
	"fmt"
	"strings"
	"testing"

	"gatehouse.example/internal/wildcard"
)

// many returns patterns with equal beginnings and several parts, which cause the most work.
func many(count int, form string) map[string][]string {
	out := map[string][]string{}
	for i := range count {
		out[fmt.Sprintf(form, i)] = []string{"notes:read"}
	}
	return out
}

// TestWorkOfAMessageIsBounded counts the steps for the largest message, with 200 patterns.
func TestWorkOfAMessageIsBounded(t *testing.T) {
	short := make([]string, maxNamed)
	for i := range short {
		short[i] = fmt.Sprintf("n:%%2F/%d;?#%d", i, i)
	}
	long := []string{"notes://" + strings.Repeat("ab/%61;", 2300) + "?a;b#c"}
	for _, form := range []string{"n*a*b*%d*", "n*ab*ab*%d", "n*%d", "n%d*", "*a*%d*"} {
		for _, tt := range []struct {
			op   operation
			most int
		}{
			{operation{Operation{"tools/call", ""}, tool, []string{strings.Repeat("ab", maxNames/2)}}, 1 << 18},
			{operation{Operation{"resources/read", ""}, resourceURI, long}, 1 << 26},
			{operation{Operation{"subscriptions/listen", ""}, resourceURI, short}, 1 << 26},
		} {
			var one, all wildcard.Work
			for count, w := range map[int]*wildcard.Work{1: &one, 200: &all} {
				rules := many(count, form)
				rules["*"] = nil
				p := newPolicy(Policy{Tools: rules, Resources: rules})
				if err := p.judgeable(tt.op); err != nil {
					t.Fatal(err)
				}
				if _, known := p.needs(w, tt.op); !known {
					t.Fatalf("%s: %.20s is not known", form, tt.op.names[0])
				}
			}
			if all.Steps > tt.most || all.Steps > 40*one.Steps+1<<12 && len(tt.op.names) == 1 {
				t.Errorf("%s, %d names like %.20s: %d steps for one pattern, %d for 200", form, len(tt.op.names), tt.op.names[0], one.Steps, all.Steps)
			}
		}
	}
}

// TestWorkGrowsWithTheName checks that the work grows linearly with the name.
func TestWorkGrowsWithTheName(t *testing.T) {
	rules := many(200, "notes://*ab*ab*%d*")
	rules["*"] = nil
	p := newPolicy(Policy{Resources: rules})
	last := 0
	for length := 1 << 9; length <= 1<<12; length *= 2 {
		var w wildcard.Work
		p.needs(&w, operation{Operation{}, resourceURI, []string{"notes://" + strings.Repeat("ab", length)}})
		if last > 0 && w.Steps > 5*last/2 {
			t.Errorf("%d steps for %d bytes, %d for half of them", w.Steps, 2*length, last)
		}
		last = w.Steps
	}
}

// TestWorkOfAListIsBounded checks that a list of ten thousand items is forwarded, and that one
// that needs too much work is not.
func TestWorkOfAListIsBounded(t *testing.T) {
	for _, k := range []kind{tool, resourceURI} {
		p := newPolicy(Policy{Tools: many(200, "notes://*o*x*%d*"), Resources: many(200, "notes://*o*x*%d*")})
		var w wildcard.Work
		for i := range 10000 {
			p.needs(&w, operation{Operation{calls(k), ""}, k, []string{fmt.Sprintf("notes://some/box/item_%d", i)}})
		}
		if w.Steps > maxListSteps {
			t.Errorf("%d steps for ten thousand items of kind %d", w.Steps, k)
		}
	}
}
