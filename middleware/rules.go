package middleware

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gatehouse.example/internal/lookalike"
	"gatehouse.example/internal/wildcard"
)

// rules are a part of the policy: the patterns for each reading of a name. URIs have all strict
// readings, other names only asWritten. They are empty for a part without names.
type rules []patterns

// patterns are the patterns for one reading of a name.
type patterns struct {
	set   *wildcard.Set
	rules []*rule // by the index of the pattern in the set, the closest first
}

type rule struct {
	pattern   string
	readings  [strictReadings]string // of the pattern; for resources only
	closeness int
	scopes    []string
}

func newRules(named map[string][]string) rules {
	if len(named) == 0 {
		return nil
	}
	return rules{newPatterns(sorted(named), asWritten)}
}

// newURIRules returns rules for URIs. For each reading, the patterns are those of the policy as
// they are written, and the same patterns in that reading.
func newURIRules(named map[string][]string) rules {
	if len(named) == 0 {
		return nil
	}
	list, out := sorted(named), make(rules, strictReadings, strictReadings+1)
	for _, r := range list {
		read, _ := readingsOf(r.pattern)
		r.readings = read.strict
	}
	for reading := range out {
		out[reading] = newPatterns(list, reading)
	}
	return append(out, foldedPatterns(list))
}

// sorted returns the rules in the order of precedence.
func sorted(named map[string][]string) []*rule {
	list := make([]*rule, 0, len(named))
	for pattern, scopes := range named {
		list = append(list, &rule{pattern: pattern, closeness: closeness(pattern), scopes: once(scopes)})
	}
	slices.SortFunc(list, func(a, b *rule) int {
		return cmp.Or(cmp.Compare(b.closeness, a.closeness), cmp.Compare(a.pattern, b.pattern))
	})
	return list
}

// closeness returns the precedence of a pattern: that of a name without "*" is the highest, that
// of any other pattern is its number of characters other than "*".
func closeness(pattern string) int {
	stars := strings.Count(pattern, "*")
	if stars == 0 {
		return math.MaxInt
	}
	return len(pattern) - stars
}

func newPatterns(list []*rule, reading int) patterns {
	var p patterns
	var texts []string
	for _, r := range list {
		texts, p.rules = append(texts, r.pattern), append(p.rules, r)
		if read := r.readings[reading]; read != "" && read != r.pattern {
			texts, p.rules = append(texts, read), append(p.rules, r)
		}
	}
	p.set = wildcard.New(texts)
	return p
}

// foldedPatterns returns the patterns of [foldedFile].
func foldedPatterns(list []*rule) patterns {
	var p patterns
	var texts []string
	for _, r := range list {
		for _, text := range distinct(append(foldedFile(r.readings[resolved]), lookalike.Fold(r.pattern))...) {
			texts, p.rules = append(texts, text), append(p.rules, r)
		}
	}
	p.set = wildcard.New(texts)
	return p
}

// find returns the scopes for a name: those of the closest patterns that match. It returns false
// if none matches.
func (p *patterns) find(w *wildcard.Work, name string) (scopes []string, ok bool) {
	found := p.set.Match(w, name)
	slices.Sort(found)
	for _, at := range found {
		if r := p.rules[at]; r.closeness < p.rules[found[0]].closeness {
			break
		} else {
			scopes = union(scopes, r.scopes)
		}
	}
	return scopes, len(found) > 0
}

// find returns the scopes for a name as it is written, false if no pattern matches.
func (rs rules) find(w *wildcard.Work, name string) (scopes []string, ok bool) {
	if len(rs) == 0 || len(name) > maxNames {
		return nil, false
	}
	return rs[asWritten].find(w, name)
}

// findURI returns the scopes for all readings of a URI, false if a strict reading matches no
// pattern.
func (rs rules) findURI(w *wildcard.Work, uri string) (scopes []string, ok bool) {
	if uri == "" || len(uri) > maxNames {
		return rs.find(w, uri)
	}
	read, err := readingsOf(uri)
	if err != nil {
		return nil, false
	}
	for i, reading := range read.strict {
		if reading == "" && i != asWritten {
			continue
		}
		w.Steps += len(reading)
		more, known := rs[i].find(w, reading)
		if !known {
			return nil, false
		}
		scopes = union(scopes, more)
	}
	for _, reading := range read.loose {
		w.Steps += len(reading)
		more, _ := rs[resolved].find(w, reading)
		scopes = union(scopes, more)
	}
	for _, reading := range append(foldedFile(read.strict[resolved]), foldedFile(read.strict[climbed])...) {
		w.Steps += len(reading)
		more, _ := rs[folded].find(w, reading)
		scopes = union(scopes, more)
	}
	return scopes, true
}
