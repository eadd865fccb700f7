package schema

import (
	"fmt"
	"math/bits"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxPatternBytes = 4 << 10
	maxPatternSize  = 8 << 10
)

// pattern is a regular expression whose work is counted.
type pattern struct {
	*regexp.Regexp
	size  int
	meter *meter
}

// MatchString reports whether the pattern matches anywhere in s.
func (p *pattern) MatchString(s string) bool {
	// The time of a match is proportional to both sizes.
	p.meter.charge(1 + len(s)*p.size/256)
	return p.Regexp.MatchString(s)
}

// patterns returns the engine for all patterns of a schema. It refuses a pattern that Go's
// regexp does not support, rather than approximate it.
func patterns(m *meter) jsonschema.RegexpEngine {
	return func(text string) (jsonschema.Regexp, error) {
		size, err := patternSize(text)
		if err != nil {
			return nil, err
		}
		compiled, err := regexp.Compile(text)
		if err != nil {
			return nil, unsupportedPattern(text, err)
		}
		return &pattern{Regexp: compiled, size: size, meter: m}, nil
	}
}

// patternSize estimates the size of a compiled pattern without compiling it.
func patternSize(text string) (int, error) {
	if len(text) > maxPatternBytes {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrPattern, maxPatternBytes)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, unsupportedPattern(text, err)
	}
	size := expanded(tree)
	if size > maxPatternSize {
		return 0, fmt.Errorf("%w: %q repeats too much", ErrPattern, cut(text))
	}
	return size, nil
}

func unsupportedPattern(text string, err error) error {
	return fmt.Errorf("%w: %q: %w (RE2 syntax has neither lookarounds nor back-references)", ErrPattern, cut(text), err)
}

// expanded counts the nodes of a pattern with its repetitions written out.
func expanded(tree *syntax.Regexp) int {
	n := 1 + bits.Len(uint(len(tree.Rune))) // a class takes a binary search
	if tree.Op == syntax.OpLiteral {
		n = len(tree.Rune)
	}
	for _, sub := range tree.Sub {
		n += expanded(sub)
	}
	if tree.Op == syntax.OpRepeat {
		n *= max(tree.Min, tree.Max, 1)
	}
	return min(n, 2*maxPatternSize)
}
