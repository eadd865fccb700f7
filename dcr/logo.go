package dcr

import (
	"context"

	"gatehouse.example/message/icon"
	"gatehouse.example/storage"
)

// FetchLogo starts to fetch the logo of a client whose response goes to the redirect URI
// answer, and returns at once. [Clients.Logo] returns the result.
func (cs *Clients) FetchLogo(ctx context.Context, c storage.Client, answer string) {
	if of, ok := cs.logoOf(c, answer); ok && cs.logos != nil {
		cs.logos.Want(ctx, of.source(), "client "+c.ID)
	}
}

// Logo returns the logo of a client whose response goes to the redirect URI answer, as PNG,
// or nil if there is none that can be shown, or none yet. The server fetches and redraws it
// after [Clients.FetchLogo], so that a browser never contacts a client's host, and caches it;
// it also caches failures.
func (cs *Clients) Logo(c storage.Client, answer string) []byte {
	of, ok := cs.logoOf(c, answer)
	if !ok || cs.logos == nil {
		return nil
	}
	picture, _ := cs.logos.Ready(of.source())
	return picture.PNG
}

// logo is the address of a picture, and a page of the client, which must have the same origin.
type logo struct{ url, page string }

func (l logo) source() icon.Source { return icon.Source{URL: l.url, Page: l.page} }
