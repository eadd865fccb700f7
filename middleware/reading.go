package middleware

import (
	"errors"
	"net/url"
	"path"
	"slices"
	"strings"
)

// maxNames bounds the names and URIs of one message that a policy judges, in bytes: each is
// compared with every pattern.
const maxNames = 16 << 10

// errURI is also about hosts that only tables of Unicode could tell from each other.
var errURI = errors.New("uri: it has no scheme, is escaped again and again, or has a host with characters or xn-- labels that this server cannot judge")

// A URI has many spellings, and each server has its own idea of what is one spelling of
// another. The policy judges every reading that a server could take, and asks for what all
// of them need.
//
// The strict readings are what a handler serves that takes the URI as it is written, in the
// normal form of RFC 3986 section 6.2.2, or as the URL Standard reads it, each of these
// decoded, or as a path that is decoded and resolved like that of a file. All of them must be
// known to the policy.
const (
	asWritten = iota
	normalForm
	webForm
	writtenDecoded
	webDecoded
	resolved
	strictReadings
)

// readings are what a URI may mean. A reading is empty when nobody takes it.
type readings struct {
	strict [strictReadings]string
	// loose are further readings, which leave parts away that a handler may not look at.
	// What the policy says about them counts, and it need not say anything.
	loose []string
}

// readingsOf returns the readings of a URI, or of a pattern of URIs. The error says why
// nobody could read it, or why this program cannot.
func readingsOf(uri string) (readings, error) {
	r := readings{strict: [strictReadings]string{asWritten: uri, writtenDecoded: unescapeBytes(uri), normalForm: normalURI(uri)}}
	if _, ok := settle(uri); !ok {
		return r, errURI
	}
	r.loose = splitReadings(uri)
	web, err := parseWebURL(uri)
	switch {
	case nobodyReads(err, r.strict[normalForm]):
		return r, errURI
	case err != nil:
		r.strict[resolved] = resolvedURI(uri)
		return r, nil
	}
	r.strict[webForm] = web.String()
	r.strict[webDecoded] = unescapeBytes(web.String())
	hierarchy := resolvePath(web.pathString())
	r.strict[resolved] = web.origin(web.user, web.port) + hierarchy
	if web.scheme != "file" { // a file system gets the path alone
		r.strict[resolved] += unescapeBytes(web.query) + unescapeBytes(web.fragment)
	}
	r.loose = distinct(append(r.loose, looseReadings(web, hierarchy)...)...)
	return r, nil
}

// canBeRead reports whether a URI has readings, which costs less than to know them.
func canBeRead(uri string) bool {
	if _, ok := settle(uri); !ok {
		return false
	}
	_, err := parseWebURL(uri)
	return !nobodyReads(err, normalURI(uri))
}

func nobodyReads(err error, normal string) bool {
	return errors.Is(err, errWebHost) || err != nil && normal == ""
}

// resolvedURI is the reading for what the URL Standard refuses.
func resolvedURI(uri string) string {
	scheme, rest, _ := strings.Cut(trimWeb(uri), ":")
	hierarchy, tail := cutAt(rest, "?#")
	authority := ""
	if strings.HasPrefix(hierarchy, "//") {
		authority, hierarchy = cutAt(hierarchy[2:], "/")
		authority = "//" + authority
	}
	return strings.ToLower(scheme) + ":" + authority + resolvePath(hierarchy) + unescapeBytes(tail)
}

// maxEscapes is how often a URI may be escaped. Each time costs a look at all of it.
const maxEscapes = 8

// settle decodes a text until nothing is escaped. It is false for one that is escaped more
// often than anybody needs.
func settle(s string) (string, bool) {
	for range maxEscapes {
		decoded := unescapeBytes(s)
		if decoded == s {
			return s, true
		}
		s = decoded
	}
	return s, false
}

// resolvePath is what a path means to a handler that decodes it as often as it can, takes
// each backslash for a slash, and resolves dot segments and empty ones.
func resolvePath(p string) string {
	p, _ = settle(p)
	if p = strings.ReplaceAll(p, `\`, "/"); p == "" {
		return ""
	}
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// origin is what stands before the path.
func (u *webURL) origin(user, port string) string {
	out := u.scheme + ":"
	if !u.hasHost {
		return out
	}
	if out += "//" + user + u.host; port != "" {
		out += ":" + port
	}
	return out
}

// looseReadings leave away what a handler may leave away: user, standard port, the case and
// the dot at the end of a host, the end of the path, parameters, query and fragment.
func looseReadings(u *webURL, resolved string) []string {
	bare := *u
	bare.host = strings.ToLower(strings.TrimSuffix(unescapeBytes(u.host), "."))
	if u.port == standardPorts[u.scheme] {
		bare.port = ""
	}
	origins := distinct(u.origin(u.user, u.port), u.origin("", u.port), bare.origin("", bare.port))
	trimmed := strings.TrimSuffix(resolved, "/")
	paths := append(pathReadings(u.pathString()), resolved, trimmed, trimmed+"/")
	if u.kept != nil {
		paths = append(paths, pathReadings("/"+strings.Join(u.kept, "/"))...)
	}
	return combine(origins, paths, tailReadings(u.query, u.fragment))
}

// splitReadings are those of handlers that only split a URI, as urllib of Python does: an
// empty authority may get lost or come into being, and dots stay.
func splitReadings(uri string) []string {
	scheme, rest, _ := strings.Cut(withoutBreaks(strings.TrimLeftFunc(uri, invisible)), ":")
	hierarchy, tail := cutAt(rest, "?#")
	query, fragment := cutAt(tail, "#")
	origins := []string{strings.ToLower(scheme) + ":", strings.ToLower(scheme) + "://"}
	if strings.HasPrefix(hierarchy, "//") {
		var authority string
		if authority, hierarchy = cutAt(hierarchy[2:], "/"); authority != "" {
			origins = distinct(origins[1]+authority, origins[1]+unescapeBytes(authority))
		}
	}
	paths := append(pathReadings(hierarchy), pathReadings("/"+strings.TrimPrefix(hierarchy, "/"))...)
	return combine(origins, paths, tailReadings(query, fragment))
}

// pathReadings are a path as it is, decoded, cleaned, without the slash or the spaces at its
// end, and without parameters.
func pathReadings(p string) []string {
	withoutParams, _, _ := strings.Cut(p, ";")
	withoutLast := p
	if i := strings.LastIndexByte(p, ';'); i > strings.LastIndexByte(p, '/') {
		withoutLast = p[:i]
	}
	out := []string{p, strings.TrimSuffix(p, "/"), strings.TrimRight(p, " "), withoutParams, withoutLast}
	for _, path := range out {
		out = append(out, unescapeBytes(path))
	}
	if strings.HasPrefix(p, "/") {
		out = append(out, path.Clean(unescapeBytes(p)))
	}
	if rest, ok := strings.CutPrefix(p, "/./"); ok { // which keeps the path from becoming a host
		out = append(out, "/"+rest, unescapeBytes("/"+rest))
	}
	return out
}

func tailReadings(query, fragment string) []string {
	return distinct("", query, unescapeBytes(query), query+fragment, unescapeBytes(query+fragment), fragment)
}

func combine(origins, paths, tails []string) []string {
	paths = distinct(paths...)
	out := make([]string, 0, len(origins)*len(paths)*len(tails))
	for _, origin := range origins {
		for _, path := range paths {
			for _, tail := range tails {
				out = append(out, origin+path+tail)
			}
		}
	}
	return out
}

// distinct returns each of some strings once, in any order.
func distinct(list ...string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// standardPorts are those that some servers take for none.
var standardPorts = map[string]string{
	"ftp": "21", "ssh": "22", "sftp": "22", "git": "9418", "ldap": "389", "ldaps": "636", "amqp": "5672", "amqps": "5671", "mqtt": "1883", "mqtts": "8883",
	"redis": "6379", "rediss": "6379", "mysql": "3306", "postgres": "5432", "postgresql": "5432", "mongodb": "27017", "imap": "143", "imaps": "993",
	"smtp": "25", "smtps": "465", "nfs": "2049", "rtsp": "554", "irc": "194", "xmpp": "5222", "http": "80", "https": "443", "ws": "80", "wss": "443",
}

// normalURI is the normal form of RFC 3986 section 6.2.2: case, escapes and dot segments.
// It is empty for what is no URI.
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
		authority = "//" + normalEscapes(user) + host
		if hierarchy == "" && webPorts[scheme] != "" {
			hierarchy = "/" // RFC 3986 section 6.2.3
		}
	}
	return scheme + ":" + authority + withoutDots(normalEscapes(hierarchy)) + normalEscapes(tail)
}

// normalEscapes decodes what need not be escaped, and writes digits in capitals (RFC 3986
// sections 6.2.2.1 and 6.2.2.2).
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

// withoutDots takes dot segments out of a path that begins with a slash (RFC 3986 section
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

// unescapeBytes decodes each escape once, and leaves what is none.
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

// escaped returns what the escape at i stands for.
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
