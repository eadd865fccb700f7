package wildcard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/internal/deptest"
	"gatehouse.example/internal/wildcard"
)

// TestDeps keeps the package free of other packages of the module.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}

// fits is the reference: it compares a name with one pattern, in the simplest way.
func fits(pattern, name string) bool {
	if pattern == "" {
		return name == ""
	}
	if pattern[0] == '*' {
		return fits(pattern[1:], name) || name != "" && fits(pattern, name[1:])
	}
	return name != "" && pattern[0] == name[0] && fits(pattern[1:], name[1:])
}

// compare fails the test unless the set and fits agree about each name.
func compare(t *testing.T, patterns []string, names ...string) {
	t.Helper()
	set := wildcard.New(patterns)
	var w wildcard.Work
	for _, name := range names {
		var want []int
		for i, pattern := range patterns {
			if fits(pattern, name) {
				want = append(want, i)
			}
		}
		got := slices.Sorted(slices.Values(set.Match(&w, name)))
		if !slices.Equal(got, want) {
			t.Errorf("%q fits %v of %q, want %v", name, got, patterns, want)
		}
	}
}

func TestPatternsTogetherAreThePatternsOneByOne(t *testing.T) {
	patterns := []string{
		"", "*", "**", "a", "a*", "*a", "*a*", "ab*", "*ab", "a*b", "a*a", "aa*aa", "*ab*ab*", "*a*a*a*", "*aa*a*", "*ab*b", "a*ab*b", "*b*ab*a", "a**b", "*ba*ab*", "abc", "a", "*c", "é*", "*é*", "\xff*", "*a*ba*a",
	}
	var names []string
	grow := func(alphabet []string, most int) {
		level := []string{""}
		for range most {
			var next []string
			for _, s := range level {
				for _, c := range alphabet {
					next = append(next, s+c)
				}
			}
			names, level = append(names, next...), next
		}
	}
	grow([]string{"a", "b", "c"}, 7)
	grow([]string{"é", "a", "\xff", "*"}, 3)
	compare(t, patterns, append(names, "")...)
	compare(t, nil, "", "a")
	every := make([]string, 256)
	for i := range every {
		every[i] = "*" + string([]byte{byte(i)}) + "*"
	}
	compare(t, every, "", "a", "\x00\xff")
}

func FuzzPatterns(f *testing.F) {
	f.Add("a*b,*a*,ab", "aab")
	f.Add("*ab*ab*,a*a*a", "abaababa")
	f.Add("aa*aa,*,**", "aaa")
	f.Fuzz(func(t *testing.T, patterns, name string) {
		if len(patterns) > 60 || len(name) > 24 || strings.Count(patterns, "*") > 8 {
			return
		}
		compare(t, strings.Split(patterns, ","), name)
	})
}

// TestStepsAreASum counts steps: the cost is the length of the name plus the number of
// patterns, never their product.
func TestStepsAreASum(t *testing.T) {
	steps := func(many int, pattern string, name string) int {
		patterns := make([]string, many)
		for i := range patterns {
			patterns[i] = strings.ReplaceAll(pattern, "#", fmt.Sprint(i))
		}
		var w wildcard.Work
		wildcard.New(patterns).Match(&w, name)
		return w.Steps
	}
	for _, pattern := range []string{"*a*b*#*a*", "*ab*ab*ab*#", "n*ab*#", "*aaaaaaaaaaaaaaab#*", "*b#*", "#*", "*#", "*a#a*a#a*", "nab#*"} {
		for _, name := range []string{strings.Repeat("ab", 1<<15), strings.Repeat("a", 1<<16), "n" + strings.Repeat("a1a", 1<<14), strings.Repeat("9", 1<<16)} {
			one, all := steps(1, pattern, name), steps(200, pattern, name)
			if most := 6*len(name) + 200*30; all > most || one > 4*len(name)+30 {
				t.Errorf("%s, %.6s...: %d steps for one pattern, %d for 200, at most %d", pattern, name, one, all, most)
			}
		}
	}
}

func BenchmarkPatterns(b *testing.B) {
	patterns := make([]string, 200)
	for i := range patterns {
		patterns[i] = fmt.Sprintf("*ab*%d*", i)
	}
	set := wildcard.New(patterns)
	for _, length := range []int{16, 1 << 10, 16 << 10} {
		name := strings.Repeat("ab", length/2)
		b.Run(fmt.Sprint(length), func(b *testing.B) {
			var w wildcard.Work
			b.ReportAllocs()
			for b.Loop() {
				set.Match(&w, name)
			}
		})
	}
}
