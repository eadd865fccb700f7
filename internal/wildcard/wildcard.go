// Package wildcard compares a name with many patterns at once, in which "*" stands for any
// characters.
//
// One by one, a long name and many patterns cost their product, and whoever chooses the name
// chooses the cost. Here the name is read once: what stands before the first star of the
// patterns is found in a tree, and all that stands between stars by one automaton (Aho and
// Corasick, 1975). So a name costs its own length, and a little for each pattern that it has
// the beginning of.
package wildcard

import "strings"

// Set is a list of patterns. It never changes.
type Set struct {
	exact map[string][]int // patterns without a star
	wild  []pattern
	heads tree // leads to the patterns in wild without parts
	parts tree // finds the parts of the others

	begins  [][]int // by part: the patterns in wild of which it is the first
	waiting []int32 // by part: unopened if there are such
}

// unopened is a part that was not met yet: who waits for it first is in [Set.begins].
const unopened = -1

// pattern is "head*part*part*tail".
type pattern struct {
	id         int // its place in the list
	head, tail string
	parts      []int // by id; none is empty
	least      int   // how long a name is at least
}

// New returns the set of some patterns.
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

// Work is room that one goroutine uses for one name after the other, and counts what it does.
// The zero value is ready.
type Work struct {
	// Steps is how many characters and patterns were looked at so far.
	Steps int

	found   []int
	waiting []waiter
	first   []int32 // by part: the first who waits for it, plus one; or unopened
}

// waiter is a pattern on its way through a name.
type waiter struct {
	pattern *pattern
	part    int   // the place of the one that it waits for
	from    int   // where that may begin
	next    int32 // who waits for the same part, plus one
}

// Match returns the places of the patterns that a name fits, in no order. They are good until
// the next call with the same work.
func (s *Set) Match(w *Work, name string) []int {
	w.found = append(w.found[:0], s.exact[name]...)
	at := 0
	for i := 0; ; i++ {
		w.Steps++
		for _, place := range s.heads.nodes[at].ends {
			w.Steps++
			if p := &s.wild[place]; p.frames(name) {
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

// frames reports whether a name begins and ends like a pattern.
func (p *pattern) frames(name string) bool {
	return len(name) >= p.least && strings.HasPrefix(name, p.head) && strings.HasSuffix(name, p.tail)
}

// scan reads a name once. Each pattern takes each of its parts where it comes first, which
// leaves the most for the others.
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

// open makes the patterns wait for a part of which it is the first.
func (s *Set) open(w *Work, part int, name string) {
	if w.first[part] != unopened {
		return
	}
	w.first[part] = 0
	for _, place := range s.begins[part] {
		w.Steps++
		if p := &s.wild[place]; p.frames(name) {
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

// arrive tells all who wait for a part that it ends here. Who has to begin later waits on.
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
