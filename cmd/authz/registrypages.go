package main

import (
	"maps"
	"net/http"

	"gatehouse.example/templates"
)

// readPages sets the look of a separate registry: the section pages of its file, or of the file of
// an authorization server.
func (v *registryServe) readPages() error {
	if v.file == nil {
		return nil
	}
	section, err := pagesIn(v.file)
	v.pages = section.look
	v.pages.LogoPath = v.logoPath() + "?v=" + v.pages.LogoTag()
	return err
}

// logoPath is where a separate registry serves the logo.
func (v *registryServe) logoPath() string { return pathOf(v.Resource) + "/pages/logo" }

// withLogo serves the operator's logo, and passes every other request to next. The logo needs no
// token: it says nothing about the catalogue.
func (v *registryServe) withLogo(next http.Handler) http.Handler {
	if len(v.pages.Logo) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != v.logoPath() {
			next.ServeHTTP(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the logo can only be read", http.StatusMethodNotAllowed)
			return
		}
		maps.Copy(w.Header(), templates.LogoHeader())
		_, _ = w.Write(v.pages.Logo)
	})
}
