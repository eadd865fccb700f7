package serve

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"gatehouse.example/registry"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/templates"
)

// home serves GET /: a list of the latest version of each server that is not deleted.
func (h *Handler) home(c *call) error {
	p, err := parameters(c.r.URL.RawQuery, "search", "cursor")
	if err != nil {
		return err
	}
	leave, err := h.place(c)
	if err != nil {
		return err
	}
	defer leave()
	st, err := h.catalogue.State(c.ctx)
	if err != nil {
		return err
	}
	page := templates.RegistryList{
		Title: h.title, Home: h.prefix + "/", API: h.prefix + "/v0.1/servers", Search: p["search"], Total: st.Servers,
	}
	if p["cursor"] != "" {
		page.Start = page.Home + searchFor(p["search"], "")
	}
	q := query{latest: true, limit: defaultLimit, cursor: p["cursor"]}
	if q.search, err = parseSearch(strings.TrimSpace(p["search"])); err == nil {
		err = h.fill(c.ctx, &page, st, q)
	}
	var refused *refusal
	if errors.As(err, &refused) {
		page.Problem = refused.text()
		return h.page(c, refused.status, func(w io.Writer) error { return h.pagesFor(c).List(w, page) })
	}
	if err != nil {
		return err
	}
	return h.page(c, http.StatusOK, func(w io.Writer) error { return h.pagesFor(c).List(w, page) })
}

// fill adds the servers of a query to the page.
func (h *Handler) fill(ctx context.Context, page *templates.RegistryList, st catalogue.State, q query) error {
	rows, err := h.rows(ctx, st, q)
	if err != nil {
		return err
	}
	if rows.next != "" {
		page.Next = page.Home + searchFor(page.Search, rows.next)
	}
	var items []registry.Item
	for _, e := range rows.entries {
		if item, err := h.item(e); err == nil {
			items = append(items, item)
		}
	}
	pictures := h.pictures(ctx, items)
	for i, item := range items {
		r := item.Record
		page.Servers = append(page.Servers, templates.RegistryRow{
			Name: r.Name(), Title: r.Title(), Description: r.Description(), Version: r.Version(),
			Page: h.pagePath(r.Name()), Icon: pictures[i], Deprecated: item.Official.Status == registry.StatusDeprecated,
		})
	}
	return nil
}

// searchFor returns the query string of a page of the list.
func searchFor(search, cursor string) string {
	q := url.Values{}
	if search != "" {
		q.Set("search", search)
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// item returns a row as an item. An invalid row is logged.
func (h *Handler) item(e catalogue.Entry) (registry.Item, error) {
	r, err := h.ownMeta.split(e)
	if err == nil {
		var item registry.Item
		if item, err = r.item(); err == nil {
			return item, nil
		}
	}
	h.logFault("a row of the catalogue is left out", "name", e.Name, "version", e.Version, "err", err)
	return registry.Item{}, err
}

// pictures returns the paths of the icons of items, "" for each that is not ready.
func (h *Handler) pictures(ctx context.Context, items []registry.Item) []string {
	paths := make([]string, len(items))
	for i, item := range items {
		if p, ok := h.ready(ctx, item); ok {
			paths[i] = h.picturePath(item.Record.Name(), item.Record.Version(), p.Digest)
		}
	}
	return paths
}

// versionsOnPage is the maximum number of versions that a page links to.
const versionsOnPage = 50

// serverPage serves GET /servers/{name}: the latest version of a server, or that of the
// parameter version, with links to other versions. The parameter cursor selects older links.
func (h *Handler) serverPage(c *call) error {
	p, err := parameters(c.r.URL.RawQuery, "version", "cursor")
	if err != nil {
		return err
	}
	leave, err := h.place(c)
	if err != nil {
		return err
	}
	defer leave()
	st, err := h.catalogue.State(c.ctx)
	if err != nil {
		return err
	}
	versions, err := h.rows(c.ctx, st, query{name: c.name, limit: versionsOnPage, cursor: p["cursor"]})
	if err != nil {
		return err
	}
	e, err := h.entryFor(c, p["version"], versions.entries)
	if err != nil {
		return err
	}
	page, err := h.describe(c.ctx, versions.entries, e)
	if err != nil {
		return err
	}
	if p["version"] == "" { // the page shows the latest version itself
		page.LatestPage = ""
	}
	if p["cursor"] != "" {
		page.Newest = h.pagePath(c.name) + "?" + url.Values{"version": {e.Version}}.Encode()
	}
	if versions.next != "" {
		page.Older = h.pagePath(c.name) + "?" + url.Values{"version": {e.Version}, "cursor": {versions.next}}.Encode()
	}
	return h.page(c, http.StatusOK, func(w io.Writer) error { return h.pagesFor(c).Server(w, page) })
}

// entryFor returns the version that a page shows: the requested one, or the latest, or, if
// that is deleted, the first of the others.
func (h *Handler) entryFor(c *call, version string, others []catalogue.Entry) (catalogue.Entry, error) {
	i := slices.IndexFunc(others, func(e catalogue.Entry) bool { return e.Version == version || version == "" && e.Latest })
	if i >= 0 {
		return others[i], nil
	}
	e, err := h.entry(c.ctx, c.name, cmp.Or(version, registry.Latest), view{})
	if errors.Is(err, errNoVersion) && version == "" && len(others) > 0 {
		return others[0], nil
	}
	return e, err
}

// describe returns the data of the page of one version of a server.
func (h *Handler) describe(ctx context.Context, versions []catalogue.Entry, e catalogue.Entry) (templates.RegistryServer, error) {
	taken, err := h.ownMeta.split(e)
	if err != nil {
		return templates.RegistryServer{}, err
	}
	item, err := taken.item()
	if err != nil {
		return templates.RegistryServer{}, err
	}
	r := item.Record
	page := templates.RegistryServer{
		ListTitle: h.title, Home: h.prefix + "/", API: h.apiPath(r.Name(), r.Version()),
		Name: r.Name(), Title: r.Title(), Description: r.Description(), Version: r.Version(),
		Icon:       h.pictures(ctx, []registry.Item{item})[0],
		Deprecated: item.Official.Status == registry.StatusDeprecated, Message: item.Official.StatusMessage, Latest: e.Latest,
		Published: e.Published, Updated: e.Updated, Website: r.Website(), Source: r.Repository().URL,
		Facts: facts(h.ownMeta.key, h.enriched(taken)),
	}
	for _, remote := range r.Remotes() {
		page.Remotes = append(page.Remotes, remotePart(remote))
	}
	for _, p := range r.Packages() {
		page.Packages = append(page.Packages, packagePart(p))
	}
	for _, v := range versions {
		page.Versions = append(page.Versions, h.versionPart(v, v.Version == e.Version))
	}
	if !e.Latest {
		page.LatestPage = h.pagePath(r.Name())
	}
	return page, nil
}
