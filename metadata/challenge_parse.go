package metadata

import (
	"errors"
	"fmt"
	"strings"
)

// ErrChallenge reports that a WWW-Authenticate header cannot be parsed. Errors of
// [ParseChallenges] wrap it.
var ErrChallenge = errors.New("not a well-formed challenge")

// maxChallenges bounds the challenges of one response, and maxChallengeBytes the length of a
// header line.
const (
	maxChallenges     = 32
	maxChallengeBytes = 16 << 10
)

// ParseChallenges parses all values of the WWW-Authenticate header of a response. One
// value may hold several challenges, and a challenge may have parameters, a token68
// or nothing after its scheme (RFC 9110 section 11.6.1). Empty list elements are
// ignored (RFC 9110 section 5.6.1.2). A parameter that occurs twice in a challenge
// (section 11.2) is an error. The error wraps [ErrChallenge]; no challenges are returned
// with it.
func ParseChallenges(headers []string) ([]Challenge, error) {
	var all []Challenge
	for _, header := range headers {
		if len(header) > maxChallengeBytes {
			return nil, fmt.Errorf("metadata: %w: it is longer than %d bytes", ErrChallenge, maxChallengeBytes)
		}
		p := challengeParser{rest: header}
		for p.more() {
			c, err := p.challenge()
			if err != nil {
				return nil, fmt.Errorf("metadata: %w: %s, before %q", ErrChallenge, err, excerpt(p.rest))
			}
			if all = append(all, c); len(all) > maxChallenges {
				return nil, fmt.Errorf("metadata: %w: there are more than %d", ErrChallenge, maxChallenges)
			}
		}
	}
	return all, nil
}

func excerpt(s string) string {
	const most = 24
	return s[:min(len(s), most)]
}

// challengeParser parses one header value from left to right.
type challengeParser struct{ rest string }

// more skips empty list elements and reports whether anything is left.
func (p *challengeParser) more() bool {
	p.rest = strings.TrimLeft(p.rest, " \t,")
	return p.rest != ""
}

func (p *challengeParser) challenge() (Challenge, error) {
	scheme := p.token()
	if scheme == "" {
		return Challenge{}, errors.New("a scheme is missing")
	}
	c := Challenge{Scheme: scheme}
	if p.atEnd() {
		return c, nil
	}
	if p.space() == 0 {
		return Challenge{}, errors.New("a space must follow the scheme")
	}
	if value, ok := p.token68(); ok {
		c.Params = []Param{{Value: value}}
		return c, nil
	}
	return c, p.params(&c)
}

// params reads name=value pairs up to the next challenge or the end.
func (p *challengeParser) params(c *Challenge) error {
	for {
		before := p.rest
		name := p.token()
		p.space()
		if name == "" || !strings.HasPrefix(p.rest, "=") {
			if len(c.Params) == 0 {
				return errors.New("a parameter must have a name and a value")
			}
			p.rest = before // the scheme of the next challenge
			return nil
		}
		p.rest = p.rest[1:]
		p.space()
		value, err := p.value()
		switch {
		case err != nil:
			return err
		case named(c.Params, name):
			// RFC 9110 section 11.2: each parameter name MUST only occur once per challenge.
			return fmt.Errorf("the parameter %s occurs twice", name)
		case !p.atEnd():
			return errors.New("a comma must follow a parameter")
		}
		c.Params = append(c.Params, Param{Name: name, Value: value})
		if !p.more() {
			return nil
		}
	}
}

// atEnd reports whether a list element ends here: at a comma or at the end.
func (p *challengeParser) atEnd() bool {
	rest := strings.TrimLeft(p.rest, " \t")
	return rest == "" || rest[0] == ','
}

// space skips optional whitespace and returns how much there was.
func (p *challengeParser) space() int {
	before := len(p.rest)
	p.rest = strings.TrimLeft(p.rest, " \t")
	return before - len(p.rest)
}

func (p *challengeParser) token() string {
	n := 0
	for n < len(p.rest) && tokenByte(p.rest[n]) {
		n++
	}
	token := p.rest[:n]
	p.rest = p.rest[n:]
	return token
}

// token68 reads a token68, which must be the rest of its list element. "a=" is a token68,
// because a parameter cannot have an empty value without quotes.
func (p *challengeParser) token68() (string, bool) {
	n := 0
	for n < len(p.rest) && token68Byte(p.rest[n]) {
		n++
	}
	if n == 0 {
		return "", false
	}
	for n < len(p.rest) && p.rest[n] == '=' {
		n++
	}
	after := challengeParser{rest: p.rest[n:]}
	if !after.atEnd() {
		return "", false
	}
	value := p.rest[:n]
	p.rest = after.rest
	return value, true
}

func (p *challengeParser) value() (string, error) {
	if strings.HasPrefix(p.rest, `"`) {
		return p.quoted()
	}
	if value := p.token(); value != "" {
		return value, nil
	}
	return "", errors.New("a value is missing")
}

// quoted reads a quoted-string (RFC 9110 section 5.6.4).
func (p *challengeParser) quoted() (string, error) {
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		c := p.rest[i]
		switch {
		case c == '"':
			p.rest = p.rest[i+1:]
			return b.String(), nil
		case c == '\\' && i+1 < len(p.rest):
			i++
			c = p.rest[i]
		}
		if c < ' ' && c != '\t' || c == 0x7f {
			return "", errors.New("a value has a control character")
		}
		b.WriteByte(c)
	}
	return "", errors.New("a quoted value does not end")
}
