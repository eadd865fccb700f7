package dcr

import (
	"context"
	"sync"
	"time"

	"gatehouse.example/message/icon"
	"gatehouse.example/storage"
)

// FetchLogo begins to fetch the logo of a client, so that it is there when somebody asks.
func (r *Registry) FetchLogo(c storage.Client) {
	if of, ok := r.logoOf(c); ok && r.logos != nil {
		r.logos.board(of)
	}
}

// Logo returns the logo of a client as PNG, or nil if there is none that can be shown, or
// none before ctx ends. It is fetched and drawn anew here, so that a browser never contacts
// a client's host, and kept for a while, as is that there was none.
func (r *Registry) Logo(ctx context.Context, c storage.Client) []byte {
	of, ok := r.logoOf(c)
	if !ok || r.logos == nil {
		return nil
	}
	return r.logos.get(ctx, of)
}

// logo is the address of a picture, and a page of whoever named it, which must have the
// same origin.
type logo struct{ url, page string }

func (l logo) key() string { return l.url + " " + l.page } // no URL has a space

// logos are pictures that were fetched.
type logos struct {
	fetch *icon.Fetcher
	now   func() time.Time

	kept *generations[drawn]
	mu   sync.Mutex
	open map[logo]chan struct{} // closed when the fetch has ended
}

// drawn is a picture as PNG, nil if there is none, until it is looked for again.
type drawn struct {
	png   []byte
	until time.Time
}

const (
	// keptLogos and keptLogoBytes bound one generation of pictures.
	keptLogos     = 1024
	keptLogoBytes = 8 << 20
	maxOpenLogos  = 32
	logoTime      = time.Hour
	noLogoTime    = time.Minute
	logoFetchTime = 3 * time.Second
)

func newLogos(fetch icon.Getter, now func() time.Time) *logos {
	return &logos{fetch: icon.New(fetch), now: now, kept: newGenerations[drawn](keptLogos, keptLogoBytes), open: map[logo]chan struct{}{}}
}

func (l *logos) get(ctx context.Context, of logo) []byte {
	select {
	case <-l.board(of):
	case <-ctx.Done():
	}
	d, _ := l.known(of)
	return d.png
}

// board returns what is closed when it is known whether there is a logo, after beginning
// to fetch it if nobody does. With too many under way nothing is begun.
func (l *logos) board(of logo) <-chan struct{} {
	_, known := l.known(of)
	l.mu.Lock()
	defer l.mu.Unlock()
	if under := l.open[of]; under != nil {
		return under
	}
	under := make(chan struct{})
	if known || len(l.open) >= maxOpenLogos {
		close(under)
		return under
	}
	l.open[of] = under
	go l.run(of, under)
	return under
}

// run fetches a logo, whoever still waits for it. No handler is above this goroutine, and
// what a stranger drew must not end the process.
func (l *logos) run(of logo, under chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), logoFetchTime)
	defer cancel()
	var png []byte
	defer func() {
		_ = recover()
		l.keep(of, png)
		l.mu.Lock()
		delete(l.open, of)
		l.mu.Unlock()
		close(under)
	}()
	png, _ = l.fetch.GetURL(ctx, of.url, of.page)
}

func (l *logos) known(of logo) (drawn, bool) {
	d, ok := l.kept.get(of.key())
	return d, ok && l.now().Before(d.until)
}

func (l *logos) keep(of logo, png []byte) {
	life := logoTime
	if png == nil {
		life = noLogoTime
	}
	l.kept.put(of.key(), drawn{png, l.now().Add(life)}, len(png))
}
