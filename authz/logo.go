package authz

import (
	"context"
	"maps"
	"net/http"

	"gatehouse.example/storage"
	"gatehouse.example/templates"
)

// logo handles GET /logo: the logo of the client of a transaction, for the browser of that
// transaction.
func (s *Server) logo(w http.ResponseWriter, r *http.Request) error {
	f, err := pageForm.parse(r.URL.RawQuery)
	if err != nil {
		return malformed(err.Error())
	}
	v, err := s.visit(r, f.get("transaction"))
	if err != nil {
		return err
	}
	client, err := v.requestingClient(r.Context())
	if err != nil {
		return err
	}
	png := s.clients.Logo(client, v.t.RedirectURI)
	if png == nil {
		w.WriteHeader(http.StatusNotFound)
		return nil
	}
	h := w.Header()
	h.Set("Content-Type", "image/png")
	h.Set("Content-Security-Policy", "default-src 'none'")
	_, _ = w.Write(png)
	return nil
}

// ownLogo handles GET /pages/logo: the logo of the operator, the same for everybody.
func (s *Server) ownLogo(w http.ResponseWriter, _ *http.Request) {
	maps.Copy(w.Header(), templates.LogoHeader())
	_, _ = w.Write(s.cfg.Pages.Logo)
}

// logoPath returns the path of the logo for the page of a transaction, or "" if there is
// none. Pages do not wait for a logo: the fetch begins at the authorization request, or now
// at the latest, and a later page shows the logo.
func (s *Server) logoPath(ctx context.Context, client storage.Client, t storage.Transaction) string {
	s.clients.FetchLogo(ctx, client, t.RedirectURI)
	if s.clients.Logo(client, t.RedirectURI) == nil {
		return ""
	}
	return s.path("/logo") + "?transaction=" + t.ID
}
