// Package wildcard compares a name with many patterns at once, in which "*" stands for any
// characters.
//
// Comparing with one pattern after the other costs the length of the name times the number of
// patterns, and an attacker chooses the name. A [Set] reads the name once: it finds the text
// before the first star of the patterns in a trie, and the texts between stars with one
// automaton (Aho and Corasick, 1975). So the cost is the length of the name, plus a constant
// for each pattern whose beginning it has.
package wildcard

import "strings"

// Set is an immutable list of patterns.
type Set struct {
	exact map[string][]int // patterns without a star
	wild  []pattern
	heads tree // finds the patterns in wild without parts
	parts tree // finds the parts of the other patterns

	begins  [][]int // by part: the patterns in wild that have it as their first part
	waiting []int32 // by part: unopened if begins has patterns for it
}

// unopened marks a part that was not found yet: the patterns in [Set.begins] wait for it.
const unopened = -1

// pattern is "head*part*part*tail".
type pattern struct {
	id         int // its index in the list
	head, tail string
	parts      []int // ids of the parts, none of which is empty
	least      int   // the minimum length of a name
}

// New returns the set of patterns.
func New(patterns []string) *Set {
	s := &Set{exact: map[string][]int{}}
	var heads, parts builder
	for id, text := range patterns {
		pieces := strings.Split(text, "*")
		if len(pieces) == 1 {
			s.exact[text] = append(s.exact[text], id)
			continue
		}
		last := len(pieces) - 1
		p := pattern{id: id, head: pieces[0], tail: pieces[last], least: len(text) - last}
		for _, part := range pieces[1:last] {
			if part != "" {
				p.parts = append(p.parts, parts.add(part))
			}
		}
		if len(p.parts) == 0 {
			heads.mark(p.head, len(s.wild))
		}
		s.wild = append(s.wild, p)
	}
	s.heads, s.parts = heads.tree(false), parts.tree(true)
	s.begins, s.waiting = make([][]int, parts.texts), make([]int32, parts.texts)
	for place, p := range s.wild {
		if len(p.parts) > 0 {
			s.begins[p.parts[0]], s.waiting[p.parts[0]] = append(s.begins[p.parts[0]], place), unopened
		}
	}
	return s
}

// Work holds buffers that one goroutine reuses from name to name, and counts steps. The zero
// value is ready for use.
type Work struct {
	// Steps is the number of characters and patterns that were looked at so far.
	Steps int

	found   []int
	waiting []waiter
	first   []int32 // by part: the index of the first waiter for it, plus one; or unopened
}

// waiter is a pattern that was matched up to one of its parts.
type waiter struct {
	pattern *pattern
	part    int   // the index of the part that comes next
	from    int   // where that part may begin in the name
	next    int32 // the index of the next waiter for the same part, plus one
}

// Match returns the indexes of the patterns that match a name, in no order. The result is
// valid until the next call with the same w.
func (s *Set) Match(w *Work, name string) []int {
	w.found = append(w.found[:0], s.exact[name]...)
	at := 0
	for i := 0; ; i++ {
		w.Steps++
		for _, place := range s.heads.nodes[at].ends {
			w.Steps++
			if p := &s.wild[place]; p.hasEnds(name) {
				w.found = append(w.found, p.id)
			}
		}
		if i == len(name) {
			break
		}
		if at = s.heads.child(at, name[i]); at == 0 {
			break
		}
	}
	if s.parts.texts > 0 {
		s.scan(w, name)
	}
	return w.found
}

// hasEnds reports whether a name has the head and the tail of a pattern.
func (p *pattern) hasEnds(name string) bool {
	return len(name) >= p.least && strings.HasPrefix(name, p.head) && strings.HasSuffix(name, p.tail)
}

// scan reads a name once. Each pattern takes the first occurrence of each of its parts, which
// leaves the most characters for the parts that follow.
func (s *Set) scan(w *Work, name string) {
	w.first, w.waiting = append(w.first[:0], s.waiting...), w.waiting[:0]
	at := 0
	for i := range len(name) {
		w.Steps++
		at = s.parts.child(at, name[i])
		for node := at; node != 0; node = s.parts.nodes[node].shorter {
			w.Steps++
			part := s.parts.nodes[node].text
			if part < 0 || w.first[part] == 0 {
				continue
			}
			s.open(w, part, name)
			s.arrive(w, part, s.parts.nodes[node].depth, i+1, name)
		}
	}
}

// open makes the patterns wait that have a part as their first one.
func (s *Set) open(w *Work, part int, name string) {
	if w.first[part] != unopened {
		return
	}
	w.first[part] = 0
	for _, place := range s.begins[part] {
		w.Steps++
		if p := &s.wild[place]; p.hasEnds(name) {
			w.waiting = append(w.waiting, waiter{pattern: p, from: len(p.head), next: w.first[part]})
			w.first[part] = int32(len(w.waiting))
		}
	}
}

// wait puts a pattern on the list of the part that it needs next.
func (s *Set) wait(w *Work, i int, name string) {
	part := w.waiting[i].pattern.parts[w.waiting[i].part]
	s.open(w, part, name)
	w.waiting[i].next = w.first[part]
	w.first[part] = int32(i) + 1
}

// arrive advances all patterns that wait for a part, which ends at end. A pattern whose part
// has to begin later keeps waiting.
func (s *Set) arrive(w *Work, part, length, end int, name string) {
	next := w.first[part]
	w.first[part] = 0
	var again int32
	for next != 0 {
		w.Steps++
		i := int(next - 1)
		p := &w.waiting[i]
		next = p.next
		switch {
		case end-length < p.from:
			p.next, again = again, int32(i)+1
		case p.part+1 < len(p.pattern.parts):
			p.part, p.from = p.part+1, end
			if p.pattern.parts[p.part] == part {
				p.next, again = again, int32(i)+1
			} else {
				s.wait(w, i, name)
			}
		case end <= len(name)-len(p.pattern.tail):
			w.found = append(w.found, p.pattern.id)
		}
	}
	w.first[part] = again
}
