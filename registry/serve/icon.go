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

// Icons are pictures that strangers point at. They are fetched by us, drawn anew and served
// from here, so that whoever looks at a page contacts nobody else and gets nothing but
// pixels (requirements R-ICO-6 to R-ICO-12).

// depict chooses the icon of a record: where it is, which has the same origin as one of the
// server's own URLs. Those that could not be shown are no choice.
func depict(r registry.Record) (icon.Source, bool) {
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

// originOf returns what of the server's own URLs has the origin of an icon, "" if none has
// (requirement R-ICO-10). A URL with variables in its host
// has none.
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
	p, ok := h.ready(c.ctx, item)
	if !ok || p.Digest != c.digest {
		return errNothing
	}
	header := c.w.Header()
	header.Set("Cache-Control", "max-age=31536000, immutable")
	header.Set("Content-Security-Policy", "default-src 'none'")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	c.send(http.StatusOK, "image/png", p.PNG)
	return nil
}

// ready returns the picture of an item if it is there. Otherwise it will be, if it can be
// shown: nobody waits for it.
func (h *Handler) ready(ctx context.Context, item registry.Item) (icon.Picture, bool) {
	of, ok := depict(item.Record)
	if !ok || h.icons == nil {
		return icon.Picture{}, false
	}
	h.icons.Want(ctx, of, item.Record.Name())
	return h.icons.Ready(of)
}
