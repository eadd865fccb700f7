package dcr

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"gatehouse.example/message/icon"
	"gatehouse.example/storage"
)

// HasLogo reports whether a client names a logo that may be fetched: a document vouches
// for pictures of its own origin, everybody else for those of their client_uri's.
func (r *Registry) HasLogo(c storage.Client) bool {
	_, ok := logoOf(c)
	return ok && r.logos != nil
}

// Logo returns the logo of a client as PNG, or nil if there is none that can be shown. It
// is fetched and drawn anew here, so that a browser never contacts a client's host, and
// kept for a while, as is that there was none.
func (r *Registry) Logo(ctx context.Context, c storage.Client) []byte {
	of, ok := logoOf(c)
	if !ok || r.logos == nil {
		return nil
	}
	return r.logos.get(ctx, of)
}

// logo is the address of a picture, and a page of whoever named it, which must have the
// same origin.
type logo struct{ url, page string }

func logoOf(c storage.Client) (logo, bool) {
	l := logo{url: c.Metadata.LogoURI, page: c.Metadata.ClientURI}
	if c.Source == storage.ClientDocument {
		l.page = c.ID
	}
	return l, l.url != "" && l.page != ""
}

// logos are pictures that were fetched.
type logos struct {
	fetch *icon.Fetcher
	now   func() time.Time

	mu   sync.Mutex
	kept map[logo]drawn
}

// drawn is a picture as PNG, nil if there is none, until it is looked for again.
type drawn struct {
	png   []byte
	until time.Time
}

const (
	maxLogos      = 256 // of at most 64 KiB each
	logoTime      = time.Hour
	noLogoTime    = time.Minute
	logoFetchTime = 3 * time.Second
)

func newLogos(fetch icon.Getter, now func() time.Time) *logos {
	return &logos{fetch: icon.New(fetch), now: now, kept: map[logo]drawn{}}
}

func (l *logos) get(ctx context.Context, of logo) []byte {
	if d, ok := l.known(of); ok {
		return d.png
	}
	ctx, cancel := context.WithTimeout(ctx, logoFetchTime)
	defer cancel()
	png, _ := l.fetch.GetURL(ctx, of.url, of.page)
	if png == nil && errors.Is(ctx.Err(), context.Canceled) {
		return nil // whoever asked has gone, which says nothing about the logo
	}
	l.keep(of, png)
	return png
}

func (l *logos) known(of logo) (drawn, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, ok := l.kept[of]
	return d, ok && l.now().Before(d.until)
}

// keep makes room for a logo: the ones that are too old go, then any.
func (l *logos) keep(of logo, png []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, life := l.now(), logoTime
	if png == nil {
		life = noLogoTime
	}
	if len(l.kept) >= maxLogos {
		maps.DeleteFunc(l.kept, func(_ logo, d drawn) bool { return !now.Before(d.until) })
	}
	for other := range l.kept {
		if len(l.kept) < maxLogos {
			break
		}
		delete(l.kept, other)
	}
	l.kept[of] = drawn{png, now.Add(life)}
}
