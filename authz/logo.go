package authz

import (
	"context"
	"net/http"

	"gatehouse.example/storage"
)

// logo is GET /logo: the logo of the client of a transaction, for the browser that it
// belongs to.
func (s *Server) logo(w http.ResponseWriter, r *http.Request) error {
	f, err := pageForm.parse(r.URL.RawQuery)
	if err != nil {
		return malformed(err.Error())
	}
	t, err := s.transaction(r, f.get("transaction"))
	if err != nil {
		return err
	}
	client, err := s.requestingClient(r.Context(), t.ClientID)
	if err != nil {
		return err
	}
	png := s.clients.Logo(client, t.RedirectURI)
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

// logoPath is where the page of a transaction finds the logo, empty if there is none. No
// page waits for one: the fetch began with the sign-in, at the latest begins now, and a
// logo that is not there yet is there the next time.
func (s *Server) logoPath(ctx context.Context, client storage.Client, t storage.Transaction) string {
	s.clients.FetchLogo(ctx, client, t.RedirectURI)
	if s.clients.Logo(client, t.RedirectURI) == nil {
		return ""
	}
	return s.path("/logo") + "?transaction=" + t.ID
}
