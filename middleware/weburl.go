package middleware

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file reads addresses as browsers, Node and the official SDKs do: by the URL Standard
// of the WHATWG (https://url.spec.whatwg.org, "basic URL parser", without a base). Handlers
// that parse a URI in this way may serve something else than the text says, so the policy
// has to know what they make of it.

// webPorts are the special schemes, with the port that stands for none.
var webPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21", "file": ""}

// errNoWebURL says that no reader of the URL Standard accepts a text.
var errNoWebURL = errors.New("it is no URL")

// errWebHost says that only tables of Unicode tell what host is meant.
var errWebHost = errors.New("the host is not ASCII")

// webURL is what a URL consists of. Its parts are encoded as they are serialized.
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

// parseWebURL returns what the URL Standard makes of a text. The error is errNoWebURL when
// the text is refused there, and errWebHost when this reader cannot tell.
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

// trimWeb takes away what readers of the URL Standard do not see: controls and spaces around
// a text, and line breaks and tabs in it.
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

// hierarchy reads what is between the scheme and the query.
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

// opaquePath escapes a path that has no segments. A space at its end would get lost.
func (u *webURL) opaquePath(path string) string {
	if (u.query != "" || u.fragment != "") && strings.HasSuffix(path, " ") {
		path = path[:len(path)-1] + "%20"
	}
	return escapeWeb(path, "")
}

// cutAt splits before the first of some characters.
func cutAt(s, chars string) (before, from string) {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// file reads the rest of a file URL, in which a host is optional and drives count.
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

// isDrive reports a Windows drive letter.
func isDrive(s string) bool {
	return len(s) == 2 && alphanumeric(s[0]) && s[0] > '9' && (s[1] == ':' || s[1] == '|')
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

func webPort(s, standard string) (string, error) {
	if s == "" {
		return "", nil
	}
	if strings.Trim(s, "0123456789") != "" {
		return "", errNoWebURL
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return "", errNoWebURL
	}
	if port := strconv.FormatUint(n, 10); port != standard {
		return port, nil
	}
	return "", nil
}

// webHost is the host parser. The host of a special scheme is a domain or an address.
func webHost(s string, special bool) (string, error) {
	if strings.HasPrefix(s, "[") {
		addr, err := netip.ParseAddr(strings.TrimSuffix(s[1:], "]"))
		if err != nil || !strings.HasSuffix(s, "]") || !addr.Is6() || addr.Zone() != "" {
			return "", errNoWebURL
		}
		return "[" + address6(addr) + "]", nil
	}
	if !special {
		if strings.ContainsAny(s, "\x00\t\n\r #/:<>?@[\\]^|") {
			return "", errNoWebURL
		}
		return escapeWeb(s, ""), nil
	}
	return domain(s)
}

// address6 writes an address with its pieces in hexadecimal, also where others write IPv4.
func address6(addr netip.Addr) string {
	if !addr.Is4In6() {
		return addr.String()
	}
	b := addr.As16()
	return "::ffff:" + strconv.FormatUint(uint64(b[12])<<8|uint64(b[13]), 16) + ":" + strconv.FormatUint(uint64(b[14])<<8|uint64(b[15]), 16)
}

func domain(s string) (string, error) {
	s = unescapeBytes(s)
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return "", errWebHost
		}
	}
	s = strings.ToLower(s)
	if s == "" || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f || strings.ContainsRune("#/:<>?@[\\]^|%", c) }) {
		return "", errNoWebURL
	}
	labels := strings.Split(strings.TrimSuffix(s, "."), ".")
	if slices.ContainsFunc(labels, func(l string) bool { return strings.HasPrefix(l, "xn--") }) {
		return s, errWebHost // whether it is a name is in the tables of Unicode
	}
	if last := labels[len(labels)-1]; isNumber(last) {
		return address4(labels)
	}
	return s, nil
}

// isNumber reports whether the last label of a host makes it an address.
func isNumber(s string) bool {
	if s == "" {
		return false
	}
	if strings.Trim(s, "0123456789") == "" {
		return true
	}
	_, ok := number4(s)
	return ok
}

// number4 reads one part of an IPv4 address: decimal, octal or hexadecimal.
func number4(s string) (n uint64, ok bool) {
	base := 10
	switch {
	case s == "":
		return 0, false
	case strings.HasPrefix(s, "0x"):
		s, base = s[2:], 16
	case len(s) > 1 && s[0] == '0':
		s, base = s[1:], 8
	}
	if s == "" {
		return 0, true
	}
	if strings.Trim(s, "0123456789abcdef") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, base, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 1 << 40, true // too large for any part
	}
	return n, err == nil
}

func address4(labels []string) (string, error) {
	if len(labels) > 4 {
		return "", errNoWebURL
	}
	var all uint64
	for i, label := range labels {
		n, ok := number4(label)
		last := i == len(labels)-1
		if !ok || !last && n > 255 || last && n >= 1<<(8*(5-len(labels))) {
			return "", errNoWebURL
		}
		if last {
			all += n
		} else {
			all += n << (8 * (3 - i))
		}
	}
	return netip.AddrFrom4([4]byte{byte(all >> 24), byte(all >> 16), byte(all >> 8), byte(all)}).String(), nil
}

// path reads the segments of a path and takes dot segments out.
func (u *webURL) path(path string) {
	if u.special() && !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	parts := strings.Split(path, "/")[1:]
	u.pathOf(parts)
	if first := parts[0]; u.scheme == "file" && len(first) > 2 && isDrive(first[:2]) {
		rest := webURL{scheme: u.scheme}
		rest.pathOf(parts[1:])
		u.kept = append([]string{escapeWeb(first, pathSet)}, rest.segments...)
	}
}

// pathSet is the characters that are escaped in a path.
const pathSet = " \"#<>?^`{}"

func (u *webURL) pathOf(parts []string) {
	for i, part := range parts {
		last := i == len(parts)-1
		switch dots(part) {
		case 2:
			u.shorten()
			if last {
				u.segments = append(u.segments, "")
			}
		case 1:
			if last {
				u.segments = append(u.segments, "")
			}
		default:
			if u.scheme == "file" && len(u.segments) == 0 && isDrive(part) {
				part = part[:1] + ":"
			}
			u.segments = append(u.segments, escapeWeb(part, pathSet))
		}
	}
}

func (u *webURL) shorten() {
	if n := len(u.segments); n > 0 && (u.scheme != "file" || n > 1 || !isDrive(u.segments[0]) || u.segments[0][1] != ':') {
		u.segments = u.segments[:n-1]
	}
}

// dots is how many dots a segment consists of, escaped or not: 1, 2, or 0 for another one.
func dots(segment string) int {
	switch strings.ReplaceAll(strings.ToLower(segment), "%2e", ".") {
	case ".":
		return 1
	case "..":
		return 2
	}
	return 0
}

// escapeWeb escapes controls, what is not ASCII, and the characters of a set.
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

func (u *webURL) pathString() string {
	switch {
	case u.isOpaque:
		return u.opaque
	case len(u.segments) == 0:
		return ""
	case !u.hasHost && len(u.segments) > 1 && u.segments[0] == "":
		return "/./" + strings.Join(u.segments, "/") // or it would become a host
	}
	return "/" + strings.Join(u.segments, "/")
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
