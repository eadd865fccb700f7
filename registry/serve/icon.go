package serve

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"gatehouse.example/message"
	"gatehouse.example/message/icon"
	"gatehouse.example/registry"
)

// Publishers choose the URLs of icons. The registry fetches icons, redraws them and serves them
// itself, so that the browser of a reader contacts no other host and gets nothing but pixels
// (requirements R-ICO-6 to R-ICO-12).

// chooseIcon returns the icon of a record that is shown. It has the same origin as one of the
// server's URLs. Formats that cannot be shown are not chosen.
func chooseIcon(r registry.Record) (icon.Source, bool) {
	icons := slices.DeleteFunc(r.Icons(), func(i message.Icon) bool {
		return i.Theme == "dark" || i.MIMEType == "image/svg+xml" || !strings.HasPrefix(i.Src, "https://")
	})
	slices.SortStableFunc(icons, func(a, b message.Icon) int { return cmp.Compare(unfit(a), unfit(b)) })
	for _, i := range icons {
		if origin := originOf(r, i.Src); origin != "" {
			return icon.Source{URL: i.Src, Page: origin, Type: i.MIMEType}, true
		}
	}
	return icon.Source{}, false
}

// originOf returns the URL of the server that has the same origin as an icon, "" if there is
// none. Requirement R-ICO-10 demands the same origin. A URL with variables in its host has no
// origin.
func originOf(r registry.Record, src string) string {
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

// sharesOrigin reports whether two URLs have the same origin (RFC 6454 section 5).
func sharesOrigin(a, b string) bool {
	first, err := url.Parse(a)
	second, wrong := url.Parse(b)
	return err == nil && wrong == nil && first.Host != "" && strings.EqualFold(first.Scheme, second.Scheme) &&
		strings.EqualFold(first.Hostname(), second.Hostname()) && portOf(first) == portOf(second)
}

func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"https": "443", "http": "80"}[strings.ToLower(u.Scheme)])
}

// wantedSide is the preferred side of an icon in pixels.
const wantedSide = 96

// unfit returns a number that is lower the better the best size of an icon fits.
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

// misfit returns a number that is lower the better a size fits: the preferred side is best, and
// larger sides are better than smaller ones.
func misfit(size string) int {
	width, _, _ := strings.Cut(size, "x")
	side, err := strconv.Atoi(width)
	switch {
	case err != nil: // the size "any"
		return 0
	case side >= wantedSide:
		return side - wantedSide
	}
	return 4096 * (wantedSide - side)
}

// picture serves GET /icons/{name}/{version}/{digest}. The answer never changes, because a
// changed icon has another digest.
func (h *Handler) picture(c *call) error {
	leave, err := h.place(c)
	if err != nil {
		return err
	}
	defer leave()
	entry, err := h.entry(c.ctx, c.name, c.version, view{})
	if err != nil {
		return err
	}
	r, err := h.ownMeta.split(entry)
	if err != nil {
		return err
	}
	item, err := r.item()
	if err != nil {
		return err
	}
	p, ok := h.ready(c.ctx, item)
	if !ok || p.Digest != c.digest {
		return errNoPage
	}
	header := c.w.Header()
	header.Set("Cache-Control", "max-age=31536000, immutable")
	header.Set("Content-Security-Policy", "default-src 'none'")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	c.send(http.StatusOK, "image/png", p.PNG)
	return nil
}

// ready returns the icon of an item if it is available. Otherwise the icon is fetched in the
// background, for later requests.
func (h *Handler) ready(ctx context.Context, item registry.Item) (icon.Picture, bool) {
	of, ok := chooseIcon(item.Record)
	if !ok || h.icons == nil {
		return icon.Picture{}, false
	}
	h.icons.Want(ctx, of, item.Record.Name())
	return h.icons.Ready(of)
}
