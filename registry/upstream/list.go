package upstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/registry"
	"gatehouse.example/registry/internal/rawjson"
)

// Query selects the items of a list. The zero Query selects all that are not deleted.
type Query struct {
	// UpdatedSince selects the items updated after this time, deleted ones included.
	UpdatedSince time.Time
	// Search selects the names that contain it. Upstreams may require 3 characters.
	Search string
	// Latest selects the latest version of each server.
	Latest bool
	// IncludeDeleted selects deleted items too.
	IncludeDeleted bool
	// Cursor is the Next of a page. The list then continues behind that page.
	Cursor string
	// PagesBefore is the number of pages that were read of the list before Cursor. They count
	// towards Config.MaxPages, so that a list which fails between its pages ends as well.
	PagesBefore int
	// IfNoneMatch is the ETag of an earlier first page. If the first page is unchanged, the
	// crawl ends with [ErrNotModified]. Further pages may have changed nevertheless.
	IfNoneMatch string
}

// Page is one page of a list.
type Page struct {
	Items []registry.Item
	// Invalid has the elements of the page that cannot be used.
	Invalid []registry.InvalidItem
	// Next is the cursor of the next page, "" on the last page.
	Next string
	// Count is the number of elements according to the upstream, -1 if the upstream gives none.
	Count int
	// Miscounted reports whether Count differs from the number of elements.
	Miscounted bool
	// ETag is the ETag of the answer, "" if it has none.
	ETag string
	// Date is the time by the clock of the upstream, zero if the answer has no valid Date.
	Date time.Time
	// Bytes is the size of the answer, after decompression.
	Bytes int64
}

// Items yields the pages of the list. After an error or an early end, a Query whose Cursor is
// the Next of the last page yielded continues behind it. An error is yielded last, with a zero
// Page: an [*AnswerError], [ErrNotModified], [ErrRedirect], [ErrTooLarge], [ErrEndless],
// [ErrAnswer], or an error of the connection.
func (c *Client) Items(ctx context.Context, q Query) iter.Seq2[Page, error] {
	return c.pages(ctx, crawl{path: "/servers", query: q.values(c.pageSize), list: true, cursor: q.Cursor, pages: q.PagesBefore, ifNoneMatch: q.IfNoneMatch})
}

// pages yields the pages of a list up to its end.
func (c *Client) pages(ctx context.Context, begin crawl) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		w := begin
		w.client, w.seen = c, map[[sha256.Size]byte]bool{}
		for {
			page, err := w.next(ctx)
			if err != nil {
				yield(Page{}, err)
				return
			}
			if !yield(page, nil) || page.Next == "" {
				return
			}
		}
	}
}

// crawl is one pass over a list.
type crawl struct {
	client      *Client
	path        string
	query       url.Values
	list        bool // of servers: 404 means that the upstream lacks this version of the interface
	ifNoneMatch string
	cursor      string
	seen        map[[sha256.Size]byte]bool // hashes of the cursors that were followed
	pages       int
	empty       int // consecutive empty pages
	bytes       int64
}

func (w *crawl) next(ctx context.Context) (Page, error) {
	if err := w.checkLimits(); err != nil {
		return Page{}, err
	}
	page, err := w.client.page(ctx, w.request())
	if err != nil {
		return Page{}, err
	}
	w.pages++
	w.bytes += page.Bytes
	w.empty++
	if len(page.Items)+len(page.Invalid) > 0 {
		w.empty = 0
	}
	w.cursor = page.Next
	return page, nil
}

// checkLimits returns an error if the crawl has reached a limit or a cursor repeats. Otherwise
// it records the cursor.
func (w *crawl) checkLimits() error {
	b, cursor := w.client.bounds, sha256.Sum256([]byte(w.cursor))
	switch {
	case w.seen[cursor]:
		return fmt.Errorf("%w: a repeated cursor", ErrEndless)
	case w.pages >= b.pages:
		return fmt.Errorf("%w: more than %d pages", ErrEndless, b.pages)
	case w.empty > b.emptyPages:
		return fmt.Errorf("%w: more than %d empty pages", ErrEndless, b.emptyPages)
	case w.bytes >= b.bytes:
		return fmt.Errorf("registry/upstream: %w: a crawl of more than %d bytes", ErrTooLarge, b.bytes)
	}
	w.seen[cursor] = true
	return nil
}

func (w *crawl) request() request {
	b := w.client.bounds
	r := request{path: w.path, query: maps.Clone(w.query), maxBytes: min(b.pageBytes, b.bytes-w.bytes)}
	if w.cursor == "" {
		r.first, r.ifNoneMatch = w.list, w.ifNoneMatch
	} else {
		r.query.Set("cursor", w.cursor)
	}
	return r
}

func (q Query) values(limit int) url.Values {
	v := url.Values{"limit": {strconv.Itoa(limit)}}
	if q.Search != "" {
		v.Set("search", q.Search)
	}
	if q.Latest {
		v.Set("version", "latest")
	}
	if !q.UpdatedSince.IsZero() {
		// RFC 3339, with all fractional digits.
		v.Set("updated_since", q.UpdatedSince.UTC().Format(time.RFC3339Nano))
	} else if q.IncludeDeleted {
		v.Set("include_deleted", "true")
	}
	return v
}

// Versions yields all versions of a server, deleted ones included. Most upstreams list them on
// one page; Versions follows further pages as [Client.Items] does. An error is yielded last.
func (c *Client) Versions(ctx context.Context, name string) iter.Seq2[Page, error] {
	if !registry.ValidName(name) {
		return func(yield func(Page, error) bool) {
			yield(Page{}, fmt.Errorf("registry/upstream: %.200q is not the name of a server", name))
		}
	}
	return c.pages(ctx, crawl{path: "/servers/" + url.PathEscape(name) + "/versions", query: url.Values{"include_deleted": {"true"}}})
}

// Version returns one version of a server, even if it is deleted. The version
// [registry.Latest] stands for the latest one that is not deleted. The error is an
// [*AnswerError] with the status 404 if the upstream does not have the version.
func (c *Client) Version(ctx context.Context, name, version string) (registry.Item, error) {
	if !registry.ValidName(name) || version != registry.Latest && !registry.ValidVersion(version) {
		return registry.Item{}, fmt.Errorf("registry/upstream: %.200q %.40q are not the name and version of a server", name, version)
	}
	r := request{path: "/servers/" + url.PathEscape(name) + "/versions/" + url.PathEscape(version), maxBytes: c.bounds.pageBytes}
	if version != registry.Latest {
		r.query = url.Values{"include_deleted": {"true"}}
	}
	a, err := c.do(ctx, r)
	if err != nil {
		return registry.Item{}, err
	}
	item, err := registry.ParseItem(a.body)
	if err != nil {
		return registry.Item{}, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	if item.Record.Name() != name || version != registry.Latest && item.Record.Version() != version {
		return registry.Item{}, fmt.Errorf("%w: it has the record of %.300q", ErrAnswer, item.Record.String())
	}
	return item, nil
}

// page requests one page of a list.
func (c *Client) page(ctx context.Context, r request) (Page, error) {
	a, err := c.do(ctx, r)
	if err != nil {
		return Page{}, err
	}
	page, err := parsePage(a.body)
	if err != nil {
		return Page{}, err
	}
	page.ETag = a.header.Get("ETag")
	page.Date, _ = http.ParseTime(a.header.Get("Date"))
	return page, nil
}

// maxCursor is the length limit of a cursor in bytes: a cursor has to fit into a URL.
const maxCursor = 4 << 10

// parsePage parses a list. It returns an error if the list itself is malformed. Invalid
// elements are in Page.Invalid.
func parsePage(body []byte) (Page, error) {
	if !json.Valid(body) {
		return Page{}, fmt.Errorf("%w: it is not one JSON value", ErrAnswer)
	}
	members := rawjson.Members(body)
	servers, err := single(members, "servers")
	if err != nil {
		return Page{}, err
	}
	var elements []json.RawMessage
	if json.Unmarshal(servers, &elements) != nil {
		return Page{}, fmt.Errorf("%w: servers is not a list", ErrAnswer)
	}
	page := Page{Bytes: int64(len(body))}
	for _, element := range elements {
		if item, invalid := registry.ReadItem(bytes.TrimSpace(element)); invalid != nil {
			page.Invalid = append(page.Invalid, *invalid)
		} else {
			page.Items = append(page.Items, item)
		}
	}
	page.Next, page.Count, err = metadata(members)
	page.Miscounted = page.Count >= 0 && page.Count != len(elements)
	return page, err
}

// metadata returns the cursor of the next page and the count of a list. On the last page the
// cursor may be missing, empty or null; next is "" then. count is -1 if it is missing.
func metadata(members []rawjson.Member) (next string, count int, err error) {
	raw, err := single(members, "metadata")
	if errors.Is(err, errMissing) {
		return "", -1, nil
	}
	var in struct {
		Next  *string `json:"nextCursor"`
		Count *int    `json:"count"`
	}
	if err == nil {
		err = strictjson.Unmarshal(raw, &in, strictjson.Options{})
	}
	if err != nil {
		return "", 0, fmt.Errorf("%w: metadata: %w", ErrAnswer, err)
	}
	count = -1
	if in.Count != nil && *in.Count >= 0 {
		count = *in.Count
	}
	if in.Next != nil {
		next = *in.Next
	}
	if len(next) > maxCursor {
		return "", 0, fmt.Errorf("%w: a cursor of more than %d bytes", ErrAnswer, maxCursor)
	}
	return next, count, nil
}

var errMissing = errors.New("missing")

// single returns the value of a member that must occur exactly once.
func single(members []rawjson.Member, name string) (value json.RawMessage, err error) {
	found := 0
	for _, m := range members {
		if m.Name == name {
			value = m.Value
			found++
		}
	}
	switch found {
	case 0:
		return nil, fmt.Errorf("%w: %s: %w", ErrAnswer, name, errMissing)
	case 1:
		return value, nil
	}
	return nil, fmt.Errorf("%w: %s occurs twice", ErrAnswer, name)
}
