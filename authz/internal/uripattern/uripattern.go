// Package uripattern matches resource URIs against patterns such as
// https://mcp.example.com/{tenant}/mcp, for platforms that host many resources.
//
// A placeholder in braces is a whole segment of the path. It stands for exactly one segment of
// 1 to 128 unreserved characters (RFC 3986 section 2.3) that is not "." or "..": no
// percent-encoding, so that every server reads the same segment from the same URI. Everything
// else in a pattern stands for itself, byte for byte.
//
// Two patterns overlap if one URI can match both. One of them is more specific if, wherever
// the two differ, it has the plain segment and the other one the placeholder. Patterns that
// overlap although neither is more specific are ambiguous: a [Tree] must not have both.
package uripattern

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gatehouse.example/metadata"
)

const (
	// maxValue is the greatest length in bytes of a segment that a placeholder matches.
	maxValue = 128
	// maxSegments bounds the segments of a pattern, and maxPlaceholders those in braces.
	maxSegments, maxPlaceholders = 32, 8
	// maxName is the greatest length in bytes of the name in braces.
	maxName = 32
)

// Pattern is a resource URI with placeholders. The zero value matches nothing.
type Pattern struct {
	raw      string
	base     string   // scheme://host[:port]
	segments []string // of the path; placeholder for one in braces
}

// placeholder is a segment in braces. No URI has one, because braces are not allowed in URIs.
const placeholder = "{}"

// Is reports whether s is meant as a pattern: it has a brace, which no URI has.
func Is(s string) bool { return strings.ContainsAny(s, "{}") }

// Parse reads a pattern. The error says what is wrong with it in words for the operator. With
// example values in place of its placeholders, a pattern is a resource URI in canonical form
// (see [metadata.Canonical]) without a query. Its plain segments have no percent-encoding and are not
// dot segments, and only the last one may be empty.
func Parse(raw string) (Pattern, error) {
	_, rest, _ := strings.Cut(raw, "://")
	host, path, _ := strings.Cut(rest, "/")
	p := Pattern{raw: raw, base: raw[:len(raw)-len(rest)] + host, segments: strings.Split(path, "/")}
	if Is(p.base) {
		return Pattern{}, errors.New("braces are allowed in the path only, around a whole segment such as /{tenant}/")
	}
	if strings.ContainsAny(p.base, "?#") {
		return Pattern{}, errors.New("a pattern must not have a query or a fragment")
	}
	if len(p.segments) > maxSegments {
		return Pattern{}, fmt.Errorf("it has more than %d segments", maxSegments)
	}
	if err := p.readSegments(); err != nil {
		return Pattern{}, err
	}
	example := p.Example()
	canonical, err := metadata.Canonical(example)
	switch {
	case err != nil:
		return Pattern{}, errors.New(strings.TrimPrefix(err.Error(), "metadata: "))
	case canonical != example:
		return Pattern{}, errors.New("write it in its canonical form: scheme and host in lowercase, without a default port")
	}
	return p, nil
}

// Example returns a URI that matches the pattern.
func (p Pattern) Example() string { return strings.ReplaceAll(p.Shape(), placeholder, "x") }

// ParseShape reads the result of [Pattern.Shape]. Its placeholders are named a, b and so on.
func ParseShape(shape string) (Pattern, error) {
	name := 'a' - 1
	segments := strings.Split(shape, "/")
	for i, segment := range segments {
		if segment == placeholder {
			name++
			segments[i] = "{" + string(name) + "}"
		}
	}
	return Parse(strings.Join(segments, "/"))
}

// readSegments checks the segments and replaces those in braces by placeholder.
func (p *Pattern) readSegments() error {
	var names []string
	for i, segment := range p.segments {
		name, braced := strings.CutPrefix(segment, "{")
		name, closed := strings.CutSuffix(name, "}")
		switch {
		case !Is(segment):
			if why := plainFault(segment, i == len(p.segments)-1); why != "" {
				return errors.New(why)
			}
			continue
		case !braced || !closed || !validName(name):
			return fmt.Errorf("the segment %.64q is not a placeholder: write it like {tenant}, as a whole segment with a name of letters, digits, - and _", segment)
		case slices.Contains(names, name):
			return fmt.Errorf("the placeholder {%s} is there twice", name)
		}
		names, p.segments[i] = append(names, name), placeholder
	}
	switch {
	case len(names) == 0:
		return errors.New("it has no placeholder such as {tenant}")
	case len(names) > maxPlaceholders:
		return fmt.Errorf("it has more than %d placeholders", maxPlaceholders)
	}
	return nil
}

func plainFault(segment string, last bool) string {
	switch {
	case segment == "" && !last:
		return "the path of a pattern must not have an empty segment"
	case segment == "." || segment == "..":
		return "the path of a pattern must not have a dot segment"
	case strings.Contains(segment, "%"):
		return "the path of a pattern must not have percent-encoding"
	case strings.ContainsAny(segment, "?#"):
		return "a pattern must not have a query or a fragment"
	}
	return ""
}

func validName(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, func(c rune) bool { return !unreserved(c) || c == '.' || c == '~' })
}

func unreserved(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// validValue reports whether a placeholder matches a segment.
func validValue(segment string) bool {
	if segment == "" || len(segment) > maxValue || segment == "." || segment == ".." {
		return false
	}
	for i := range len(segment) {
		if !unreserved(rune(segment[i])) {
			return false
		}
	}
	return true
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.raw }

// Shape returns the pattern with {} for each placeholder. Two patterns of one shape match the
// same URIs.
func (p Pattern) Shape() string { return p.base + "/" + strings.Join(p.segments, "/") }

// Match reports whether a URI matches. The URI must be in canonical form.
func (p Pattern) Match(uri string) bool {
	base, path, ok := split(uri)
	if !ok || base != p.base {
		return false
	}
	for i, want := range p.segments {
		segment, rest, more := strings.Cut(path, "/")
		if !matches(want, segment) || more != (i < len(p.segments)-1) {
			return false
		}
		path = rest
	}
	return len(p.segments) > 0
}

func matches(want, segment string) bool {
	if want == placeholder {
		return validValue(segment)
	}
	return want == segment
}

// split returns the scheme and authority of a URI, and its path without the first slash. It
// fails for a URI without a path.
func split(uri string) (base, path string, ok bool) {
	scheme := strings.Index(uri, "://")
	if scheme < 0 {
		return "", "", false
	}
	slash := strings.IndexByte(uri[scheme+3:], '/')
	if slash < 0 {
		return "", "", false
	}
	end := scheme + 3 + slash
	return uri[:end], uri[end+1:], true
}
