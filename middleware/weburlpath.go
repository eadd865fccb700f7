package middleware

import (
	"strings"
)

// opaquePath escapes a path that has no segments. It escapes a space at the end, which would
// get lost.
func (u *webURL) opaquePath(path string) string {
	if (u.query != "" || u.fragment != "") && strings.HasSuffix(path, " ") {
		path = path[:len(path)-1] + "%20"
	}
	return escapeWeb(path, "")
}

// isDrive reports whether s is a Windows drive letter with its colon or "|".
func isDrive(s string) bool {
	return len(s) == 2 && alphanumeric(s[0]) && s[0] > '9' && (s[1] == ':' || s[1] == '|')
}

// path reads the segments of a path and resolves dot segments.
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

// pathSet has the characters that are escaped in a path.
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

// dots returns 1 or 2 for a segment of one or two dots, escaped or not, and 0 for any other.
func dots(segment string) int {
	switch strings.ReplaceAll(strings.ToLower(segment), "%2e", ".") {
	case ".":
		return 1
	case "..":
		return 2
	}
	return 0
}

func (u *webURL) pathString() string {
	switch {
	case u.isOpaque:
		return u.opaque
	case len(u.segments) == 0:
		return ""
	case !u.hasHost && len(u.segments) > 1 && u.segments[0] == "":
		return "/./" + strings.Join(u.segments, "/") // without "/." the first segment would become a host
	}
	return "/" + strings.Join(u.segments, "/")
}
