package middleware

import (
	"strings"
	"time"
)

// scanClaims reads the simple JSON that claims almost always are: one object of printable ASCII
// strings without escapes, whole numbers, literals, and arrays of such strings. It returns false
// for everything else, also for a name that occurs twice; the caller then uses the full decoder.
// It is faster than the decoder, and accepts nothing that the decoder refuses or reads
// differently.
func scanClaims(text string, c *jwtClaims) bool {
	s := scanner{rest: text}
	if !s.take('{') {
		return false
	}
	for {
		name, ok := s.text()
		if !ok || !s.first(name) || !s.take(':') || !s.claim(name, c) {
			return false
		}
		if s.take('}') {
			break
		}
		if !s.take(',') {
			return false
		}
	}
	s.space()
	return s.rest == ""
}

// scanner holds the rest of a text, and the names that it has read.
type scanner struct {
	rest  string
	names [24]string
	count int
}

// first reports whether a name occurs for the first time. It returns false when there are too
// many names to remember.
func (s *scanner) first(name string) bool {
	for _, other := range s.names[:s.count] {
		if other == name {
			return false
		}
	}
	if s.count == len(s.names) {
		return false
	}
	s.names[s.count] = name
	s.count++
	return true
}

// claim reads the value of a member.
func (s *scanner) claim(name string, c *jwtClaims) (ok bool) {
	switch name {
	case "iss":
		c.Issuer, ok = s.text()
	case "sub":
		c.Subject, ok = s.text()
	case "client_id":
		c.ClientID, ok = s.text()
	case "aud":
		c.Audience, ok = s.texts()
	case "scope":
		c.Scope, ok = s.text()
	case "jti":
		c.ID, ok = s.text()
	case "exp":
		c.Expiry, ok = s.time()
	case "nbf":
		c.NotBefore, ok = s.time()
	case "iat":
		c.IssuedAt, ok = s.time()
	case "cnf":
		return false // left to the decoder: a token with "cnf" is refused
	default:
		ok = s.skip()
	}
	return ok
}

// skip reads a value that is not needed.
func (s *scanner) skip() bool {
	s.space()
	for _, literal := range [...]string{"true", "false", "null"} {
		if rest, ok := strings.CutPrefix(s.rest, literal); ok {
			s.rest = rest
			return true
		}
	}
	if _, ok := s.number(); ok {
		return true
	}
	if strings.HasPrefix(s.rest, "[") {
		_, ok := s.texts()
		return ok
	}
	_, ok := s.text()
	return ok
}

// texts reads a string or a non-empty array of strings.
func (s *scanner) texts() (out []string, ok bool) {
	if !s.take('[') {
		one, ok := s.text()
		return []string{one}, ok
	}
	for {
		one, ok := s.text()
		if !ok {
			return nil, false
		}
		out = append(out, one)
		if s.take(']') {
			return out, true
		}
		if !s.take(',') {
			return nil, false
		}
	}
}

// text reads a string.
func (s *scanner) text() (string, bool) {
	if !s.take('"') {
		return "", false
	}
	end := strings.IndexByte(s.rest, '"')
	if end < 0 {
		return "", false
	}
	out := s.rest[:end]
	for i := range len(out) {
		if c := out[i]; c < ' ' || c > '~' || c == '\\' {
			return "", false
		}
	}
	s.rest = s.rest[end+1:]
	return out, true
}

// time reads whole seconds.
func (s *scanner) time() (timestamp, bool) {
	s.space()
	seconds, ok := s.number()
	if !ok || seconds >= yearTenThousand {
		return timestamp{}, false
	}
	return timestamp{time.Unix(seconds, 0)}, true
}

// number reads up to 15 digits that do not begin with a zero.
func (s *scanner) number() (n int64, ok bool) {
	end := 0
	for end < len(s.rest) && end < 15 && '0' <= s.rest[end] && s.rest[end] <= '9' {
		n = n*10 + int64(s.rest[end]-'0')
		end++
	}
	if end == 0 || s.rest[0] == '0' {
		return 0, false
	}
	s.rest = s.rest[end:]
	return n, true
}

// take reads one character, after white space.
func (s *scanner) take(c byte) bool {
	s.space()
	if s.rest == "" || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// space reads white space (RFC 8259 section 2).
func (s *scanner) space() {
	for s.rest != "" && (s.rest[0] == ' ' || s.rest[0] == '\n' || s.rest[0] == '\r' || s.rest[0] == '\t') {
		s.rest = s.rest[1:]
	}
}
