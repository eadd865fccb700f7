package dcr

import (
	"context"

	"gatehouse.example/message/icon"
	"gatehouse.example/storage"
)

// FetchLogo begins to fetch the logo of a client whose answer goes to a redirect URI, so that
// it is there when somebody asks. It does not wait.
func (cs *Clients) FetchLogo(ctx context.Context, c storage.Client, answer string) {
	if of, ok := cs.logoOf(c, answer); ok && cs.logos != nil {
		cs.logos.Want(ctx, of.source(), "client "+c.ID)
	}
}

// Logo returns the logo of a client whose answer goes to a redirect URI, as PNG, or nil if
// there is none that can be shown, or none yet. It is fetched and drawn anew here after [Clients.FetchLogo], so that a browser
// never contacts a client's host, and kept for a while, as is that there was none.
func (cs *Clients) Logo(c storage.Client, answer string) []byte {
	of, ok := cs.logoOf(c, answer)
	if !ok || cs.logos == nil {
		return nil
	}
	picture, _ := cs.logos.Ready(of.source())
	return picture.PNG
}

// logo is the address of a picture, and a page of whoever named it, which must have the
// same origin.
type logo struct{ url, page string }

func (l logo) source() icon.Source { return icon.Source{URL: l.url, Page: l.page} }
