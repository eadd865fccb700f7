package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gatehouse.example/message"
	"gatehouse.example/message/icon"
)

// Icons are pictures that strangers point at. They are fetched by us, drawn anew and served
// from here, so that whoever looks at a page contacts nobody else and gets nothing but
// pixels (seed, Security rules for consumers of icon metadata).

// depicted is an icon that may be fetched: its URL has the same origin as one of the server's own.
type depicted struct {
	icon   message.Icon
	origin string
}

func (d depicted) key() string { return d.icon.Src + " " + d.icon.MIMEType } // no URL has a space

// depict chooses the icon of a record. Those that could not be shown are no choice.
func depict(r Record) (depicted, bool) {
	icons := slices.DeleteFunc(r.Icons(), func(i message.Icon) bool {
		return i.Theme == "dark" || i.MIMEType == "image/svg+xml" || !strings.HasPrefix(i.Src, "https://")
	})
	slices.SortStableFunc(icons, func(a, b message.Icon) int { return cmp.Compare(unfit(a), unfit(b)) })
	for _, i := range icons {
		if origin := originOf(r, i.Src); origin != "" {
			return depicted{i, origin}, true
		}
	}
	return depicted{}, false
}

// originOf returns what of the server's own URLs has the origin of an icon, "" if none has
// (seed, Security rules for consumers of icon metadata 5). A URL with variables in its host
// has none.
func originOf(r Record, src string) string {
	own := []string{r.Website()}
	for _, remote := range r.Remotes() {
		own = append(own, remote.URL)
	}
	for _, candidate := range own {
		if sharesOrigin(candidate, src) {
			return candidate
		}
	}
	return ""
}

// sharesOrigin compares the origins of two URLs (RFC 6454 section 5).
func sharesOrigin(a, b string) bool {
	first, err := url.Parse(a)
	second, wrong := url.Parse(b)
	return err == nil && wrong == nil && first.Host != "" && strings.EqualFold(first.Scheme, second.Scheme) &&
		strings.EqualFold(first.Hostname(), second.Hostname()) && portOf(first) == portOf(second)
}

func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"https": "443", "http": "80"}[strings.ToLower(u.Scheme)])
}

// wantedSide is how large an icon is best, in pixels.
const wantedSide = 96

// unfit is the lower the better an icon fits by its sizes.
func unfit(i message.Icon) int {
	if len(i.Sizes) == 0 {
		return wantedSide
	}
	best := misfit(i.Sizes[0])
	for _, size := range i.Sizes[1:] {
		best = min(best, misfit(size))
	}
	return best
}

// misfit is the lower the better a size fits: large enough, and no larger.
func misfit(size string) int {
	width, _, _ := strings.Cut(size, "x")
	side, err := strconv.Atoi(width)
	switch {
	case err != nil: // any
		return 0
	case side >= wantedSide:
		return side - wantedSide
	}
	return 4096 * (wantedSide - side)
}

// icons are pictures that were fetched.
type icons struct {
	fetch *icon.Fetcher
	now   func() time.Time

	mu    sync.Mutex
	kept  shelf
	open  map[string]chan struct{} // closed when the fetch has ended
	begun int                      // fetches in the minute
	since time.Time
}

const (
	// maxOpenIcons is how many fetches are under way at once, maxIconsPerMinute how many
	// begin in a minute: whoever goes through all pages does not make us fetch all icons.
	maxOpenIcons      = 32
	maxIconsPerMinute = 300
	iconTime          = time.Hour
	noIconTime        = 10 * time.Minute
	iconFetchTime     = 3 * time.Second
	// iconWait is how long a page waits for its icons. Later ones are there next time.
	iconWait = 500 * time.Millisecond
)

func newIcons(fetch icon.Getter, now func() time.Time) *icons {
	return &icons{fetch: icon.New(fetch), now: now, open: map[string]chan struct{}{}}
}

// get returns a picture, or none if there is none before ctx ends.
func (i *icons) get(ctx context.Context, of depicted) picture {
	select {
	case <-i.board(of):
	case <-ctx.Done():
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	p, _ := i.known(of)
	return p
}

// board returns what is closed when it is known whether there is a picture, after beginning
// to fetch it if nobody does.
func (i *icons) board(of depicted) <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	if under := i.open[of.key()]; under != nil {
		return under
	}
	under := make(chan struct{})
	if _, known := i.known(of); known || !i.may() {
		close(under)
		return under
	}
	i.open[of.key()] = under
	go i.run(of, under)
	return under
}

// may takes one fetch from the budget. It is called with the lock held.
func (i *icons) may() bool {
	if now := i.now(); now.Sub(i.since) >= time.Minute || now.Before(i.since) {
		i.since, i.begun = now, 0
	}
	if len(i.open) >= maxOpenIcons || i.begun >= maxIconsPerMinute {
		return false
	}
	i.begun++
	return true
}

// run fetches a picture, whoever still waits for it. No handler is above this goroutine, and
// what a stranger drew must not end the process.
func (i *icons) run(of depicted, under chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), iconFetchTime)
	defer cancel()
	var png []byte
	defer func() {
		_ = recover()
		i.mu.Lock()
		defer i.mu.Unlock()
		i.kept.put(of.key(), newPicture(png, i.now()))
		delete(i.open, of.key())
		close(under)
	}()
	png, _ = i.fetch.Get(ctx, of.icon, of.origin)
}

// known is called with the lock held.
func (i *icons) known(of depicted) (picture, bool) {
	p, ok := i.kept.get(of.key())
	return p, ok && i.now().Before(p.until)
}

// picture is a picture as PNG until it is looked for again. Without a digest it says that
// there is none.
type picture struct {
	png    []byte
	digest string
	until  time.Time
}

func newPicture(png []byte, now time.Time) picture {
	if png == nil {
		return picture{until: now.Add(noIconTime)}
	}
	sum := sha256.Sum256(png)
	return picture{png, base64.RawURLEncoding.EncodeToString(sum[:16]), now.Add(iconTime)}
}

// shelf is a map of bounded size. When its young half is full, the old one is dropped.
type shelf struct {
	young, old map[string]picture
	bytes      int // of the young half
}

const (
	shelfPictures = 2048
	shelfBytes    = 16 << 20
)

func (s *shelf) get(key string) (picture, bool) {
	if p, ok := s.young[key]; ok {
		return p, true
	}
	p, ok := s.old[key]
	if ok {
		s.put(key, p)
	}
	return p, ok
}

func (s *shelf) put(key string, p picture) {
	if s.young == nil || len(s.young) >= shelfPictures || s.bytes+len(p.png) > shelfBytes {
		s.old, s.young, s.bytes = s.young, map[string]picture{}, 0
	}
	s.bytes += len(p.png) - len(s.young[key].png)
	s.young[key] = p
}

// picture is GET /icons/{name}/{version}/{digest}: a picture that never changes, because a
// changed one has another digest.
func (h *Handler) picture(c *call) error {
	entry, err := h.entry(c.ctx, c.name, c.version, view{})
	if err != nil {
		return err
	}
	r, err := h.speaks.take(entry)
	if err != nil {
		return err
	}
	item, err := r.item()
	if err != nil {
		return err
	}
	of, ok := depict(item.Record)
	if !ok || h.icons == nil {
		return errNothing
	}
	p := h.icons.get(c.ctx, of)
	if p.digest == "" || p.digest != c.digest {
		return errNothing
	}
	header := c.w.Header()
	header.Set("Cache-Control", "max-age=31536000, immutable")
	header.Set("Content-Security-Policy", "default-src 'none'")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	c.send(http.StatusOK, "image/png", p.png)
	return nil
}
