package middleware

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"gatehouse.example/internal/headername"
	"gatehouse.example/internal/lookalike"
)

// passRoute applies [Policy.Routes] to a request with a good token, or without credentials, and
// calls next if it is allowed.
func (g *Guard) passRoute(w http.ResponseWriter, r *http.Request, event Event, next http.Handler) {
	_, end := g.parts.begin(r, PartPolicy)
	var err error
	event.Route, event.Needed, err = g.judgeRoute(r, event.Token)
	if ended(end, err); err != nil {
		g.refuse(w, r, event, err)
		return
	}
	dropOtherTargets(r.Header)
	g.observe(r, event)
	ctx, stop := g.life(r.Context(), event.Token)
	defer stop()
	r = r.WithContext(ctx)
	out := &response{ResponseWriter: w, guard: g, request: r, token: event.Token, stop: stop}
	next.ServeHTTP(out.writer(), r)
}

// judgeRoute returns the pattern and the scopes of a request, and a refusal if the token lacks
// some of them, if no pattern matches, or if servers read the request in different ways.
func (g *Guard) judgeRoute(r *http.Request, token *Token) (route string, needed []string, err error) {
	if !isRouteMethod(r.Method) || overridesMethod(r.Header) || queriesMethod(r.URL.RawQuery) {
		return "", nil, unclearRequest("Name the method in the request line, in capital letters, and nowhere else.")
	}
	if len(r.Header[sessionHeader]) > 0 {
		// A session would not be bound to anybody here.
		return "", nil, unclearRequest("Sessions of the protocol are not supported here.")
	}
	path, ok := g.policy.routes.plainPath(r.URL)
	if !ok {
		return "", nil, unclearRequest("The path is written in a way that servers read differently. Send it without empty and dot segments, backslashes, semicolons, " +
			"escaped slashes and needless escapes.")
	}
	route, needed, known := g.policy.routes.needs(r.Method, path)
	if !known {
		return "", nil, forbidden("The policy of this server does not allow this to anybody.")
	}
	needed = union(g.policy.scopes, needed)
	return route, needed, g.covered(needed, token)
}

// otherMethods and otherPaths are headers from which some frameworks take another method or path than
// that of the request line.
var (
	otherMethods = headername.NewSet("x-http-method*", "x-method-override", "x-method")
	otherPaths   = headername.NewSet("x-original-url", "x-rewrite-url")
)

// dropOtherTargets removes otherMethods and otherPaths: the guard has judged the request line alone.
func dropOtherTargets(header http.Header) {
	for name := range header {
		if otherMethods.Has(name) || otherPaths.Has(name) {
			delete(header, name)
		}
	}
}

func unclearRequest(why string) error {
	return challenge{status: http.StatusBadRequest, description: why}
}

// isRouteMethod reports whether a method is one that all servers read as the same: some ignore
// case.
func isRouteMethod(method string) bool {
	return method != "" && strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// overridesMethod reports whether a header names another method.
func overridesMethod(header http.Header) bool {
	for name := range header {
		if otherMethods.Has(name) {
			return true
		}
	}
	return false
}

// queriesMethod reports whether a query names another method, as frameworks read it that know forms
// only.
func queriesMethod(query string) bool {
	for part := range strings.FieldsFuncSeq(query, func(c rune) bool { return c == '&' || c == ';' }) {
		if name, _, _ := strings.Cut(part, "="); unescape(name) == "_method" {
			return true
		}
	}
	return false
}

// plainPath returns the decoded path of a URL. It returns false for a path that two servers could
// read as two paths, because one of them decodes it, resolves it or cuts it, and the other does
// not.
//
// An escape of a byte that occurs in a pattern is such a spelling: a router that compares escaped
// paths would not find the pattern that the guard found. Other escapes are in wildcards only.
func (rs *routes) plainPath(u *url.URL) (string, bool) {
	escaped := u.EscapedPath()
	if !strings.HasPrefix(escaped, "/") || u.Opaque != "" {
		return "", false
	}
	path := make([]byte, 0, len(escaped))
	for i := 0; i < len(escaped); i++ {
		c := escaped[i]
		if c == '%' {
			c = unhexed(escaped[i+1])<<4 | unhexed(escaped[i+2]) // EscapedPath returns valid escapes only
			i += 2
			if rs.literal[c] || unreserved(c) || strings.IndexByte("/%?#", c) >= 0 {
				return "", false
			}
		}
		path = append(path, c)
	}
	return string(path), utf8.Valid(path) && !bytes.ContainsFunc(path, splits) && plainSegments(string(path))
}

// splits reports whether some server ends a path or a segment at a character.
func splits(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' || c == ';' }

// plainSegments reports whether no segment of a path is empty, dots and spaces only, or trimmed by
// a file system. The last one may be empty.
func plainSegments(path string) bool {
	segments := strings.Split(path[1:], "/")
	for i, segment := range segments {
		if segment == "" && i == len(segments)-1 {
			return true
		}
		if segment == "" || lookalike.Trim(segment) != segment {
			return false
		}
	}
	return true
}

// unreserved follows RFC 3986 section 2.3.
func unreserved(c byte) bool { return base64URL(c) || c == '.' || c == '~' }

// isPathByte reports whether a byte may be in a path without an escape (RFC 3986 section 3.3),
// except for the semicolon, behind which some servers ignore the rest.
func isPathByte(c byte) bool { return unreserved(c) || strings.IndexByte("!$&'()*+,=:@", c) >= 0 }

func unhexed(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}
