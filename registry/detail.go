package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"gatehouse.example/storage"
)

// view is how one server is asked for.
type view struct {
	deleted bool
	shape   shape
}

func parseView(raw string) (v view, err error) {
	p, err := parameters(raw, "include_deleted", "shape")
	if err != nil {
		return view{}, err
	}
	if v.deleted, err = parseBool("include_deleted", p["include_deleted"]); err != nil {
		return view{}, err
	}
	v.shape, err = parseShape(p["shape"])
	return v, err
}

// shows reports whether whoever asks may see a row.
func (v view) shows(e storage.CatalogueEntry) bool { return v.deleted || !isDeleted(e) }

func isDeleted(e storage.CatalogueEntry) bool { return e.Status == storage.CatalogueDeleted }

// versions is GET /v0.1/servers/{name}/versions: all of them on one page, the newest first.
func (h *Handler) versions(c *call) error {
	v, err := parseView(c.r.URL.RawQuery)
	if err != nil {
		return err
	}
	resource := fmt.Sprintf("versions %q %+v", c.name, v)
	return h.answer(c, resource, func(ctx context.Context, _ storage.CatalogueState) ([]byte, uint64, error) {
		entries, err := h.entries(ctx, c.name, v)
		if err != nil {
			return nil, 0, err
		}
		return h.settled(ctx, h.writeList(entries, "", v.shape))
	})
}

// entries reads the versions of a server, the newest first.
func (h *Handler) entries(ctx context.Context, name string, v view) ([]storage.CatalogueEntry, error) {
	entries, err := h.store.CatalogueVersions(ctx, name)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e storage.CatalogueEntry) bool { return !v.shows(e) })
	if len(entries) == 0 {
		return nil, errNoServer
	}
	slices.SortFunc(entries, newestFirst)
	return entries, nil
}

func newestFirst(a, b storage.CatalogueEntry) int {
	return cmp.Or(b.Published.Compare(a.Published), CompareVersions(b.Version, a.Version))
}

// detail is GET /v0.1/servers/{name}/versions/{version}, where the version may be latest.
func (h *Handler) detail(c *call) error {
	v, err := parseView(c.r.URL.RawQuery)
	if err != nil {
		return err
	}
	resource := fmt.Sprintf("version %q %q %+v", c.name, c.version, v)
	return h.answer(c, resource, func(ctx context.Context, _ storage.CatalogueState) ([]byte, uint64, error) {
		entry, err := h.entry(ctx, c.name, c.version, v)
		if err != nil {
			return nil, 0, err
		}
		body, err := h.appendItem(nil, entry, v.shape)
		if err != nil {
			return nil, 0, err
		}
		return h.settled(ctx, body)
	})
}

// entry reads one version of a server.
func (h *Handler) entry(ctx context.Context, name, version string, v view) (entry storage.CatalogueEntry, err error) {
	if version == latest {
		entry, err = h.store.CatalogueLatest(ctx, name)
	} else {
		entry, err = h.store.CatalogueEntry(ctx, name, version)
	}
	if errors.Is(err, storage.ErrNotFound) || err == nil && !v.shows(entry) {
		return storage.CatalogueEntry{}, errNoVersion
	}
	return entry, err
}

// settled returns a body with what is committed now, after it was read.
func (h *Handler) settled(ctx context.Context, body []byte) ([]byte, uint64, error) {
	st, err := h.store.CatalogueState(ctx)
	return body, st.Committed, err
}

// health says whether the catalogue can be read, and ping that somebody is there.
func (h *Handler) health(c *call) error {
	if _, err := h.store.CatalogueState(c.ctx); err != nil {
		return err
	}
	c.w.Header().Set("Cache-Control", "no-store")
	c.send(200, "application/json", []byte(`{"status":"ok"}`))
	return nil
}

func (h *Handler) ping(c *call) error {
	c.w.Header().Set("Cache-Control", "no-store")
	c.send(200, "application/json", []byte(`{"pong":true}`))
	return nil
}
