package middleware

import (
	"slices"
	"strings"
)

// climbing returns readings of handlers that take more of a URI than its path for the path of a file. The
// templates {+path} and {name} of several libraries match query and fragment too, and {+path} after "//" also
// the host. path is the path with all that comes after it, origin is what comes before, and all is the URI
// with its host as the first segment. They are empty unless dot segments, or for all an empty host, make a
// difference.
func climbing(uri string) (origin, path, all string) {
	scheme, rest, _ := strings.Cut(withoutBreaks(strings.TrimLeftFunc(uri, invisible)), ":")
	scheme = strings.ToLower(scheme)
	origin = scheme + ":"
	following, has := strings.CutPrefix(rest, "//")
	authority := ""
	if has {
		authority, rest = cutAt(following, "/?#")
		origin += "//" + authority
	}
	if _, tail := cutAt(rest, "?#"); ascends(tail) {
		path = resolvePath(rest)
	}
	if _, web := webPorts[scheme]; web || !has {
		return origin, path, ""
	}
	host, _ := settle(authority)
	if all = resolvePath("/" + authority + rest); host != "" && strings.HasPrefix(all+"/", "/"+host+"/") {
		return origin, path, ""
	}
	return origin, path, scheme + ":/" + all
}

// ascends reports whether a text has a segment that leads out of the one before, however it is escaped.
func ascends(text string) bool {
	text, _ = settle(text)
	return slices.Contains(strings.FieldsFunc(text, func(c rune) bool { return c == '/' || c == '\\' }), "..")
}
