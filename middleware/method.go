package middleware

import (
	"errors"
	"slices"
	"strings"

	"gatehouse.example/internal/wildcard"
)

// judgedMethods are the methods whose parameters are looked at, or whose answers are
// filtered: whoever takes another spelling for one of them would get around that.
var judgedMethods = [...]string{
	"tools/list", "tools/call", "prompts/list", "prompts/get", "completion/complete", "subscriptions/listen",
	"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
}

// maxMethod bounds the name of a method, in bytes.
const maxMethod = 256

var (
	errMethod        = errors.New("method: it must be written as methods are: ASCII letters, digits, and - _ . : $ between single slashes")
	errMethodUnclear = errors.New("method: it differs from one that this server judges only in case or in what separates words")
)

// unclear refuses a method that some server could read as another one. Servers compare the
// names of methods byte for byte, or trim, fold, route and decode them first.
func (p *policy) unclear(method string) error {
	if !isMethod(method) {
		return errMethod
	}
	if err := unlikeJudged(method); err != nil {
		return err
	}
	if len(p.methods) == 0 {
		return nil
	}
	var w, v wildcard.Work
	written, rules := p.methods[asWritten].set.Match(&w, method), p.methods[asWritten].rules
	if slices.ContainsFunc(written, func(at int) bool { return rules[at].pattern == method }) {
		return nil
	}
	for _, at := range p.folded.Match(&v, foldMethod(method)) {
		if !slices.Contains(written, at) {
			return errMethodUnclear
		}
	}
	return nil
}

// foldPatterns returns patterns of methods as [foldMethod] leaves them, each at its place.
func foldPatterns(of rules) *wildcard.Set {
	var out []string
	if len(of) > 0 {
		for _, r := range of[asWritten].rules {
			out = append(out, foldMethod(r.pattern))
		}
	}
	return wildcard.New(out)
}

// ValidMethodPattern returns why no method would ever fit a name in [Policy.Methods], nil for a
// name that could count: the guard refuses methods in other spellings before the policy.
func ValidMethodPattern(pattern string) error {
	if !isMethod(strings.ReplaceAll(pattern, "*", "x")) {
		return errMethod
	}
	return unlikeJudged(pattern)
}

// unlikeJudged refuses what folds to a method that is judged and is not that method.
func unlikeJudged(method string) error {
	folded := foldMethod(method)
	for _, judged := range judgedMethods {
		if method != judged && folded == foldMethod(judged) {
			return errMethodUnclear
		}
	}
	return nil
}

// isMethod reports whether a text is written as methods are.
func isMethod(s string) bool {
	if s == "" || len(s) > maxMethod {
		return false
	}
	for segment := range strings.SplitSeq(s, "/") {
		if strings.Trim(segment, ".") == "" {
			return false
		}
		for i := range len(segment) {
			if c := segment[i]; !alphanumeric(c) && strings.IndexByte("-_.:$", c) < 0 {
				return false
			}
		}
	}
	return true
}

// foldMethod is a method, or a pattern of some, as it would look to a program to which case
// counts for nothing, and everything that separates words is the same.
func foldMethod(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'A' <= c && c <= 'Z':
			return c + 'a' - 'A'
		case strings.ContainsRune("-_.:$", c):
			return '/'
		}
		return c
	}, s)
}
