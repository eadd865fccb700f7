package serve

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"gatehouse.example/registry"
)

// route is what a path leads to.
type route struct {
	serve         func(*Handler, *call) error
	api           bool // for programs
	name, version string
	digest        string // of an icon
}

var errNothing = &refusal{http.StatusNotFound, "There is nothing here."}

// resolve returns where an escaped path leads to. A path is taken as it came: nothing
// is cleaned, and a slash inside a name stays what it is (requirement R-API-3). One more
// slash behind a path that leads somewhere leads to the same place.
func resolve(path string) (route, error) {
	segments, err := split(path)
	if err != nil {
		return route{api: isAPI(path)}, err
	}
	p := route{api: isAPI(path), serve: (*Handler).home}
	var ok bool
	switch first := segments[0]; {
	case p.api:
		ok = p.findAPI(segments[1:])
	case first == "servers":
		ok = p.findPage(segments[1:])
	case first == "icons":
		ok = p.findIcon(segments[1:])
	default:
		ok = first == "" && len(segments) == 1
	}
	if !ok {
		return route{api: p.api}, errNothing
	}
	return p, nil
}

// Answers reports whether an escaped path is for the handler, whatever it answers there, so
// that it can share a listener with something else.
func (h *Handler) Answers(path string) bool {
	path, inside := strings.CutPrefix(path, h.prefix)
	if !inside || path != "" && path[0] != '/' {
		return false
	}
	switch first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/"); first {
	case "v0.1", "v0", "servers", "icons":
		return true
	case "":
		return len(path) <= 1
	}
	return h.prefix != ""
}

// isAPI reports a path of the interface. Both versions of it are the same at present.
func isAPI(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return first == "v0.1" || first == "v0"
}

// split returns the segments of a path, each unescaped. There is at least one.
func split(path string) ([]string, error) {
	if strings.HasPrefix(path, "//") || path != "" && path[0] != '/' {
		return nil, errNothing
	}
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for i, s := range segments {
		text, err := url.PathUnescape(s)
		if err != nil || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return nil, &refusal{http.StatusBadRequest, "The path is not text."}
		}
		segments[i] = text
	}
	return segments, nil
}

func (p *route) findAPI(segments []string) bool {
	switch {
	case len(segments) == 1 && segments[0] == "servers":
		p.serve = (*Handler).list
		return true
	case len(segments) == 1 && segments[0] == "schema":
		p.serve = (*Handler).schema
		return true
	case len(segments) == 1 && segments[0] == "health":
		p.serve = (*Handler).health
		return true
	case len(segments) == 1 && segments[0] == "ping":
		p.serve = (*Handler).ping
		return true
	case len(segments) < 3 || segments[0] != "servers":
		return false
	}
	rest, ok := p.takeName(segments[1:])
	switch {
	case !ok || len(rest) == 0 || rest[0] != "versions":
		return false
	case len(rest) == 1:
		p.serve = (*Handler).versions
		return true
	}
	p.serve, p.version = (*Handler).detail, rest[1]
	return len(rest) == 2 && p.version != ""
}

// takeName takes the name of a server from the beginning of segments. It is one segment
// with an escaped slash in it, as it should be, or two of them, as proxies that unescape it
// make of it. One segment without a slash in it is no name, so there is one way to read it.
func (p *route) takeName(segments []string) (rest []string, ok bool) {
	if len(segments) == 0 {
		return nil, false
	}
	p.name, rest = segments[0], segments[1:]
	if !strings.Contains(p.name, "/") && len(rest) > 0 {
		p.name, rest = p.name+"/"+rest[0], rest[1:]
	}
	return rest, registry.ValidName(p.name)
}

func (p *route) findPage(segments []string) bool {
	p.serve = (*Handler).serverPage
	rest, ok := p.takeName(segments)
	return ok && len(rest) == 0
}

func (p *route) findIcon(segments []string) bool {
	p.serve = (*Handler).picture
	rest, ok := p.takeName(segments)
	if !ok || len(rest) != 2 {
		return false
	}
	p.version, p.digest = rest[0], rest[1]
	return true
}

// pagePath is where the page of a server is, and picturePath where a picture of it is.
func (h *Handler) pagePath(name string) string { return h.prefix + "/servers/" + name }

func (h *Handler) picturePath(name, version, digest string) string {
	return h.prefix + "/icons/" + name + "/" + url.PathEscape(version) + "/" + digest
}

// apiPath is where a version of a server is for programs.
func (h *Handler) apiPath(name, version string) string {
	return h.prefix + "/v0.1/servers/" + url.PathEscape(name) + "/versions/" + url.PathEscape(version)
}
