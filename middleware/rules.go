package middleware

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gatehouse.example/internal/wildcard"
)

// rules are what a part of the policy says, for each way to read a name: as it is written
// alone, or in all strict readings of a URI. They are empty for a part without names.
type rules []patterns

// patterns are compared with one reading of a name, all together.
type patterns struct {
	set   *wildcard.Set
	rules []*rule // by the place of the pattern in the set, the closest first
}

type rule struct {
	pattern   string
	readings  [strictReadings]string // of the pattern, as URIs are read; for resources
	closeness int
	scopes    []string
}

func newRules(named map[string][]string) rules {
	if len(named) == 0 {
		return nil
	}
	return rules{newPatterns(sorted(named), asWritten)}
}

// newURIRules returns rules for URIs. A pattern stands for what is written like it, and in
// each reading also for what it is itself in that reading.
func newURIRules(named map[string][]string) rules {
	if len(named) == 0 {
		return nil
	}
	list, out := sorted(named), make(rules, strictReadings)
	for _, r := range list {
		read, _ := readingsOf(r.pattern)
		r.readings = read.strict
	}
	for reading := range out {
		out[reading] = newPatterns(list, reading)
	}
	return out
}

// sorted puts rules in the order in which they count.
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

// closeness orders patterns: a name comes first, then what has the most characters that
// stand for themselves.
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

// find returns what the rules say about a name. Of patterns that are equally close all
// count.
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

// find returns what the rules say about a name as it is written.
func (rs rules) find(w *wildcard.Work, name string) (scopes []string, ok bool) {
	if len(rs) == 0 || len(name) > maxNames {
		return nil, false
	}
	return rs[asWritten].find(w, name)
}

// findURI returns all that the rules say about any reading of a URI.
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
	return scopes, true
}
