package middleware

import (
	"errors"
	"net/url"
	"strings"
)

var errURI = errors.New("uri: it is not in its normal form (RFC 3986 section 6.2): no dot segments, no capitals in scheme and host, nothing escaped that need not be")

// plainURI knows the one spelling of a URI. The policy compares URIs as they are written,
// and a server might bring them into a normal form first.
func plainURI(uri string) bool {
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok || scheme != strings.ToLower(scheme) || !plainText(rest) {
		return false
	}
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != scheme {
		return false
	}
	if hierarchical := strings.HasPrefix(rest, "/"); hierarchical && !plainAuthority(u, rest) {
		return false
	}
	hierarchy := rest
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		hierarchy = rest[:end]
	}
	for segment := range strings.SplitSeq(hierarchy, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return !strings.Contains(u.Path, "//")
}

// plainAuthority wants "//" even before an empty host, no user, and no host or port that
// says what would be so without it.
func plainAuthority(u *url.URL, rest string) bool {
	host, port := u.Hostname(), u.Port()
	switch {
	case !strings.HasPrefix(rest, "//") || u.User != nil || u.Host != strings.ToLower(u.Host):
		return false
	case strings.HasSuffix(u.Host, ":") || strings.HasSuffix(host, "."):
		return false
	case u.Scheme == "file":
		return u.Host == ""
	case u.Scheme == "https":
		return port != "443" && u.Path != ""
	case u.Scheme == "http":
		return port != "80" && u.Path != ""
	}
	return true
}

// plainText wants each character escaped if it cannot stand for itself, and only then, in
// capital digits. Braces stand for themselves, because templates of URIs have them.
func plainText(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '%':
			if i+2 >= len(s) || !plainEscape(s[i+1], s[i+2]) {
				return false
			}
			i += 2
		case !alphanumeric(c) && strings.IndexByte("-._~!$&'()*+,;=:@/?#[]{}", c) < 0:
			return false
		}
	}
	return true
}

// plainEscape reports whether two digits stand for something that must be escaped and that
// nobody takes for something else: a byte of other text, or one of few characters.
func plainEscape(high, low byte) bool {
	const digits = "0123456789ABCDEF"
	h, l := strings.IndexByte(digits, high), strings.IndexByte(digits, low)
	value := byte(h<<4 | l)
	return h >= 0 && l >= 0 && (value >= 0x80 || strings.IndexByte(" \"<>^`|?#[]", value) >= 0)
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
