package gateway

import (
	"net/http"
	"net/url"
	"strings"
)

// verify answers a request to PathVerify for the resource of the original URL. Its refusals are
// 403, which every proxy passes on.
func (t *Router) verify(w http.ResponseWriter, r *http.Request) {
	host, path, why := t.original(r)
	if why != "" {
		t.refuse(w, r, refusal{status: http.StatusForbidden, description: why})
		return
	}
	parts, err := segments(path)
	if err != nil {
		t.refuse(w, r, refusal{status: http.StatusForbidden, description: "The path could be read in more than one way."})
		return
	}
	g, refused := find(t.hosts[host], parts)
	if g == nil {
		t.refuse(w, r, refusal{status: http.StatusForbidden, description: refused.description})
		return
	}
	g.ServeHTTP(w, r)
}

// original returns the host and the path that the client dialled, as the proxy says, or the reason
// for a refusal. It uses both kinds of headers, so that a client cannot choose the resource by a
// header of the kind that the proxy does not set.
func (t *Router) original(r *http.Request) (host, path, why string) {
	whole, hosts, uris := r.Header["X-Original-Url"], r.Header["X-Forwarded-Host"], r.Header["X-Forwarded-Uri"]
	switch {
	case !t.trusts(r):
		return "", "", "The proxy that asks is not among the trusted proxies."
	case len(whole) > 1 || len(hosts) > 1 || len(uris) > 1:
		return "", "", "The proxy names more than one original URL."
	}
	if len(whole) == 1 {
		var ok bool
		if host, path, ok = partsOf(whole[0]); !ok {
			return "", "", "X-Original-URL is not the URL of a request."
		}
	}
	if !agree(&host, hosts, strings.ToLower) || !agree(&path, uris, withoutQuery) {
		return "", "", "The proxy names two original URLs."
	}
	if host == "" || path == "" {
		return "", "", "The proxy does not say which URL it asks about: it has to send X-Original-URL, or X-Forwarded-Host and X-Forwarded-Uri."
	}
	return host, path, ""
}

// agree sets a part of a URL to the value of a header, if there is one. It returns false if the part
// is set to something else.
func agree(part *string, values []string, read func(string) string) bool {
	if len(values) == 0 {
		return true
	}
	value := read(values[0])
	if *part != "" && *part != value {
		return false
	}
	*part = value
	return true
}

func withoutQuery(uri string) string {
	path, _, _ := strings.Cut(uri, "?")
	return path
}

// partsOf returns the host and the path of a whole URL, false for anything else.
func partsOf(whole string) (host, path string, ok bool) {
	u, err := url.Parse(whole)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return "", "", false
	}
	return strings.ToLower(u.Host), u.EscapedPath(), true
}
