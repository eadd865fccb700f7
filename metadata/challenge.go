package metadata

import "strings"

// Challenge is one challenge of a WWW-Authenticate header (RFC 9110 section 11.6.1).
type Challenge struct {
	Scheme string
	// Params are the parameters in their order on the wire. A challenge in the
	// token68 form (RFC 9110 section 11.2) has a single parameter without a name.
	Params []Param
}

// Param is an authentication parameter, with its value unquoted.
type Param struct{ Name, Value string }

// Get returns the value of a parameter, and whether it exists. Names are case-insensitive
// (RFC 9110 section 11.2).
func (c Challenge) Get(name string) (string, bool) {
	for _, p := range c.Params {
		if strings.EqualFold(p.Name, name) {
			return p.Value, true
		}
	}
	return "", false
}

// Is reports whether the challenge has the scheme. Schemes are case-insensitive (RFC 9110
// section 11.1).
func (c Challenge) Is(scheme string) bool { return strings.EqualFold(c.Scheme, scheme) }

// String formats the challenge for a WWW-Authenticate header. The result never extends beyond
// the header line or a quoted-string: a scheme that is not a token gives the empty string, a
// parameter whose name is not a token or occurs a second time is left out, and bytes that are
// not allowed in a value are replaced (RFC 6750 section 3). Every value is a quoted-string.
func (c Challenge) String() string {
	if !isToken(c.Scheme) {
		return ""
	}
	if len(c.Params) == 1 && c.Params[0].Name == "" {
		if isToken68(c.Params[0].Value) {
			return c.Scheme + " " + c.Params[0].Value
		}
		return c.Scheme
	}
	var b strings.Builder
	b.WriteString(c.Scheme)
	separator := " "
	for i, p := range c.Params {
		if !isToken(p.Name) || named(c.Params[:i], p.Name) {
			continue
		}
		b.WriteString(separator)
		b.WriteString(p.Name)
		b.WriteByte('=')
		writeQuoted(&b, p)
		separator = ", "
	}
	return b.String()
}

func named(params []Param, name string) bool {
	_, found := Challenge{Params: params}.Get(name)
	return found
}

// writeQuoted writes a value as a quoted-string (RFC 9110 section 5.6.4). Control
// characters become spaces, and bytes outside ASCII question marks.
func writeQuoted(b *strings.Builder, p Param) {
	strict := strictValue(p.Name)
	b.WriteByte('"')
	for i := range len(p.Value) {
		switch c := p.Value[i]; {
		case c < ' ' || c == 0x7f:
			b.WriteByte(' ')
		case c > 0x7f:
			b.WriteByte('?')
		case c == '"' && strict:
			b.WriteByte('\'')
		case c == '\\' && strict:
			b.WriteByte('/')
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
}

// strictValue reports whether the value of a parameter MUST NOT hold a quote or a backslash
// (RFC 6750 section 3: scope, error, error_description and error_uri).
func strictValue(name string) bool {
	switch strings.ToLower(name) {
	case "scope", "error", "error_description", "error_uri":
		return true
	}
	return false
}

// isToken reports whether s is a token (RFC 9110 section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		if !tokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}

func tokenByte(c byte) bool {
	return alphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// isToken68 reports whether s is a token68 (RFC 9110 section 11.2).
func isToken68(s string) bool {
	body := strings.TrimRight(s, "=")
	for i := range len(body) {
		if !token68Byte(body[i]) {
			return false
		}
	}
	return body != ""
}

func token68Byte(c byte) bool {
	return alphanumeric(c) || strings.IndexByte("-._~+/", c) >= 0
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
