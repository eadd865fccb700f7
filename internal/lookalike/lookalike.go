// Package lookalike finds the ASCII text that a lenient reader takes another text for.
//
// A server can compare paths without regard to case, by the mappings of Unicode: U+212A, the Kelvin
// sign, is a "k" then, and U+FB01 is "fi". A server that normalizes text to NFKC (Unicode Standard
// Annex 15) takes the fullwidth letter U+FF41 for an "a", and U+FF0F for a slash. Code that grants
// access by ASCII names has to know all of these.
package lookalike

import (
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Fold returns a text in lowercase, with each character that becomes ASCII, by a mapping of case or
// by NFKC, replaced by that. One character can become several, among them punctuation.
func Fold(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	var b strings.Builder
	known := folds()
	for _, c := range s {
		if plain, ok := known[c]; ok {
			b.WriteString(plain)
		} else {
			b.WriteRune(c)
		}
	}
	return single(b.String())
}

// Foldings returns what servers take a text for that compare without regard to case: in ASCII only,
// by mappings of one character to one, by all mappings, and by those after NFKC. For each of these
// there are servers that take the dotless i, or the I with a dot, for an "i", and others. The last one
// is that of [Fold], and it is the only one for a text in ASCII.
func Foldings(s string) []string {
	if isASCII(s) {
		return []string{Fold(s)}
	}
	const other = "\ue000" // a character that is nobody's "i"
	undotted := strings.ReplaceAll(s, "\u0130", other)
	out := []string{strings.Map(lowerASCII, s)}
	for _, text := range slices.Compact([]string{strings.ReplaceAll(undotted, "\u0131", other), undotted, s}) {
		out = append(out, single(text), single(several.Replace(text)), Fold(text))
	}
	return out
}

func lowerASCII(c rune) rune {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// single folds case by mappings of one character to one. It makes both letters i of Turkish an "i".
func single(s string) string { return strings.ToLower(strings.ToUpper(s)) }

// several has the characters that become several of ASCII in another case.
var several = strings.NewReplacer("\u00df", "ss", "\u1e9e", "ss", "\ufb00", "ff", "\ufb01", "fi", "\ufb02", "fl", "\ufb03", "ffi", "\ufb04", "ffl", "\ufb05", "st", "\ufb06", "st")

// Path returns the folded path that a lenient server could find for a path: it decodes escapes that
// folding brought, resolves dots, cuts off parameters, a query and a fragment, and ignores dots and
// spaces at the end of a segment, and a slash at the end. The path begins with a slash.
func Path(s string) string {
	s = strings.ReplaceAll(Fold(s), `\`, "/")
	if decoded, err := url.PathUnescape(s); err == nil {
		s = strings.ReplaceAll(decoded, `\`, "/")
	}
	if i := strings.IndexAny(s, "?#\x00"); i >= 0 {
		s = s[:i]
	}
	segments := strings.Split(s, "/")
	for i, segment := range segments {
		if segment, _, _ = strings.Cut(segment, ";"); segment != "." && segment != ".." {
			segment = Trim(segment)
		}
		segments[i] = segment
	}
	return path.Clean(strings.Join(segments, "/"))
}

// Trim returns a segment of a path without what servers and file systems remove: spaces of any kind at
// both ends, and dots at its end.
func Trim(segment string) string {
	space := func(c rune) bool { return unicode.IsSpace(c) || c == '\ufeff' }
	return strings.TrimRightFunc(strings.TrimLeftFunc(segment, space), func(c rune) bool { return c == '.' || space(c) })
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// folds returns the table, by character. It is read at the first call: most processes meet no
// character that is in it.
var folds = sync.OnceValue(read)

func read() map[rune]string {
	out := map[rune]string{}
	var next rune
	for run := range strings.SplitSeq(table, " // ") {
		first, rest, _ := strings.Cut(run, " ")
		if n, err := strconv.ParseInt(first, 16, 32); err == nil {
			next = rune(n)
		}
		for plain := range strings.SplitSeq(rest, " ") {
			out[next] = strings.ReplaceAll(plain, "SP", " ")
			next++
		}
	}
	return out
}
