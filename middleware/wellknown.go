package middleware

import (
	"net/http"
	"slices"
)

// Metadata returns the handler of the protected resource metadata (RFC 9728). It
// answers at [Guard.MetadataPaths] and gives 404 elsewhere. The document names the
// configured resource at each of the paths, also at the root: a client that dialled
// another resource of this host sees that the document is not about it (RFC 9728
// section 3.3).
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

// MetadataPaths returns the paths at which [Guard.Metadata] answers: the well-known
// path with the path of the resource after it, then the well-known path alone (RFC 9728
// section 3.1).
func (g *Guard) MetadataPaths() []string { return slices.Clone(g.metaPaths) }
