package middleware

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// maxNames bounds the total size of the names and URIs of one message that a policy looks at,
// in bytes.
const maxNames = 16 << 10

// errURI is the error for a URI that cannot be read, which includes hosts that cannot be
// compared without the tables of Unicode.
var errURI = errors.New("uri: it has no scheme, is escaped again and again, or has a host with characters or xn-- labels that this server cannot judge")

// A URI has many spellings, and servers differ in which of them they treat as equal. The policy
// is applied to every reading that a server could use, and an operation needs the scopes of all
// of them.
//
// The strict readings are the URI as it is written, in the normal form of RFC 3986 section
// 6.2.2, and as the URL Standard parses it, each of these also decoded, and with a path that is
// decoded and resolved like that of a file. There are two more where dot segments lead elsewhere
// in a path that has what comes after it, or before it, too (climbing). The policy must name all.
const (
	asWritten = iota
	normalForm
	webForm
	writtenDecoded
	webDecoded
	resolved
	climbed
	climbedHost
	strictReadings
)

// readings are the possible meanings of a URI.
type readings struct {
	strict [strictReadings]string // empty for a reading that does not exist
	// loose are further readings, which omit parts that a handler may ignore. The scopes that
	// the policy has for them count, but the policy need not name them.
	loose []string
}

// readingsOf returns the readings of a URI, or of a pattern of URIs. The error is errURI for a
// URI that no server can read, or that this package cannot read.
func readingsOf(uri string) (readings, error) {
	r := readings{strict: [strictReadings]string{asWritten: uri, writtenDecoded: unescapeBytes(uri), normalForm: normalURI(uri)}}
	if _, ok := settle(uri); !ok {
		return r, errURI
	}
	r.loose = splitReadings(uri)
	origin, climb, all := climbing(uri)
	if strings.HasSuffix(origin, "//") { // the host is empty, so the policy may have other names
		r.loose = append(r.loose, all)
	} else {
		r.strict[climbedHost] = all
	}
	web, err := parseWebURL(uri)
	switch {
	case nobodyReads(err, r.strict[normalForm]):
		return r, errURI
	case err != nil:
		r.strict[resolved] = resolvedURI(uri)
		if climb != "" {
			r.strict[climbed] = origin + climb
		}
		return r, nil
	}
	r.strict[webForm] = web.String()
	r.strict[webDecoded] = unescapeBytes(web.String())
	hierarchy := resolvePath(web.pathString())
	r.strict[resolved] = web.origin(web.user, web.port) + hierarchy
	if web.scheme != "file" { // a file system gets the path alone
		r.strict[resolved] += unescapeBytes(web.query) + unescapeBytes(web.fragment)
	}
	if climb != "" {
		r.strict[climbed] = web.origin(web.user, web.port) + climb
	}
	r.loose = distinct(append(r.loose, looseReadings(web, hierarchy, climb)...)...)
	return r, nil
}

// canBeRead reports whether readingsOf succeeds, at a lower cost.
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

// resolvedURI returns the resolved reading of a URI that the URL Standard rejects.
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

// maxEscapes bounds how many times a URI may be escaped. Each decoding reads all of it.
const maxEscapes = 8

// settle decodes a text until nothing is escaped. It returns false for a text that is escaped
// more than maxEscapes times.
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

// resolvePath returns a path as a handler reads it that decodes it as often as possible, treats
// each backslash as a slash, and resolves dot segments and empty segments.
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

// origin returns the part of the URL before the path.
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

// looseReadings returns readings without the parts that a handler may ignore: user, standard
// port, the host of a file, the case of the host and its final dot, the final slash of the path, parameters, query
// and fragment.
func looseReadings(u *webURL, resolved, climbed string) []string {
	bare := *u
	host, _ := settle(u.host)
	bare.host = strings.ToLower(strings.TrimSuffix(host, "."))
	if u.port == standardPorts[u.scheme] {
		bare.port = ""
	}
	origins := distinct(append(fileOrigins(u.scheme), u.origin(u.user, u.port), u.origin("", u.port), bare.origin("", bare.port))...)
	trimmed := strings.TrimSuffix(resolved, "/")
	paths := append(pathReadings(u.pathString()), resolved, trimmed, trimmed+"/")
	if climbed != "" {
		paths = append(paths, pathReadings(climbed)...)
	}
	if u.kept != nil {
		paths = append(paths, pathReadings("/"+strings.Join(u.kept, "/"))...)
	}
	return combine(origins, paths, tailReadings(u.query, u.fragment))
}

// splitReadings returns the readings of handlers that only split a URI, as urllib of Python
// does: they may drop or add an empty authority, and they keep dot segments.
func splitReadings(uri string) []string {
	scheme, rest, _ := strings.Cut(withoutBreaks(strings.TrimLeftFunc(uri, invisible)), ":")
	hierarchy, tail := cutAt(rest, "?#")
	query, fragment := cutAt(tail, "#")
	origins := []string{strings.ToLower(scheme) + ":", strings.ToLower(scheme) + "://"}
	if strings.HasPrefix(hierarchy, "//") {
		var authority string
		if authority, hierarchy = cutAt(hierarchy[2:], "/"); authority != "" {
			origins = distinct(append(fileOrigins(scheme), origins[1]+authority, origins[1]+unescapeBytes(authority))...)
		}
	}
	paths := append(pathReadings(hierarchy), pathReadings("/"+strings.TrimPrefix(hierarchy, "/"))...)
	return combine(origins, paths, tailReadings(query, fragment))
}

// pathReadings returns a path as it is, decoded, cleaned, without the slash or the spaces at
// its end, and without parameters.
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
	if rest, ok := strings.CutPrefix(p, "/./"); ok { // a prefix that keeps the path from becoming a host
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

// distinct returns each string once, in any order. It changes list.
func distinct(list ...string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
