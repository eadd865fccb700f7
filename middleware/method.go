package middleware

import (
	"errors"
	"slices"
	"strings"

	"gatehouse.example/internal/wildcard"
)

// judgedMethods are the methods whose parameters are checked, or whose results are filtered. A
// server that accepts another spelling of one of them would bypass that.
var judgedMethods = [...]string{
	"tools/list", "tools/call", "prompts/list", "prompts/get", "completion/complete", "subscriptions/listen",
	"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
}

// maxMethod is the maximum size of the name of a method, in bytes.
const maxMethod = 256

var (
	errMethod        = errors.New("method: it must be written as methods are: ASCII letters, digits, and - _ . : $ between single slashes")
	errMethodUnclear = errors.New("method: it differs from one that this server judges only in case or in what separates words")
)

// unclear returns an error for a method that some server could read as another one. Some servers
// compare the names of methods byte for byte; others trim, fold, route or decode them first.
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
	folded := foldMethod(method)
	for _, read := range []string{folded, strings.Trim(folded, "/")} {
		if slices.ContainsFunc(p.folded.Match(&v, read), func(at int) bool { return !slices.Contains(written, at) }) {
			return errMethodUnclear
		}
	}
	return nil
}

// foldPatterns applies [foldMethod] to the patterns of rules, and keeps their order.
func foldPatterns(of rules) *wildcard.Set {
	var out []string
	if len(of) > 0 {
		for _, r := range of[asWritten].rules {
			out = append(out, foldMethod(r.pattern))
		}
	}
	return wildcard.New(out)
}

// ValidMethodPattern returns an error for a key of [Policy.Methods] that can match no method,
// because the guard refuses such spellings of methods before it applies the policy.
func ValidMethodPattern(pattern string) error {
	if !isMethod(strings.ReplaceAll(pattern, "*", "x")) {
		return errMethod
	}
	return unlikeJudged(pattern)
}

// unlikeJudged returns an error for another spelling of a method in judgedMethods.
func unlikeJudged(method string) error {
	folded := strings.Trim(foldMethod(method), "/")
	for _, judged := range judgedMethods {
		if method != judged && folded == foldMethod(judged) {
			return errMethodUnclear
		}
	}
	return nil
}

// isMethod reports whether a text has the syntax of methods.
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

// foldMethod returns a method, or a pattern of methods, in lowercase and with one slash for any
// number of separators, as a program could read it that ignores case and looks for words only.
func foldMethod(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := range len(s) {
		c := s[i]
		switch {
		case 'A' <= c && c <= 'Z':
			b.WriteByte(c + 'a' - 'A')
		case strings.IndexByte("-_.:$/", c) < 0:
			b.WriteByte(c)
		case i == 0 || strings.IndexByte("-_.:$/", s[i-1]) < 0:
			b.WriteByte('/')
		}
	}
	return b.String()
}
