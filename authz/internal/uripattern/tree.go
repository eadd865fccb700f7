package uripattern

import "strings"

// Tree finds the patterns that a URI matches, each with a value. The cost of a search grows with
// the length of the URI and, at most, with the number of patterns that overlap. The zero value is
// an empty tree. A tree that does not change any more is safe for concurrent use.
type Tree[V any] struct {
	roots map[string]*node[V] // by scheme and authority
}

// node is a place in the path of patterns.
type node[V any] struct {
	plain map[string]*node[V]
	any   *node[V] // below a placeholder
	leaf  *leaf[V] // the pattern that ends here
}

type leaf[V any] struct {
	pattern Pattern
	value   V
}

// Empty reports whether the tree has no pattern.
func (t *Tree[V]) Empty() bool { return len(t.roots) == 0 }

// Add adds a pattern. It replaces one of the same shape.
func (t *Tree[V]) Add(p Pattern, value V) {
	if t.roots == nil {
		t.roots = map[string]*node[V]{}
	}
	n := t.roots[p.base]
	if n == nil {
		n = &node[V]{}
		t.roots[p.base] = n
	}
	for _, segment := range p.segments {
		n = n.below(segment)
	}
	n.leaf = &leaf[V]{p, value}
}

// below returns the node after a segment of a pattern, and makes it if there is none.
func (n *node[V]) below(segment string) *node[V] {
	if segment == placeholder {
		if n.any == nil {
			n.any = &node[V]{}
		}
		return n.any
	}
	if n.plain == nil {
		n.plain = map[string]*node[V]{}
	}
	next := n.plain[segment]
	if next == nil {
		next = &node[V]{}
		n.plain[segment] = next
	}
	return next
}

// Find returns the value of the most specific pattern that a URI in canonical form matches.
func (t *Tree[V]) Find(uri string) (value V, ok bool) {
	t.Each(uri, func(v V) bool {
		value, ok = v, true
		return false
	})
	return value, ok
}

// Each calls visit with the value of every pattern that a URI in canonical form matches, a more
// specific pattern before a less specific one, until visit returns false.
func (t *Tree[V]) Each(uri string, visit func(V) bool) {
	if t.Empty() {
		return
	}
	if base, path, ok := split(uri); ok && t.roots[base] != nil {
		t.roots[base].each(path, true, visit)
	}
}

// each visits the patterns below n that match path, of which more says whether there is a
// segment left. A plain segment comes before a placeholder. Patterns that match one URI are
// never ambiguous, so the first match is more specific than every later one.
func (n *node[V]) each(path string, more bool, visit func(V) bool) bool {
	if !more {
		return n.leaf == nil || visit(n.leaf.value)
	}
	segment, rest, left := strings.Cut(path, "/")
	if next := n.plain[segment]; next != nil && !next.each(rest, left, visit) {
		return false
	}
	return n.any == nil || !validValue(segment) || n.any.each(rest, left, visit)
}

// Ambiguous returns a pattern of the tree that p must not be together with: one of the same
// shape, or one that overlaps p although neither is more specific.
func (t *Tree[V]) Ambiguous(p Pattern) (other Pattern, ok bool) {
	return t.roots[p.base].ambiguous(p.segments, specificity{})
}

// specificity says which of two patterns has a plain segment where the other one has a
// placeholder, in the segments compared so far.
type specificity struct{ first, second bool }

// ambiguous looks for a pattern below n that overlaps with the rest of another one.
func (n *node[V]) ambiguous(segments []string, s specificity) (other Pattern, ok bool) {
	switch {
	case n == nil:
		return Pattern{}, false
	case len(segments) == 0 && (n.leaf == nil || s.first != s.second):
		return Pattern{}, false
	case len(segments) == 0:
		return n.leaf.pattern, true
	case segments[0] == placeholder:
		return n.ambiguousAny(segments[1:], s)
	case validValue(segments[0]):
		if other, ok = n.any.ambiguous(segments[1:], specificity{true, s.second}); ok {
			return other, ok
		}
	}
	return n.plain[segments[0]].ambiguous(segments[1:], s)
}

// ambiguousAny is ambiguous after a placeholder. A plain segment that no URI has in the place of
// a placeholder does not overlap with it.
func (n *node[V]) ambiguousAny(rest []string, s specificity) (Pattern, bool) {
	if other, ok := n.any.ambiguous(rest, s); ok {
		return other, true
	}
	for value, next := range n.plain {
		if validValue(value) {
			if other, ok := next.ambiguous(rest, specificity{s.first, true}); ok {
				return other, true
			}
		}
	}
	return Pattern{}, false
}
