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

// Album fetches and draws pictures in the background, and keeps the results for a while. It is
// safe for concurrent use.
type Album struct {
	fetch   *Fetcher
	limiter *fair.Limiter
	now     func() time.Time

	mu         sync.Mutex
	pending    map[Source]bool
	young, old map[Source]Picture
	bytes      int // of the young half
}

// Source is the address of a picture.
type Source struct {
	// URL is the address.
	URL string
	// Page is any URL of the server that names the picture. It must have the same origin.
	Page string
	// Type is the declared media type, or empty.
	Type string
}

// Picture is a redrawn picture.
type Picture struct {
	PNG []byte
	// Digest identifies the picture by its bytes.
	Digest string

	until time.Time
}

const (
	pictureLife = time.Hour
	// refusedLife is the time until a picture that cannot be shown is fetched again, and
	// missingLife the time until one that could not be fetched is.
	refusedLife = 10 * time.Minute
	missingLife = time.Minute
	// drawTime bounds the time to fetch and draw a picture.
	drawTime = 5 * time.Second
	// albumPictures and albumBytes bound half of an album.
	albumPictures = 2048
	albumBytes    = 8 << 20
	overhead      = 512 // bytes per picture besides its own
)

// The limits on fetches. Successful and failed fetches count alike, because the answer of a
// host does not show whether its address was chosen in good faith.
var (
	perOwner   = fair.Limit{Burst: 5, Per: 10 * time.Minute}
	perHost    = fair.Limit{Burst: 30, Per: time.Minute}
	perNetwork = fair.Limit{Burst: 300, Per: time.Minute}
)

// NewAlbum returns an empty album that fetches with fetch and limits the rate of its own
// fetches. now is the clock; nil means time.Now.
func NewAlbum(fetch Getter, now func() time.Time) *Album {
	if now == nil {
		now = time.Now
	}
	return &Album{fetch: New(fetch), limiter: fair.NewLimiter(now), now: now, pending: map[Source]bool{}}
}

// Want starts to fetch and draw a picture, unless that was done recently, and returns at once.
// owner identifies what names the picture, such as a client. The number of fetches is limited by
// owner, by the requester of ctx ([safefetch.WithRequester]) and by the host of the picture;
// beyond a limit Want does nothing.
func (a *Album) Want(ctx context.Context, s Source, owner string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.known(s); known || a.pending[s] {
		return
	}
	buckets := a.buckets(ctx, s, owner)
	if a.limiter.Take(1, buckets...) > 0 {
		return
	}
	a.pending[s] = true
	go a.run(context.WithoutCancel(ctx), s, buckets)
}

// Ready returns a picture, and whether there is one already that may be shown.
func (a *Album) Ready(s Source) (p Picture, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, _ = a.known(s)
	return p, p.PNG != nil
}

// Pending returns the number of pictures that are being fetched or drawn.
func (a *Album) Pending() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.pending)
}

func (a *Album) buckets(ctx context.Context, s Source, owner string) []fair.Bucket {
	all := []fair.Bucket{{Key: "pictures of " + owner, Limit: perOwner}, {Key: "pictures at " + hostOf(s.URL), Limit: perHost}}
	return append(all, fair.ByNetwork(fair.Requester(ctx), "pictures", perNetwork)...)
}

// run fetches and draws a picture. It recovers panics, because no HTTP handler does so for this
// goroutine and an untrusted picture must not end the process.
func (a *Album) run(ctx context.Context, s Source, buckets []fair.Bucket) {
	ctx, cancel := context.WithTimeout(ctx, drawTime)
	defer cancel()
	var png []byte
	err := errors.New("icon: the fetch panicked")
	defer func() {
		_ = recover()
		a.keep(s, png, err, buckets)
	}()
	png, err = a.fetch.GetURL(ctx, s.URL, s.Page, s.Type)
}

// keep stores the result for a picture. If its turn did not come, it was not fetched and does
// not count.
func (a *Album) keep(s Source, png []byte, err error, buckets []fair.Bucket) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.pending, s)
	if errors.Is(err, fair.ErrBusy) || errors.Is(err, safefetch.ErrBusy) {
		a.limiter.Return(1, buckets...)
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
