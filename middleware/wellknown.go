package middleware

import (
	"net/http"
	"slices"
)

// Metadata returns the handler of the protected resource metadata (RFC 9728). It serves the
// document at [Guard.MetadataPaths], and 404 elsewhere. The document names the configured
// resource at each of the paths, also at the root: a client that dialled another resource of
// this host rejects the document (RFC 9728 section 3.3).
func (g *Guard) Metadata() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.admitOrigin(r); err != nil {
			g.refuse(w, r, Event{}, err)
			return
		}
		if !slices.Contains(g.metaPaths, r.URL.EscapedPath()) {
			setCORS(w.Header())
			writeJSON(w, http.StatusNotFound, problem{Description: "There is no metadata document here."})
			return
		}
		g.document.ServeHTTP(w, r)
	})
}

// MetadataPaths returns the paths at which [Guard.Metadata] serves the document: the well-known
// path followed by the path of the resource, then the well-known path alone (RFC 9728 section
// 3.1).
func (g *Guard) MetadataPaths() []string { return slices.Clone(g.metaPaths) }
