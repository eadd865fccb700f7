package metadata

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// ErrResourceURI says that a string is not usable as a resource identifier.
// Errors returned by [Canonical] wrap it.
var ErrResourceURI = errors.New("not a valid resource URI")

// maxURI bounds every URI that is parsed here, in bytes.
const maxURI = 2048

// Canonical returns the canonical form of a resource URI: an absolute http or
// https URI with a host and without a fragment (RFC 8707 section 2). Scheme and
// host become lowercase, a default port is dropped, and an empty path and "/" are
// one: the form without the slash is canonical. No other path is folded, so
// "/mcp" and "/mcp/" stay two resources.
//
// User information, a fragment (even an empty one), a relative URI, a scheme other
// than http and https, a host with percent-encoding, and bytes that no URI holds are
// errors.
func Canonical(raw string) (string, error) {
	canonical, why := canonical(raw)
	if why != "" {
		return "", fmt.Errorf("metadata: %w: %s", ErrResourceURI, why)
	}
	return canonical, nil
}

// canonical does the work of [Canonical]. Its second result says what is wrong.
func canonical(raw string) (string, string) {
	u, why := parseAbsolute(raw)
	if why != "" {
		return "", why
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return "", "the scheme must be https or http"
	}
	host, why := canonicalHost(u)
	if why != "" {
		return "", why
	}
	path := u.EscapedPath()
	if path == "/" && u.RawQuery == "" && !u.ForceQuery {
		path = ""
	}
	out := u.Scheme + "://" + host + path
	if u.RawQuery != "" || u.ForceQuery {
		out += "?" + u.RawQuery
	}
	return out, ""
}

func parseAbsolute(raw string) (*url.URL, string) {
	switch {
	case raw == "":
		return nil, "it is empty"
	case len(raw) > maxURI:
		return nil, fmt.Sprintf("it is longer than %d bytes", maxURI)
	case strings.Contains(raw, "#"):
		// RFC 8707 section 2: the URI MUST NOT include a fragment component.
		return nil, "it must not have a fragment"
	case !printableASCII(raw) || strings.ContainsAny(raw, notInURI):
		return nil, "it holds a character that must be percent-encoded"
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, "it cannot be parsed"
	case u.Scheme == "" || u.Host == "" || u.Opaque != "":
		// RFC 8707 section 2: the value MUST be an absolute URI.
		return nil, "it must be absolute, with a scheme and a host"
	case u.User != nil:
		return nil, "it must not carry user information"
	}
	return u, ""
}

// notInURI are the printable characters that no URI holds (RFC 3986 section 2).
const notInURI = "\\\"<>^`{|}"

// canonicalHost returns host[:port] in lowercase and without a default port.
func canonicalHost(u *url.URL) (string, string) {
	host := strings.ToLower(u.Hostname())
	if !validHost(u.Host, host) {
		return "", "the host is not valid"
	}
	if strings.HasPrefix(u.Host, "[") {
		host = "[" + host + "]"
	}
	if why := hostFault(host); why != "" {
		return "", why
	}
	port := u.Port()
	if strings.HasSuffix(u.Host, ":") || (port != "" && !validPort(port)) {
		return "", "the port must be a number from 1 to 65535"
	}
	if port == "" || (u.Scheme == "http" && port == "80") || (u.Scheme == "https" && port == "443") {
		return host, ""
	}
	return host + ":" + port, ""
}

// validHost looks at a host without its port, and at the authority that it was taken
// from. Brackets hold an IPv6 address without a zone (RFC 3986 section 3.2.2), and
// nothing else does. A name is ASCII: [url.Parse] has decoded percent-encoded bytes,
// and the encoded form of an international name is its A-label.
func validHost(authority, host string) bool {
	if strings.HasPrefix(authority, "[") {
		addr, err := netip.ParseAddr(host)
		return err == nil && addr.Is6() && addr.Zone() == ""
	}
	return host != "" && printableASCII(host) && !strings.ContainsAny(host, notInURI+"%:[]/?#@*") &&
		!strings.HasPrefix(host, ".") && !strings.Contains(host, "..")
}

// validPort accepts 1 to 65535 in its shortest decimal form.
func validPort(s string) bool {
	if s == "" || len(s) > 5 || s[0] == '0' {
		return false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
		n = n*10 + int(c-'0')
	}
	return n <= 65535
}

func printableASCII(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// IsLoopbackHost reports whether a host name without port is the name
// "localhost" or a loopback IP literal: 127.0.0.0/8 or ::1.
func IsLoopbackHost(host string) bool {
	return host == "localhost" || isLoopbackLiteral(host)
}

func isLoopbackLiteral(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && !addr.Is4In6() && addr.IsLoopback()
}

// ValidIssuer says whether a string can be an issuer identifier (RFC 8414 section
// 2): an https URL, or an http one on loopback, without query, fragment, user
// information or trailing slash, already in its canonical form. Issuers are compared
// byte for byte, so there must be one spelling.
func ValidIssuer(raw string) error {
	if why := issuerFault(raw); why != "" {
		return errors.New("metadata: issuer: " + why)
	}
	return nil
}

func issuerFault(raw string) string {
	canonical, why := canonical(raw)
	if why != "" {
		return why
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "it cannot be parsed"
	}
	path := u.EscapedPath()
	switch {
	case u.RawQuery != "" || u.ForceQuery:
		return "it must not have a query"
	case strings.HasSuffix(raw, "/"):
		return "it must not end in a slash"
	case canonical != raw:
		return "write it in its canonical form, " + canonical
	case strings.Contains(path, "//") || strings.Contains(path, "/.") || strings.Contains(path, "%"):
		return "the path must be plain, without empty, dot or escaped segments"
	case u.Scheme == "http" && !IsLoopbackHost(u.Hostname()):
		// Requirement R-SEC-3, RFC 8414 section 2: an issuer MUST be served over HTTPS.
		return "it must be https unless the host is loopback"
	}
	return ""
}
