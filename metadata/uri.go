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
// than http and https, and bytes outside printable ASCII are errors.
func Canonical(raw string) (string, error) {
	u, err := parseAbsolute(raw)
	if err != nil {
		return "", err
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("metadata: %w: the scheme must be https or http", ErrResourceURI)
	}
	host, err := canonicalHost(u)
	if err != nil {
		return "", err
	}
	path := u.EscapedPath()
	if path == "/" && u.RawQuery == "" && !u.ForceQuery {
		path = ""
	}
	out := u.Scheme + "://" + host + path
	if u.RawQuery != "" || u.ForceQuery {
		out += "?" + u.RawQuery
	}
	return out, nil
}

func parseAbsolute(raw string) (*url.URL, error) {
	switch {
	case raw == "":
		return nil, fmt.Errorf("metadata: %w: it is empty", ErrResourceURI)
	case len(raw) > maxURI:
		return nil, fmt.Errorf("metadata: %w: it is longer than %d bytes", ErrResourceURI, maxURI)
	case !printableASCII(raw):
		return nil, fmt.Errorf("metadata: %w: it holds a character that must be percent-encoded", ErrResourceURI)
	case strings.Contains(raw, "#"):
		// RFC 8707 section 2: the URI MUST NOT include a fragment component.
		return nil, fmt.Errorf("metadata: %w: it must not have a fragment", ErrResourceURI)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("metadata: %w: it cannot be parsed", ErrResourceURI)
	case u.Scheme == "" || u.Host == "" || u.Opaque != "":
		// RFC 8707 section 2: the value MUST be an absolute URI.
		return nil, fmt.Errorf("metadata: %w: it must be absolute, with a scheme and a host", ErrResourceURI)
	case u.User != nil:
		return nil, fmt.Errorf("metadata: %w: it must not carry user information", ErrResourceURI)
	}
	return u, nil
}

// canonicalHost returns host[:port] in lowercase and without a default port.
func canonicalHost(u *url.URL) (string, error) {
	host := strings.ToLower(u.Hostname())
	if host == "" || strings.ContainsAny(host, "%\\ \"<>^`{|}") {
		return "", fmt.Errorf("metadata: %w: the host is not valid", ErrResourceURI)
	}
	port := u.Port()
	if strings.HasSuffix(u.Host, ":") || (port != "" && !validPort(port)) {
		return "", fmt.Errorf("metadata: %w: the port must be a number from 1 to 65535", ErrResourceURI)
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port == "" || (u.Scheme == "http" && port == "80") || (u.Scheme == "https" && port == "443") {
		return host, nil
	}
	return host + ":" + port, nil
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
	canonical, err := Canonical(raw)
	if err != nil {
		return fmt.Errorf("metadata: issuer: %w", err)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return fmt.Errorf("metadata: issuer: %w", err)
	case u.RawQuery != "" || u.ForceQuery:
		return errors.New("metadata: issuer: it must not have a query")
	case strings.HasSuffix(raw, "/"):
		return errors.New("metadata: issuer: it must not end in a slash")
	case canonical != raw:
		return fmt.Errorf("metadata: issuer: write it in its canonical form, %s", canonical)
	case strings.Contains(u.EscapedPath(), "//") || strings.Contains(u.EscapedPath(), "/.") || strings.Contains(u.EscapedPath(), "%"):
		return errors.New("metadata: issuer: the path must be plain, without empty, dot or escaped segments")
	case u.Scheme == "http" && !IsLoopbackHost(u.Hostname()):
		// The seed, Security requirements 3: all endpoints MUST be served over HTTPS.
		return errors.New("metadata: issuer: it must be https unless the host is loopback")
	}
	return nil
}
