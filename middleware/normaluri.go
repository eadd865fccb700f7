package middleware

import (
	"net/url"
	"strings"
)

// standardPorts are the default ports of schemes, which some servers remove from a URI.
var standardPorts = map[string]string{
	"ftp": "21", "ssh": "22", "sftp": "22", "git": "9418", "ldap": "389", "ldaps": "636", "amqp": "5672", "amqps": "5671", "mqtt": "1883", "mqtts": "8883",
	"redis": "6379", "rediss": "6379", "mysql": "3306", "postgres": "5432", "postgresql": "5432", "mongodb": "27017", "imap": "143", "imaps": "993",
	"smtp": "25", "smtps": "465", "nfs": "2049", "rtsp": "554", "irc": "194", "xmpp": "5222", "http": "80", "https": "443", "ws": "80", "wss": "443",
}

// normalURI returns the normal form of RFC 3986 section 6.2.2: case, escapes and dot segments.
// It returns the empty string if the text is not a URI.
func normalURI(uri string) string {
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok || !isScheme(scheme) {
		return ""
	}
	scheme = strings.ToLower(scheme)
	hierarchy, tail := cutAt(rest, "?#")
	authority := ""
	if strings.HasPrefix(hierarchy, "//") {
		authority, hierarchy = cutAt(hierarchy[2:], "/")
		user, host := "", authority
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			user, host = authority[:at+1], authority[at+1:]
		}
		host = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(normalEscapes(host)), ":"+standardPorts[scheme]), ":")
		if scheme == "file" { // nobody signs in to a file, and readers leave out who would (RFC 8089 section 2)
			user, host = "", localFile(host)
		}
		authority = "//" + normalEscapes(user) + host
		if hierarchy == "" && webPorts[scheme] != "" {
			hierarchy = "/" // RFC 3986 section 6.2.3
		}
	}
	return scheme + ":" + authority + withoutDots(normalEscapes(hierarchy)) + normalEscapes(tail)
}

// localFile returns the host of a file, which is none for those of this machine (RFC 8089 section 2).
func localFile(host string) string {
	if host == "localhost" {
		return ""
	}
	return host
}

// normalEscapes decodes escapes that are not needed, and writes the digits of the others in
// uppercase (RFC 3986 sections 6.2.2.1 and 6.2.2.2).
func normalEscapes(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c, ok := escaped(s, i)
		switch {
		case !ok:
			b.WriteByte(s[i])
			continue
		case alphanumeric(c) || strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteString(strings.ToUpper(s[i : i+3]))
		}
		i += 2
	}
	return b.String()
}

// withoutDots removes dot segments from a path that begins with a slash (RFC 3986 section
// 5.2.4).
func withoutDots(p string) string {
	if !strings.HasPrefix(p, "/") {
		return p
	}
	var out []string
	parts := strings.Split(p, "/")[1:]
	for i, part := range parts {
		switch {
		case part == ".." && len(out) > 0:
			out = out[:len(out)-1]
		case part != "." && part != "..":
			out = append(out, part)
			continue
		}
		if i == len(parts)-1 {
			out = append(out, "")
		}
	}
	return "/" + strings.Join(out, "/")
}

// unescapeBytes decodes each escape once, and keeps percent signs that begin no escape.
func unescapeBytes(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	if out, err := url.PathUnescape(s); err == nil {
		return out
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c, ok := escaped(s, i); ok {
			b.WriteByte(c)
			i += 2
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// escaped returns the byte that the escape at i stands for, false if there is no escape.
func escaped(s string, i int) (c byte, ok bool) {
	if s[i] != '%' || i+2 >= len(s) {
		return 0, false
	}
	high, ok1 := hexDigit(s[i+1])
	low, ok2 := hexDigit(s[i+2])
	return high<<4 | low, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
