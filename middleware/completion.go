package middleware

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"gatehouse.example/internal/wildcard"
	"gatehouse.example/message"
)

// completing is the method that asks for values of a variable, and completed the member of its result.
const (
	completing       = "completion/complete"
	completionMember = "completion"
)

// completion is what a client wants completed: a variable of a template of resources (MCP, Completion).
type completion struct {
	template, variable string
	known              map[string]string // the values of other variables
}

// completionIn reads what the parameters of [completing] ask for. Where they are not as the protocol says,
// the variable is empty, which no template has. The error is for parameters that readers could interpret
// differently.
func completionIn(params message.Object) (*completion, error) {
	c := &completion{known: map[string]string{}}
	for _, read := range [...]struct {
		within, member string
		into           any
	}{{"ref", "uri", &c.template}, {"argument", "name", &c.variable}, {"context", "arguments", &c.known}} {
		value, err := memberOf(params, read.within, read.member)
		switch {
		case err != nil:
			return nil, err
		case value != nil && json.Unmarshal(value, read.into) != nil:
			return &completion{}, nil
		}
	}
	return c, nil
}

// memberOf returns a member of an object that is a member itself, nil if there is none.
func memberOf(params message.Object, within, member string) (json.RawMessage, error) {
	value, err := params.Member(within)
	if err != nil || value == nil {
		return nil, err
	}
	inner, err := message.NewObject(value)
	if err != nil {
		return nil, nil // another value has no members
	}
	return inner.Member(member)
}

// uri returns the URI that a value of the variable leads to, written by escape. Variables without a known
// value stay as they are. It returns false if the template has no such variable, or is none of RFC 6570
// without prefixes, and for a URI that is longer than any that a message may name: a template can have one
// long value a thousand times.
func (c *completion) uri(value string, escape func(string) string) (uri string, ok bool) {
	var b strings.Builder
	for rest, found := c.template, false; ; {
		literal, after, more := strings.Cut(rest, "{")
		b.WriteString(literal)
		if !more {
			return b.String(), found && !strings.Contains(literal, "}")
		}
		expression, after, closed := strings.Cut(after, "}")
		if !closed || expression == "" || strings.ContainsAny(expression, "{:") || strings.Contains(literal, "}") {
			return "", false
		}
		rest = after
		if found = c.expand(&b, expression, value, escape) || found; b.Len() > maxNames {
			return "", false
		}
	}
}

// operator says how an expression of a template is written (RFC 6570 section 3.2.1).
type operator struct {
	first, between string
	named, raw     bool
}

var operators = map[byte]operator{
	'+': {"", ",", false, true}, '#': {"#", ",", false, true}, '.': {".", ".", false, false}, '/': {"/", "/", false, false},
	';': {";", ";", true, false}, '?': {"?", "&", true, false}, '&': {"&", "&", true, false},
}

// expand writes an expression with a value for the variable, and reports whether the expression has it. It
// stops when too much is written.
func (c *completion) expand(b *strings.Builder, expression, value string, escape func(string) string) (has bool) {
	op, special := operators[expression[0]]
	if special {
		expression = expression[1:]
	} else {
		op.between = ","
	}
	before := op.first
	for name := range strings.SplitSeq(expression, ",") {
		name = strings.TrimSuffix(name, "*")
		text, known := c.known[name]
		if name == c.variable {
			text, known, has = value, true, true
		}
		text = text[:min(len(text), maxNames+1)]
		b.WriteString(before)
		before = op.between
		if op.named {
			b.WriteString(name + "=")
		}
		switch {
		case !known:
			b.WriteString("{" + name + "}")
		case op.raw:
			b.WriteString(text)
		default:
			b.WriteString(escape(text))
		}
		if b.Len() > maxNames {
			break
		}
	}
	return has
}

// completion leaves in a result the values that lead to resources which the client may see, and reports
// whether there was a completion. On a stream that repeats responses, and in the answer to another request,
// it is not known what was asked for, so no value is left.
func (l lister) completion(w *wildcard.Work, result message.Object, members map[string]json.RawMessage) (found bool, err error) {
	if l.got.completion == nil && (l.got.Method == completing || !l.guard.filters(resourceList)) {
		return false, nil
	}
	raw, err := result.Member(completionMember)
	if err != nil || raw == nil {
		return false, err
	}
	members[completionMember], err = l.values(w, raw)
	return true, err
}

// values returns a completion without the values that are hidden. It has no total if that could count them.
func (l lister) values(w *wildcard.Work, raw json.RawMessage) (json.RawMessage, error) {
	o, err := message.NewObject(raw)
	if err != nil {
		return nil, err
	}
	offered, err := o.Member("values")
	if err != nil {
		return nil, err
	}
	var values []string
	members := map[string]json.RawMessage{}
	if err := errors.Join(json.Unmarshal(offered, &values), o.Decode(&members)); err != nil {
		return nil, err
	}
	seen := make([]string, 0, len(values))
	for _, value := range values {
		if w.Steps > maxListSteps {
			return nil, errListWork
		}
		if l.completes(w, value) {
			seen = append(seen, value)
		}
	}
	if len(seen) < len(values) || string(members["hasMore"]) != "false" {
		delete(members, "total")
	}
	if members["values"], err = json.Marshal(seen); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// completes reports whether the client may see a value: some clients escape it in the URI, others do not.
func (l lister) completes(w *wildcard.Work, value string) bool {
	if l.got.completion == nil {
		return false
	}
	for _, escape := range [...]func(string) string{url.PathEscape, strings.Clone} {
		w.Steps += len(l.got.completion.template)
		uri, ok := l.got.completion.uri(value, escape)
		if !ok {
			return false
		}
		if _, seen := l.sees(w, resourceURI, uri); !seen {
			return false
		}
	}
	return true
}
