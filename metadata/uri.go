package metadata

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// ErrResourceURI reports that a string cannot be a resource identifier. Errors of [Canonical]
// wrap it.
var ErrResourceURI = errors.New("not a valid resource URI")

// maxURI bounds every URI that this package parses, in bytes.
const maxURI = 2048

// Canonical returns the canonical form of a resource URI: an absolute http or https URI with a
// host and without a fragment (RFC 8707 section 2). Scheme and host become lowercase, a default
// port is dropped, and the path "/" becomes empty. No other path changes, so "/mcp" and "/mcp/"
// are two resources.
//
// A relative URI, user information, a fragment (even an empty one), a scheme other than http
// and https, a host with percent-encoding, and bytes that are not allowed in a URI are errors,
// which wrap [ErrResourceURI].
func Canonical(raw string) (string, error) {
	canonical, why := canonical(raw)
	if why != "" {
		return "", fmt.Errorf("metadata: %w: %s", ErrResourceURI, why)
	}
	return canonical, nil
}

// canonical is [Canonical] with the reason of an error, or "", as its second result.
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
	case !printableASCII(raw) || unescapedInURI.some(raw):
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

// notInURI are the printable characters that are not allowed in a URI (RFC 3986 section 2).
const notInURI = "\\\"<>^`{|}"

// characters is a set of ASCII characters.
type characters [256]bool

func charactersOf(list string) *characters {
	var c characters
	for i := range len(list) {
		c[list[i]] = true
	}
	return &c
}

// some reports whether some character of s is in c, and all whether all are.
func (c *characters) some(s string) bool {
	for i := range len(s) {
		if c[s[i]] {
			return true
		}
	}
	return false
}

func (c *characters) all(s string) bool {
	for i := range len(s) {
		if !c[s[i]] {
			return false
		}
	}
	return true
}

const lowerAndDigits = "abcdefghijklmnopqrstuvwxyz0123456789"

var (
	unescapedInURI      = charactersOf(notInURI)
	unescapedInRedirect = charactersOf(notInURI + "*")
	notInHost           = charactersOf(notInURI + "%:[]/?#@*")
	inLabel             = charactersOf(lowerAndDigits + "-_")
	decimal             = charactersOf("0123456789")
	lowerHex            = charactersOf("0123456789abcdef")
	inIPv4              = charactersOf("0123456789abcdefx")
)

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

// validHost reports whether host, without its port, is valid in authority. Brackets must hold
// an IPv6 address without a zone (RFC 3986 section 3.2.2), and IPv6 addresses must be in
// brackets. A name must be ASCII: [url.Parse] has decoded percent-encoded bytes, and an
// international name is written as its A-label.
func validHost(authority, host string) bool {
	if strings.HasPrefix(authority, "[") {
		addr, err := netip.ParseAddr(host)
		return err == nil && addr.Is6() && addr.Zone() == ""
	}
	return host != "" && printableASCII(host) && !notInHost.some(host) &&
		!strings.HasPrefix(host, ".") && !strings.Contains(host, "..")
}

// validPort reports whether s is a number from 1 to 65535 in its shortest decimal form.
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

// IsLoopbackHost reports whether a host without port is the name localhost or a loopback
// address: 127.0.0.0/8 or ::1.
func IsLoopbackHost(host string) bool {
	return host == "localhost" || isLoopbackLiteral(host)
}

func isLoopbackLiteral(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && !addr.Is4In6() && addr.IsLoopback()
}

// ValidIssuer returns an error unless raw can be an issuer identifier (RFC 8414 section 2): an
// https URL, or an http URL on loopback, without query, fragment, user information or trailing
// slash, in its canonical form. Issuers are compared byte for byte, so each must have a single
// spelling.
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
