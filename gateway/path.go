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

// errPath means that readers could interpret a path differently.
var errPath = errors.New("gateway: the path has dot segments, empty segments, or escapes that could be read in more than one way")

// segment is one part of a path between two slashes.
type segment struct{ raw, plain string }

// segments splits a path as it was sent. It refuses a path that the upstream could interpret
// differently: with dot segments, also escaped or followed by parameters, escaped slashes,
// backslashes and percent signs, empty segments, control characters, or invalid UTF-8. Only the
// last segment may be empty.
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

// unambiguous reports whether all readers interpret a segment alike, which was unescaped once.
func unambiguous(plain string) bool {
	name, _, _ := strings.Cut(plain, ";") // some servers cut parameters off, and then find dots
	return name != "." && name != ".." && utf8.ValidString(plain) && !strings.ContainsAny(plain, "/\\%") && !strings.ContainsFunc(plain, unicode.IsControl)
}

// plainPath joins the unescaped segments.
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
	parts []segment // without an empty last segment
	slash bool      // whether the last segment is empty, so that paths need a slash after the others
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

// rest returns the segments of a path below the prefix, nil for the prefix itself. It returns
// false for a path that is not below the prefix.
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

// under returns the path of segments below a URL, unescaped and escaped.
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

// places are the URLs on both sides of the gateway.
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
		return p, fmt.Errorf("resource %s: requests are distinguished by their paths, so it must not have a query", resource)
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

// parseUpstream parses a URL that has nothing but a scheme, a host and a path. Its errors do not
// repeat the URL, which could contain a password.
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

// back returns the public URL for a URL of the upstream, false if that is not at or below the
// upstream.
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
