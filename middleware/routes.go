package middleware

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gatehouse.example/internal/lookalike"
)

// routes are the rules of [Policy.Routes].
type routes struct {
	written routeSet
	// folded has the patterns in lowercase: servers exist that ignore the case of paths.
	folded  routeSet
	literal [256]bool // the bytes that patterns have outside of wildcards
}

// routeSet finds the pattern of a request, as [http.ServeMux] does.
type routeSet struct {
	mux    *http.ServeMux
	scopes map[string][]string // by pattern
}

// newRoutes returns the rules for patterns, nil without any.
func newRoutes(named map[string][]string) (*routes, error) {
	if len(named) == 0 {
		return nil, nil
	}
	written, folded := map[string][]string{}, map[string][]string{}
	for pattern, scopes := range named {
		lower := foldRoute(pattern)
		written[pattern] = once(scopes)
		folded[lower] = union(folded[lower], once(scopes))
	}
	out := new(routes)
	for pattern := range named {
		for _, c := range []byte(withoutWildcards(pathOfRoute(pattern))) {
			out.literal[c] = true
		}
	}
	var err, err2 error
	out.written, err = newRouteSet(written)
	if out.folded, err2 = newRouteSet(folded); err == nil && err2 != nil {
		err = fmt.Errorf("in lowercase, as some servers read paths: %w", err2)
	}
	return out, err
}

// registered is where a pattern was registered, in messages of http.ServeMux.
var registered = regexp.MustCompile(` \(registered at [^)]*\)`)

func newRouteSet(scopes map[string][]string) (set routeSet, err error) {
	defer func() {
		if why := recover(); why != nil { // two patterns conflict
			err = errors.New(registered.ReplaceAllString(fmt.Sprint(why), ""))
		}
	}()
	set = routeSet{http.NewServeMux(), scopes}
	for _, pattern := range slices.Sorted(maps.Keys(scopes)) {
		set.mux.Handle(pattern, http.NotFoundHandler())
	}
	return set, nil
}

// find returns the pattern for a decoded path, and its scopes, false without one.
func (s *routeSet) find(method, path string) (pattern string, scopes []string, ok bool) {
	_, pattern = s.mux.Handler(&http.Request{Method: method, URL: &url.URL{Path: path}})
	scopes, ok = s.scopes[pattern]
	return pattern, scopes, ok
}

// needs returns the pattern for a decoded path, and the scopes of all readings of it. It returns
// false if no pattern matches the path as it is.
func (rs *routes) needs(method, path string) (pattern string, scopes []string, ok bool) {
	pattern, scopes, ok = rs.written.find(method, path)
	if !ok {
		return "", nil, false
	}
	for _, folded := range append(lookalike.Foldings(path), lookalike.Path(path)) {
		for _, reading := range routeReadings(folded) {
			found, more, _ := rs.folded.find(method, reading)
			scopes = union(union(scopes, more), rs.folded.beside(found, method, reading))
		}
	}
	return pattern, scopes, true
}

// beside returns the scopes of the closest patterns that match a path which [http.ServeMux] would
// redirect to the one with a slash, of the pattern found: other servers do not redirect.
func (s *routeSet) beside(found, method, path string) (scopes []string) {
	if strings.HasSuffix(path, "/") || strings.Count(pathOfRoute(found), "/") != strings.Count(path, "/")+1 {
		return nil
	}
	closest := 0
	for pattern, needed := range s.scopes {
		if n := strings.Count(pattern, "/"); n >= closest && below(pattern, method, path) {
			if n > closest {
				scopes = nil
			}
			closest, scopes = n, union(scopes, needed)
		}
	}
	slices.Sort(scopes)
	return scopes
}

// below reports whether a pattern for all that is below a path matches another path.
func below(pattern, method, path string) bool {
	named, pattern, ok := strings.Cut(pattern, " ")
	if !ok {
		named, pattern = "", named
	}
	if named != "" && named != method && (named != http.MethodGet || method != http.MethodHead) {
		return false
	}
	parts, others := strings.Split(pattern, "/"), strings.Split(path, "/")
	last := len(parts) - 1
	if parts[last] != "" && !strings.HasSuffix(parts[last], "...}") || len(others) <= last {
		return false
	}
	for i, part := range parts[:last] {
		if part != others[i] && !strings.HasPrefix(part, "{") {
			return false
		}
	}
	return true
}

// routeReadings returns what servers may take a folded path for: they ignore a slash at the end, or
// the ending of a name, which selects a format in some frameworks.
func routeReadings(path string) []string {
	out := []string{path}
	bare := strings.TrimSuffix(path, "/")
	if bare != path {
		out = append(out, bare)
	} else {
		out = append(out, path+"/")
	}
	name := strings.LastIndexByte(bare, '/') + 1
	if first := strings.IndexByte(bare[name:], '.'); first > 0 {
		out = append(out, bare[:name+first])
		if last := strings.LastIndexByte(bare, '.'); last > name+first {
			out = append(out, bare[:last])
		}
	}
	return slices.DeleteFunc(out, func(reading string) bool { return reading == "" })
}

// foldRoute returns a pattern in lowercase, with wildcards that are named by their place, so that
// patterns that match the same paths are equal.
func foldRoute(pattern string) string {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = "", pattern
	} else {
		method += " "
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		switch {
		case segment == "{$}":
		case strings.HasSuffix(segment, "...}"):
			segments[i] = "{w" + strconv.Itoa(i) + "...}"
		case strings.HasPrefix(segment, "{"):
			segments[i] = "{w" + strconv.Itoa(i) + "}"
		default:
			segments[i] = strings.ToLower(segment)
		}
	}
	return method + strings.Join(segments, "/")
}

// pathOfRoute returns a pattern without its method.
func pathOfRoute(pattern string) string {
	_, path, ok := strings.Cut(pattern, " ")
	if !ok {
		return pattern
	}
	return path
}

func withoutWildcards(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if strings.HasPrefix(segment, "{") {
			segments[i] = ""
		}
	}
	return strings.Join(segments, "/")
}

// validRoutes finds mistakes in [Policy.Routes].
func (p *Policy) validRoutes() error {
	if len(p.Routes) == 0 {
		return nil
	}
	if p.ReadsMessages() {
		return errors.New("policy: routes: they are for handlers without messages of the protocol: protect a server of the protocol by a guard of its own, with Methods, Tools, Prompts and Resources")
	}
	var errs []error
	for _, pattern := range slices.Sorted(maps.Keys(p.Routes)) {
		if err := validRoute(pattern); err != nil {
			errs = append(errs, fmt.Errorf("policy: routes: %q: %w", pattern, err))
		}
	}
	if len(errs) == 0 {
		if _, err := newRoutes(p.Routes); err != nil {
			errs = append(errs, fmt.Errorf("policy: routes: %w", err))
		}
	}
	return errors.Join(errs...)
}

func validRoute(pattern string) error {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = "GET", pattern
	}
	switch {
	case !isRouteMethod(method):
		return errors.New(`a pattern is a path, or a method in capitals, one space and a path, such as "GET /notes/{id}"`)
	case method == http.MethodOptions || method == http.MethodConnect:
		return fmt.Errorf("%s never reaches the handler", method)
	case !strings.HasPrefix(path, "/"):
		return errors.New("the path begins with a slash: a guard is for one resource, so patterns have no host")
	case strings.Contains(path, "//"):
		return errors.New("a segment of the path is empty")
	}
	for _, segment := range strings.Split(path, "/") {
		if err := validRouteSegment(segment); err != nil {
			return err
		}
	}
	return nil
}

func validRouteSegment(segment string) error {
	if strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "}") {
		return nil // http.ServeMux has an error for what is wrong inside
	}
	if segment != "" && strings.Trim(segment, ".") == "" {
		return errors.New("a segment of the path consists of dots")
	}
	for i := range len(segment) {
		if !isPathByte(segment[i]) {
			return fmt.Errorf("%q cannot be in a pattern: it has many spellings, of which a server may use another one; take a wildcard for a whole segment", segment[i])
		}
	}
	return nil
}
