package gateway

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"gatehouse.example/metadata"
)

// errPath says that a path is not one that every reader understands alike.
var errPath = errors.New("gateway: the path has dot segments, empty segments, or escapes that could be read in more than one way")

// segment is one part of a path between two slashes.
type segment struct{ raw, plain string }

// segments splits a path as it was sent. It refuses what the server behind could take for
// another path than this one does: dot segments, also escaped or with parameters behind
// them, escaped slashes, backslashes and percent signs, empty segments, control
// characters, and bytes that are no UTF-8. Only the last segment may be empty.
func segments(escaped string) ([]segment, error) {
	rest, ok := strings.CutPrefix(escaped, "/")
	if !ok {
		return nil, errPath
	}
	raws := strings.Split(rest, "/")
	out := make([]segment, 0, len(raws))
	for i, raw := range raws {
		plain, err := url.PathUnescape(raw)
		if err != nil || !unambiguous(plain) || (plain == "" && i < len(raws)-1) {
			return nil, errPath
		}
		out = append(out, segment{raw, plain})
	}
	return out, nil
}

// unambiguous judges a segment that was unescaped once.
func unambiguous(plain string) bool {
	name, _, _ := strings.Cut(plain, ";") // some servers cut parameters off, and see dots then
	return name != "." && name != ".." && utf8.ValidString(plain) && !strings.ContainsAny(plain, "/\\%") && !strings.ContainsFunc(plain, unicode.IsControl)
}

// plainPath joins segments as they are meant.
func plainPath(parts []segment) string {
	var b strings.Builder
	for _, s := range parts {
		b.WriteByte('/')
		b.WriteString(s.plain)
	}
	return b.String()
}

// prefix is the path of a URL, and everything below it.
type prefix struct {
	parts []segment // without an empty end
	slash bool      // whether it has an empty end, so that something must follow
}

func newPrefix(u *url.URL) (prefix, error) {
	path := u.EscapedPath()
	if path == "" || path == "/" {
		return prefix{}, nil
	}
	parts, err := segments(path)
	if last := len(parts) - 1; err == nil && parts[last].plain == "" {
		return prefix{parts[:last], true}, nil
	}
	return prefix{parts, false}, err
}

// rest returns what a path has below the prefix, nil for the prefix itself. It is false for
// a path elsewhere.
func (p prefix) rest(parts []segment) ([]segment, bool) {
	n := len(p.parts)
	if len(parts) < n || (p.slash && len(parts) == n) {
		return nil, false
	}
	for i := range n {
		if parts[i].plain != p.parts[i].plain {
			return nil, false
		}
	}
	rest := parts[n:]
	if len(rest) == 0 || (p.slash || n == 0) && len(rest) == 1 && rest[0].plain == "" {
		return nil, true
	}
	return rest, true
}

// under returns the path of something below a URL, as it is meant and as it is sent.
func under(base *url.URL, rest []segment) (plain, escaped string) {
	plain, escaped = base.Path, base.EscapedPath()
	if len(rest) > 0 {
		plain, escaped = strings.TrimSuffix(plain, "/"), strings.TrimSuffix(escaped, "/")
	}
	for _, s := range rest {
		plain, escaped = plain+"/"+s.plain, escaped+"/"+s.raw
	}
	if plain == "" {
		return "/", "/"
	}
	return plain, escaped
}

// places are the two ends of the way through the gateway.
type places struct {
	resource *url.URL // in canonical form
	public   prefix
	upstream *url.URL // nil when nothing is forwarded
	private  prefix
}

// newPlaces reads the URLs of the configuration.
func newPlaces(resource, upstream string) (places, error) {
	var p places
	canonical, err := metadata.Canonical(resource)
	if err != nil {
		return p, err
	}
	if p.resource, err = url.Parse(canonical); err != nil {
		return p, err
	}
	if p.resource.RawQuery != "" || p.resource.ForceQuery {
		return p, fmt.Errorf("resource %s: requests are told apart by their paths, so it must not have a query", resource)
	}
	if p.public, err = newPrefix(p.resource); err != nil {
		return p, fmt.Errorf("resource %s: %w", resource, err)
	}
	if upstream == "" {
		return p, nil
	}
	if p.upstream, err = parseUpstream(upstream); err != nil {
		return p, fmt.Errorf("upstream: %w", err)
	}
	if p.private, err = newPrefix(p.upstream); err != nil {
		return p, fmt.Errorf("upstream: %w", err)
	}
	p.private.slash = false // a redirect may add or take the slash
	return p, nil
}

// parseUpstream wants nothing but where to connect to and the path there. Its errors do not
// repeat the URL: it could hold a password.
func parseUpstream(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("it is not a URL")
	case u.User != nil:
		return nil, errors.New("it must not hold credentials")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return nil, errors.New("it must be a URL such as http://127.0.0.1:9000/mcp")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(raw, "#"):
		return nil, errors.New("it must not have a query or a fragment")
	}
	return u, nil
}

// back returns the public URL of one at the upstream. It is false for a URL that is not at
// or below the upstream.
func (p places) back(at *url.URL) (*url.URL, bool) {
	if at.Scheme != p.upstream.Scheme || !strings.EqualFold(at.Host, p.upstream.Host) || at.User != nil {
		return nil, false
	}
	parts, err := segments("/" + strings.TrimPrefix(at.EscapedPath(), "/"))
	if err != nil {
		return nil, false
	}
	rest, ok := p.private.rest(parts)
	if !ok {
		return nil, false
	}
	out := *p.resource
	out.RawQuery, out.Fragment = at.RawQuery, at.Fragment
	if len(rest) > 0 {
		out.Path, out.RawPath = under(p.resource, rest)
	}
	return &out, true
}
