package serve

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"gatehouse.example/storage/catalogue"
)

// steadyReads is how often an answer is read again because the catalogue changed meanwhile.
const steadyReads = 4

// reading makes the body of an answer. It returns as well after which commit that was read.
type reading func(ctx context.Context, st catalogue.State) (body []byte, committed uint64, err error)

// answer answers with what read makes, under a tag that says of which state of the
// catalogue it is, or says that the reader has it. Then nothing but the state was read.
func (h *Handler) answer(c *call, resource string, read reading) error {
	var m *made
	for range steadyReads {
		st, err := h.catalogue.State(c.ctx)
		if err != nil {
			return err
		}
		revision := h.revision()
		tag := h.tag(st, revision, resource)
		if held, ok := has(c.r.Header, tag); ok {
			h.notModified(c, held)
			return nil
		}
		m, err = h.makers.answer(c, tag, func(ctx context.Context) (*made, error) {
			body, committed, err := read(ctx, st)
			return &made{body: body, steady: committed == st.Committed && revision == h.revision()}, err
		})
		if err != nil {
			return err
		}
		if m.steady {
			h.ok(c, tag, m)
			return nil
		}
	}
	// It changes faster than it is read. What was read is whole, but nothing names it.
	h.ok(c, "", m)
	return nil
}

// tagFormat is part of every tag: it changes with how this package writes.
const tagFormat = "2"

// tag names an answer: a strong tag (RFC 9110 section 8.8.3). Two answers that differ have
// different tags, unless something else than the catalogue and Enrich made the difference.
func (h *Handler) tag(st catalogue.State, revision, resource string) string {
	name := sum(st.CursorKey, "etag", tagFormat, strconv.FormatUint(st.Committed, 10), strconv.FormatInt(st.Changed.UnixNano(), 10),
		strconv.FormatBool(st.ByAge), h.speaks.key, revision, resource)
	return `"` + base64.RawURLEncoding.EncodeToString(name[:macLen]) + `"`
}

// gzipTag names the same answer where it is compressed: other bytes, so another strong tag.
func gzipTag(tag string) string { return strings.TrimSuffix(tag, `"`) + `-gzip"` }

// has reports whether If-None-Match has the tag, compared weakly (RFC 9110 section 13.1.2),
// and which one: whoever has an answer in one coding has it, whatever coding it asks for now.
func has(header http.Header, tag string) (held string, ok bool) {
	for _, field := range header.Values("If-None-Match") {
		for candidate := range strings.SplitSeq(field, ",") {
			held = strings.TrimPrefix(strings.Trim(candidate, " \t"), "W/")
			if held == tag || held == gzipTag(tag) {
				return held, true
			}
		}
	}
	return "", false
}

// ok answers with a body, under its tag if it has one.
func (h *Handler) ok(c *call, tag string, m *made) {
	if _, any := has(c.r.Header, "*"); any { // there is something, whatever it is
		h.notModified(c, tag)
		return
	}
	body := m.body
	if wantsGzip(c.r.Header) && m.gzip() != nil {
		body = m.gzip()
		c.w.Header().Set("Content-Encoding", "gzip")
		if tag != "" {
			tag = gzipTag(tag)
		}
	}
	h.name(c.w.Header(), tag)
	c.send(http.StatusOK, "application/json", body)
}

func (h *Handler) notModified(c *call, tag string) {
	h.name(c.w.Header(), tag)
	c.w.WriteHeader(http.StatusNotModified)
}

// name says for how long an answer is good, and how it is recognised.
func (h *Handler) name(header http.Header, tag string) {
	if tag == "" {
		header.Set("Cache-Control", "no-cache")
		return
	}
	header.Set("Cache-Control", h.age)
	header.Set("ETag", tag)
}
