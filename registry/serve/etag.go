package serve

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"gatehouse.example/storage/catalogue"
)

// steadyReads is the maximum number of reads of an answer while the catalogue changes.
const steadyReads = 4

// reading reads the body of an answer and returns it with the number of the commit that it
// belongs to.
type reading func(ctx context.Context, st catalogue.State) (body []byte, committed uint64, err error)

// answer sends the body of read with a tag of the state of the catalogue. If the client has the
// answer of that state, it sends 304 and does not call read.
func (h *Handler) answer(c *call, resource string, read reading) error {
	var a *answer
	for range steadyReads {
		st, err := h.catalogue.State(c.ctx)
		if err != nil {
			return err
		}
		revision := h.revision()
		tag := h.tag(st, revision, resource)
		if held, ok := ifNoneMatch(c.r.Header, tag); ok {
			h.notModified(c, held)
			return nil
		}
		a, err = h.builder.get(c, tag, func(ctx context.Context) (*answer, error) {
			body, committed, err := read(ctx, st)
			return &answer{body: body, consistent: committed == st.Committed && revision == h.revision()}, err
		})
		if err != nil {
			return err
		}
		if a.consistent {
			h.ok(c, tag, jsonType, a)
			return nil
		}
	}
	// The catalogue changes faster than it is read. The last body is consistent, but has no tag.
	h.ok(c, "", jsonType, a)
	return nil
}

// tagFormat is part of every tag. Change it whenever this package writes answers differently.
const tagFormat = "2"

// tag returns the strong entity tag (RFC 9110 section 8.8.3) of an answer. It differs for
// different states of the catalogue, revisions and resources.
func (h *Handler) tag(st catalogue.State, revision, resource string) string {
	name := sum(st.CursorKey, "etag", tagFormat, strconv.FormatUint(st.Committed, 10), strconv.FormatInt(st.Changed.UnixNano(), 10),
		strconv.FormatBool(st.ByAge), h.ownMeta.key, revision, resource)
	return `"` + base64.RawURLEncoding.EncodeToString(name[:macLen]) + `"`
}

// gzipTag returns the tag of the compressed form of an answer: its bytes differ, so its strong
// tag must differ as well.
func gzipTag(tag string) string { return strings.TrimSuffix(tag, `"`) + `-gzip"` }

// ifNoneMatch reports whether If-None-Match has the tag or its gzipTag, compared weakly (RFC
// 9110 section 13.1.2), and returns the one found: a client that has an answer in one coding has
// it in all.
func ifNoneMatch(header http.Header, tag string) (held string, ok bool) {
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

const jsonType = "application/json"

// ok sends an answer, with its tag unless that is "".
func (h *Handler) ok(c *call, tag, contentType string, a *answer) {
	if _, any := ifNoneMatch(c.r.Header, "*"); any { // "*" matches every existing answer
		h.notModified(c, tag)
		return
	}
	body := a.body
	if wantsGzip(c.r.Header) && a.gzip() != nil {
		body = a.gzip()
		c.w.Header().Set("Content-Encoding", "gzip")
		if tag != "" {
			tag = gzipTag(tag)
		}
	}
	h.setCaching(c.w.Header(), tag)
	c.send(http.StatusOK, contentType, body)
}

func (h *Handler) notModified(c *call, tag string) {
	h.setCaching(c.w.Header(), tag)
	c.w.WriteHeader(http.StatusNotModified)
}

// setCaching sets Cache-Control and, unless the tag is "", ETag.
func (h *Handler) setCaching(header http.Header, tag string) {
	if tag == "" {
		header.Set("Cache-Control", "no-cache")
		return
	}
	header.Set("Cache-Control", h.age)
	header.Set("ETag", tag)
}
