package middleware

import (
	"errors"
	"strings"
)

// This file parses URLs as browsers, Node and the official SDKs do: by the URL Standard of the
// WHATWG (https://url.spec.whatwg.org, "basic URL parser", without a base). A handler that
// parses a URI in this way may serve another resource than the text suggests, so the policy is
// applied to this reading too. Hosts are in weburlhost.go, paths in weburlpath.go.

// webPorts are the special schemes, with their default ports.
var webPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21", "file": ""}

// errNoWebURL means that the URL Standard rejects a text.
var errNoWebURL = errors.New("it is no URL")

// errWebHost means that the host cannot be read without the tables of Unicode.
var errWebHost = errors.New("the host is not ASCII")

// webURL is a parsed URL. Its parts are encoded as in the serialized URL.
type webURL struct {
	scheme   string
	user     string // with its "@", or empty
	host     string
	hasHost  bool
	port     string
	segments []string // of a path that is not opaque
	kept     []string // the same, where Node keeps a first segment that only begins like a drive
	opaque   string
	isOpaque bool
	query    string // with its "?", or empty
	fragment string // with its "#", or empty
}

func (u *webURL) special() bool {
	_, special := webPorts[u.scheme]
	return special
}

// parseWebURL parses a text by the URL Standard. The error is errNoWebURL when the standard
// rejects the text, and errWebHost when this function cannot read the host.
func parseWebURL(text string) (*webURL, error) {
	scheme, rest, ok := strings.Cut(trimWeb(text), ":")
	if !ok || !isScheme(scheme) {
		return nil, errNoWebURL
	}
	u := &webURL{scheme: strings.ToLower(scheme)}
	rest, fragment, ok := strings.Cut(rest, "#")
	if ok {
		u.fragment = "#" + escapeWeb(fragment, " \"<>`")
	}
	rest, query, ok := strings.Cut(rest, "?")
	if ok {
		u.query = "?" + escapeWeb(query, u.querySet())
	}
	return u, u.hierarchy(rest)
}

// trimWeb removes the characters that the URL Standard ignores: controls and spaces around a
// text, and line breaks and tabs in it.
func trimWeb(text string) string { return withoutBreaks(strings.TrimFunc(text, invisible)) }

func invisible(c rune) bool { return c <= ' ' }

func withoutBreaks(text string) string {
	if !strings.ContainsAny(text, "\t\n\r") {
		return text
	}
	return strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(text)
}

func isScheme(s string) bool {
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && (i == 0 || c != '+' && c != '-' && c != '.') || i == 0 && '0' <= c && c <= '9' {
			return false
		}
	}
	return s != ""
}

func (u *webURL) querySet() string {
	if u.special() {
		return " \"#<>'"
	}
	return " \"#<>"
}

// hierarchy reads the part between the scheme and the query.
func (u *webURL) hierarchy(rest string) error {
	if u.special() {
		rest = strings.ReplaceAll(rest, `\`, "/")
	}
	switch {
	case u.scheme == "file":
		return u.file(rest)
	case u.special():
		authority, path := cutAt(strings.TrimLeft(rest, "/"), "/")
		u.path(path)
		return u.authority(authority)
	case strings.HasPrefix(rest, "//"):
		authority, path := cutAt(rest[2:], "/")
		if path != "" {
			u.path(path)
		}
		return u.authority(authority)
	case strings.HasPrefix(rest, "/"):
		u.path(rest)
	default:
		u.isOpaque, u.opaque = true, u.opaquePath(rest)
	}
	return nil
}

// cutAt splits s before the first character that is in chars.
func cutAt(s, chars string) (before, from string) {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// file reads the rest of a file URL, which may have no host, and may begin with a drive letter.
func (u *webURL) file(rest string) error {
	u.hasHost = true
	if !strings.HasPrefix(rest, "//") {
		u.path(rest)
		return nil
	}
	host, path := cutAt(rest[2:], "/")
	if isDrive(host) {
		u.path(rest[2:])
		return nil
	}
	u.path(path)
	if host == "" {
		return nil
	}
	var err error
	if u.host, err = webHost(host, true); u.host == "localhost" {
		u.host = ""
	}
	return err
}

// authority reads user, host and port.
func (u *webURL) authority(s string) (err error) {
	u.hasHost = true
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		u.user = userInfo(s[:at])
		if s = s[at+1:]; s == "" {
			return errNoWebURL
		}
	}
	host, port := s, ""
	if colon := strings.LastIndexByte(s, ':'); colon > strings.LastIndexByte(s, ']') {
		host, port = s[:colon], s[colon+1:]
	}
	if host == "" && (u.special() || port != "" || u.user != "" || s != "") {
		return errNoWebURL
	}
	if u.host, err = webHost(host, u.special()); err != nil {
		return err
	}
	u.port, err = webPort(port, webPorts[u.scheme])
	return err
}

func userInfo(s string) string {
	const set = " \"#<>?^`{}/:;=@[\\]|"
	name, password, _ := strings.Cut(s, ":")
	name, password = escapeWeb(name, set), escapeWeb(password, set)
	switch {
	case password != "":
		return name + ":" + password + "@"
	case name != "":
		return name + "@"
	}
	return ""
}

// escapeWeb escapes controls, characters other than ASCII, and the characters of a set.
func escapeWeb(s, set string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || strings.IndexByte(set, c) >= 0 {
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// String serializes the URL.
func (u *webURL) String() string {
	return u.origin(u.user, u.port) + u.pathString() + u.query + u.fragment
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
