package authz

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// paths finds the handler of a request by its path, exactly as the client wrote it: a path that is
// percent-encoded in another way, or has an empty segment or another case, is another path.
type paths struct {
	exact    map[string]http.Handler
	variable []variablePath
	missing  http.Handler
}

// variablePath is a path with one segment that may be anything but empty: `/register/{id}`.
type variablePath struct {
	before, name, after string
	handler             http.Handler
}

// add gives a path to a handler. The first handler of a path keeps it.
func (p *paths) add(path string, h http.Handler) {
	before, rest, variable := strings.Cut(path, "{")
	if variable {
		name, after, _ := strings.Cut(rest, "}")
		p.variable = append(p.variable, variablePath{before, name, after, h})
		return
	}
	if p.exact == nil {
		p.exact = map[string]http.Handler{}
	}
	if p.exact[path] == nil {
		p.exact[path] = h
	}
}

// ServeHTTP hands a request to the handler of its path. A variable segment is the path value of that
// name ([http.Request.PathValue]), as the client wrote it.
func (p *paths) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	h := p.exact[path]
	for i := 0; h == nil && i < len(p.variable); i++ {
		if v := p.variable[i]; v.segment(path) != "" {
			r.SetPathValue(v.name, v.segment(path))
			h = v.handler
		}
	}
	if h == nil {
		h = p.missing
	}
	h.ServeHTTP(w, r)
}

// segment returns the variable segment of a path, and nothing for a path of another form.
func (v variablePath) segment(path string) string {
	rest, begins := strings.CutPrefix(path, v.before)
	segment, ends := strings.CutSuffix(rest, v.after)
	if !begins || !ends || strings.Contains(segment, "/") {
		return ""
	}
	return segment
}

// templates returns the paths as they were added, in order.
func (p *paths) templates() []string {
	all := slices.Collect(maps.Keys(p.exact))
	for _, v := range p.variable {
		all = append(all, v.before+"{"+v.name+"}"+v.after)
	}
	slices.Sort(all)
	return all
}
