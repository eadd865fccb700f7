// Package headername compares names of headers as the programs do that read them.
//
// To Go, "Mcp_Session_Id" and "Mcp-Session-Id" are two headers. To a program that gets
// headers as variables they are one (CGI, RFC 3875 section 4.1.18; WSGI): case counts for
// nothing there, and every character that is no letter and no digit is the same. What is
// judged, set or taken out by name has to be found under all of them.
package headername

import (
	"net/http"
	"strings"
)

// Fold is a name as such a program sees it: in lowercase, and with a hyphen for every
// character that is no letter and no digit.
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

// Is reports whether a name folds to a folded one. It allocates nothing.
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

// Canonical reports whether a name has the one spelling by which net/http finds it: letters,
// digits and hyphens, in its case.
func Canonical(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '-' && folded(rune(c)) == '-' {
			return false
		}
	}
	return http.CanonicalHeaderKey(name) == name
}

// Set is names of headers, and beginnings of them.
type Set struct {
	whole      map[string]bool
	beginnings []string
}

// NewSet returns a set of folded names. A "*" at the end of one stands for any more
// characters.
func NewSet(patterns ...string) Set {
	s := Set{whole: map[string]bool{}}
	for _, pattern := range patterns {
		if beginning, ok := strings.CutSuffix(pattern, "*"); ok {
			s.beginnings = append(s.beginnings, beginning)
		} else {
			s.whole[pattern] = true
		}
	}
	return s
}

// Has reports whether a name is in the set, in any spelling.
func (s Set) Has(name string) bool {
	name = Fold(name)
	if s.whole[name] {
		return true
	}
	for _, beginning := range s.beginnings {
		if strings.HasPrefix(name, beginning) {
			return true
		}
	}
	return false
}
