package serve

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"gatehouse.example/registry"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
)

// view has the query parameters of requests about one server.
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

// shows reports whether a row is visible with these parameters.
func (v view) shows(e catalogue.Entry) bool { return v.deleted || !isDeleted(e) }

func isDeleted(e catalogue.Entry) bool { return e.Status == catalogue.StatusDeleted }

// versions serves GET /v0.1/servers/{name}/versions, the newest version first. The interface
// does not define pages of versions, so the first page has maxLimit versions; the cursor
// continues as in a list.
func (h *Handler) versions(c *call) error {
	q, err := parseVersions(c.name, c.r.URL.RawQuery)
	if err != nil {
		return err
	}
	return h.answer(c, q.resource(), func(ctx context.Context, st catalogue.State) ([]byte, uint64, error) {
		return h.listing(ctx, st, q)
	})
}

func parseVersions(name, raw string) (query, error) {
	v, err := parseView(raw)
	if err != nil {
		return query{}, err
	}
	p, err := parameters(raw, "limit", "cursor")
	if err != nil {
		return query{}, err
	}
	q := query{name: name, deleted: v.deleted, shape: v.shape, cursor: p["cursor"]}
	q.limit, err = parseLimit(p["limit"], maxLimit)
	return q, err
}

// detail serves GET /v0.1/servers/{name}/versions/{version}, where the version may be latest.
func (h *Handler) detail(c *call) error {
	v, err := parseView(c.r.URL.RawQuery)
	if err != nil {
		return err
	}
	resource := fmt.Sprintf("version %q %q %+v", c.name, c.version, v)
	return h.answer(c, resource, func(ctx context.Context, _ catalogue.State) ([]byte, uint64, error) {
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
func (h *Handler) entry(ctx context.Context, name, version string, v view) (entry catalogue.Entry, err error) {
	if version == registry.Latest {
		entry, err = h.catalogue.Latest(ctx, name)
	} else {
		entry, err = h.catalogue.Entry(ctx, name, version)
	}
	if errors.Is(err, storage.ErrNotFound) || err == nil && !v.shows(entry) {
		return catalogue.Entry{}, errNoVersion
	}
	return entry, err
}

// settled returns a body with the number of the last commit after it was read.
func (h *Handler) settled(ctx context.Context, body []byte) ([]byte, uint64, error) {
	st, err := h.catalogue.State(ctx)
	return body, st.Committed, err
}

// schemaAnswer is the answer with the JSON Schema of records and answers.
var schemaAnswer = sync.OnceValue(func() *answer { return &answer{body: registry.Schema()} })

// schema serves the JSON Schema of records and answers.
func (h *Handler) schema(c *call) error {
	a := schemaAnswer()
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum(nil, "schema", string(a.body))[:macLen]) + `"`
	if held, ok := ifNoneMatch(c.r.Header, tag); ok {
		h.notModified(c, held)
		return nil
	}
	h.ok(c, tag, "application/schema+json", a)
	return nil
}

// health reports whether the catalogue can be read.
func (h *Handler) health(c *call) error {
	if _, err := h.catalogue.State(c.ctx); err != nil {
		return err
	}
	c.w.Header().Set("Cache-Control", "no-store")
	c.send(http.StatusOK, jsonType, []byte(`{"status":"ok"}`))
	return nil
}

// ping reports that the handler runs.
func (h *Handler) ping(c *call) error {
	c.w.Header().Set("Cache-Control", "no-store")
	c.send(http.StatusOK, jsonType, []byte(`{"pong":true}`))
	return nil
}
