package icon

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"sync"
	"time"

	"gatehouse.example/internal/fair"
	"gatehouse.example/safefetch"
)

// Album has pictures fetched and drawn while nobody waits, and shows those that are ready.
// It is safe for concurrent use.
type Album struct {
	fetch   *Fetcher
	limiter *fair.Limiter
	now     func() time.Time

	mu         sync.Mutex
	open       map[Source]bool // under way
	young, old map[Source]Picture
	bytes      int // of the young half
}

// Source is where a picture is.
type Source struct {
	// URL is its address.
	URL string
	// Page is any URL of whoever names it. It has the same origin.
	Page string
	// Type is the media type that it is declared as, if it is.
	Type string
}

// Picture is a picture as PNG until it is looked for again.
type Picture struct {
	PNG []byte
	// Digest names the picture by what it is.
	Digest string

	until time.Time
}

const (
	pictureLife = time.Hour
	// refusedLife is how long a picture that cannot be shown is not asked for again, and
	// missingLife how long one that could not be had.
	refusedLife = 10 * time.Minute
	missingLife = time.Minute
	// drawTime is how long a picture may take from being wanted to being ready.
	drawTime = 5 * time.Second
	// albumPictures and albumBytes bound half of an album.
	albumPictures = 2048
	albumBytes    = 8 << 20
	overhead      = 512 // bytes of what is kept of a picture beside its own
)

// The accounts of what is wanted. They are charged whatever comes of it, because what a
// host answers says nothing about who chose its address.
var (
	perNamer   = fair.Limit{Burst: 5, Per: 10 * time.Minute}
	perHost    = fair.Limit{Burst: 30, Per: time.Minute}
	perNetwork = fair.Limit{Burst: 300, Per: time.Minute}
)

// NewAlbum returns an empty album that fetches with fetch. It bounds by itself what may be
// wanted, in this process. now is the clock; nil means time.Now.
func NewAlbum(fetch Getter, now func() time.Time) *Album {
	if now == nil {
		now = time.Now
	}
	return &Album{fetch: New(fetch), limiter: fair.NewLimiter(now), now: now, open: map[Source]bool{}}
}

// Want has a picture fetched and drawn, if that was not done lately, and does not wait for
// it. named is who names the picture, such as a client. It and the requester of ctx
// ([safefetch.WithRequester]) and the picture's host may cause so many, whatever addresses they choose; what is beyond that is
// not fetched.
func (a *Album) Want(ctx context.Context, s Source, named string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.known(s); known || a.open[s] {
		return
	}
	accounts := a.accounts(ctx, s, named)
	if a.limiter.Take(1, accounts...) > 0 {
		return
	}
	a.open[s] = true
	go a.run(context.WithoutCancel(ctx), s, accounts)
}

// Ready returns a picture, if there is one by now.
func (a *Album) Ready(s Source) (p Picture, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, _ = a.known(s)
	return p, p.PNG != nil
}

// Pending returns how many pictures are on their way.
func (a *Album) Pending() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open)
}

func (a *Album) accounts(ctx context.Context, s Source, named string) []fair.Bucket {
	all := []fair.Bucket{{Key: "pictures of " + named, Limit: perNamer}, {Key: "pictures at " + hostOf(s.URL), Limit: perHost}}
	return append(all, fair.ByNetwork(fair.Requester(ctx), "pictures", perNetwork)...)
}

// run makes a picture. No handler is above this goroutine, and what a stranger drew must
// not end the process.
func (a *Album) run(ctx context.Context, s Source, accounts []fair.Bucket) {
	ctx, cancel := context.WithTimeout(ctx, drawTime)
	defer cancel()
	var png []byte
	err := errors.New("icon: the fetch gave up")
	defer func() {
		_ = recover()
		a.keep(s, png, err, accounts)
	}()
	png, err = a.fetch.GetURL(ctx, s.URL, s.Page, s.Type)
}

// keep writes down what came of a picture. One whose turn did not come was not asked for.
func (a *Album) keep(s Source, png []byte, err error, accounts []fair.Bucket) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, s)
	if errors.Is(err, fair.ErrBusy) || errors.Is(err, safefetch.ErrBusy) {
		a.limiter.Return(1, accounts...)
		return
	}
	a.add(s, newPicture(png, err, a.now()))
}

func newPicture(png []byte, err error, now time.Time) Picture {
	switch {
	case errors.Is(err, ErrRefused):
		return Picture{until: now.Add(refusedLife)}
	case err != nil:
		return Picture{until: now.Add(missingLife)}
	}
	sum := sha256.Sum256(png)
	return Picture{png, base64.RawURLEncoding.EncodeToString(sum[:16]), now.Add(pictureLife)}
}

// known is called with the lock held.
func (a *Album) known(s Source) (Picture, bool) {
	p, young := a.young[s]
	if !young {
		var old bool
		if p, old = a.old[s]; old {
			a.add(s, p)
		}
	}
	if !a.now().Before(p.until) {
		return Picture{}, false
	}
	return p, true
}

// add is called with the lock held. When the young half is full, the old one is dropped.
func (a *Album) add(s Source, p Picture) {
	weight := func(p Picture) int { return len(p.PNG) + len(s.URL) + len(s.Page) + overhead }
	if a.young == nil || len(a.young) >= albumPictures || a.bytes+weight(p) > albumBytes {
		a.old, a.young, a.bytes = a.young, map[Source]Picture{}, 0
	}
	if before, twice := a.young[s]; twice {
		a.bytes -= weight(before)
	}
	a.bytes += weight(p)
	a.young[s] = p
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Hostname()
}
