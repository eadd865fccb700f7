// Package headername compares header names as the programs behind a proxy do.
//
// To Go, "Mcp_Session_Id" and "Mcp-Session-Id" are two headers. To a program that receives
// headers as variables they are one (CGI, RFC 3875 section 4.1.18; WSGI): it ignores case and
// treats every character other than a letter or digit alike. Code that checks, sets or removes
// a header by name has to find every such spelling.
package headername

import (
	"net/http"
	"strings"
)

// Fold returns a name in lowercase, with a hyphen in place of every character that is neither
// a letter nor a digit.
func Fold(name string) string { return strings.Map(folded, name) }

func folded(c rune) rune {
	switch {
	case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		return c
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	}
	return '-'
}

// Is reports whether Fold(name) equals fold. It allocates nothing.
func Is(name, fold string) bool {
	if len(name) != len(fold) {
		return false
	}
	for i := range len(name) {
		if folded(rune(name[i])) != rune(fold[i]) {
			return false
		}
	}
	return true
}

// Canonical reports whether a name has the one spelling that net/http looks up: letters,
// digits and hyphens, in the case of [http.CanonicalHeaderKey].
func Canonical(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '-' && folded(rune(c)) == '-' {
			return false
		}
	}
	return http.CanonicalHeaderKey(name) == name
}

// Set is a set of header names and prefixes of them.
type Set struct {
	whole    map[string]bool
	prefixes []string
}

// NewSet returns a set of folded names. A pattern that ends with "*" is a prefix.
func NewSet(patterns ...string) Set {
	s := Set{whole: map[string]bool{}}
	for _, pattern := range patterns {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			s.prefixes = append(s.prefixes, prefix)
		} else {
			s.whole[pattern] = true
		}
	}
	return s
}

// Has reports whether a name is in the set, in any spelling.
func (s Set) Has(name string) bool {
	if len(s.whole) == 0 && len(s.prefixes) == 0 {
		return false
	}
	name = Fold(name)
	if s.whole[name] {
		return true
	}
	for _, prefix := range s.prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
