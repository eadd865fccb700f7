package serve

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"gatehouse.example/registry"
)

// route is the endpoint of a path, with its parameters.
type route struct {
	serve         func(*Handler, *call) error
	api           bool // part of the interface for programs
	name, version string
	digest        string // of an icon
}

var errNoPage = saidRefusal(http.StatusNotFound, "registry.error.noPage")

// resolve returns the route of an escaped path. The path is not cleaned, and an escaped slash
// inside a name is part of the name (requirement R-API-3). Slashes at the end of a path do not
// change its route.
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
		return route{api: p.api}, errNoPage
	}
	return p, nil
}

// Answers reports whether an escaped path belongs to the handler, even if the answer is an
// error. A program uses it to serve the handler and other endpoints on one listener.
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

// isAPI reports whether a path belongs to the interface for programs. Its two versions are
// equal at present.
func isAPI(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return first == "v0.1" || first == "v0"
}

// split returns the segments of a path, each unescaped. There is at least one segment.
func split(path string) ([]string, error) {
	if strings.HasPrefix(path, "//") || path != "" && path[0] != '/' {
		return nil, errNoPage
	}
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for i, s := range segments {
		text, err := url.PathUnescape(s)
		if err != nil || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return nil, &refusal{status: http.StatusBadRequest, detail: "The path is not text."}
		}
		segments[i] = text
	}
	return segments, nil
}

// fixedAPI has the endpoints of the interface without parameters in the path.
var fixedAPI = map[string]func(*Handler, *call) error{
	"servers": (*Handler).list, "schema": (*Handler).schema, "health": (*Handler).health, "ping": (*Handler).ping,
}

func (p *route) findAPI(segments []string) bool {
	if len(segments) == 1 {
		p.serve = fixedAPI[segments[0]]
		return p.serve != nil
	}
	if len(segments) < 3 || segments[0] != "servers" {
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

// takeName sets the name to that at the beginning of segments and returns the other segments.
// A name is one segment with an escaped slash, or two segments, if a proxy has unescaped the
// slash. A segment without a slash is not a name, so a path has only one interpretation.
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

// pagePath returns the path of the page of a server.
func (h *Handler) pagePath(name string) string { return h.prefix + "/servers/" + name }

// picturePath returns the path of an icon of a version.
func (h *Handler) picturePath(name, version, digest string) string {
	return h.prefix + "/icons/" + name + "/" + url.PathEscape(version) + "/" + digest
}

// apiPath returns the path of a version in the interface for programs.
func (h *Handler) apiPath(name, version string) string {
	return h.prefix + "/v0.1/servers/" + url.PathEscape(name) + "/versions/" + url.PathEscape(version)
}
