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

// Query says what of an upstream is listed. The zero Query is everything that is not deleted.
type Query struct {
	// UpdatedSince leaves out what was not updated after this time. Then deleted records
	// are listed too.
	UpdatedSince time.Time
	// Search leaves out names that do not contain it. Upstreams may want 3 characters.
	Search string
	// Latest leaves out all but the latest version of each server.
	Latest bool
	// IncludeDeleted lists deleted records too.
	IncludeDeleted bool
	// Cursor continues after a page: its Next.
	Cursor string
	// IfNoneMatch is the ETag of a first page. If that is still the first page, the crawl
	// ends with [ErrNotModified]. About further pages it says nothing.
	IfNoneMatch string
}

// Page is one page of a list.
type Page struct {
	Items []registry.Item
	// Invalid are what cannot be used. The page is fine otherwise.
	Invalid []registry.InvalidItem
	// Next is the cursor of the next page, "" on the last.
	Next string
	// Count is how many items the upstream says there are on the page, -1 if it does not.
	Count int
	// Miscounted says that there are more or fewer.
	Miscounted bool
	// ETag names this answer, "" if the upstream gave it no name.
	ETag string
	// Date is the clock of the upstream, zero if it does not tell.
	Date time.Time
	// Bytes is how large the answer was.
	Bytes int64
}

// Items goes through the list. A page counts once it was yielded: after an error or an early
// end, a Query with Cursor set to its Next goes on behind it. The error, if any, comes last.
func (c *Client) Items(ctx context.Context, q Query) iter.Seq2[Page, error] {
	return c.pages(ctx, crawl{path: "/servers", asked: q.values(c.pageSize), list: true, cursor: q.Cursor, ifNoneMatch: q.IfNoneMatch})
}

// pages follows a list to its end.
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

// crawl is one way through a list.
type crawl struct {
	client      *Client
	path        string
	asked       url.Values
	list        bool // of servers: where that is not found, there is no such interface
	ifNoneMatch string
	cursor      string
	seen        map[[sha256.Size]byte]bool // cursors that were followed
	pages       int
	empty       int // in a row
	bytes       int64
}

func (w *crawl) next(ctx context.Context) (Page, error) {
	if err := w.mayGoOn(); err != nil {
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

// mayGoOn keeps an upstream from leading in circles.
func (w *crawl) mayGoOn() error {
	b, cursor := w.client.bounds, sha256.Sum256([]byte(w.cursor))
	switch {
	case w.seen[cursor]:
		return fmt.Errorf("%w: a cursor that was there before", ErrEndless)
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
	r := request{path: w.path, query: maps.Clone(w.asked), most: min(b.pageBytes, b.bytes-w.bytes)}
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
		// RFC 3339, with as many digits as there are.
		v.Set("updated_since", q.UpdatedSince.UTC().Format(time.RFC3339Nano))
	} else if q.IncludeDeleted {
		v.Set("include_deleted", "true")
	}
	return v
}

// Versions goes through all versions of a server, deleted ones too. Most upstreams list them
// on one page; those that have more of them lead on as in a list. The error, if any, comes
// last.
func (c *Client) Versions(ctx context.Context, name string) iter.Seq2[Page, error] {
	if !registry.ValidName(name) {
		return func(yield func(Page, error) bool) {
			yield(Page{}, fmt.Errorf("registry/upstream: %.200q is no name of a server", name))
		}
	}
	return c.pages(ctx, crawl{path: "/servers/" + url.PathEscape(name) + "/versions", asked: url.Values{"include_deleted": {"true"}}})
}

// Version returns one version of a server, also if it is deleted. The version latest is the
// latest one that is not.
func (c *Client) Version(ctx context.Context, name, version string) (registry.Item, error) {
	if !registry.ValidName(name) || version != registry.Latest && !registry.ValidVersion(version) {
		return registry.Item{}, fmt.Errorf("registry/upstream: %.200q %.40q is no name and version of a server", name, version)
	}
	r := request{path: "/servers/" + url.PathEscape(name) + "/versions/" + url.PathEscape(version), most: c.bounds.pageBytes}
	if version != registry.Latest {
		r.query = url.Values{"include_deleted": {"true"}}
	}
	a, err := c.ask(ctx, r)
	if err != nil {
		return registry.Item{}, err
	}
	item, err := registry.ParseItem(a.body)
	if err != nil {
		return registry.Item{}, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	if item.Record.Name() != name || version != registry.Latest && item.Record.Version() != version {
		return registry.Item{}, fmt.Errorf("%w: it is about %.300q", ErrAnswer, item.Record.String())
	}
	return item, nil
}

// page asks for a list.
func (c *Client) page(ctx context.Context, r request) (Page, error) {
	a, err := c.ask(ctx, r)
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

// maxCursor is how long a cursor may be: it has to fit into a URL.
const maxCursor = 4 << 10

// parsePage reads a list. Only what holds it together must be right: each item is checked
// for itself.
func parsePage(body []byte) (Page, error) {
	if !json.Valid(body) {
		return Page{}, fmt.Errorf("%w: it is not one JSON value", ErrAnswer)
	}
	members := rawjson.Members(body)
	servers, err := only(members, "servers")
	if err != nil {
		return Page{}, err
	}
	var elements []json.RawMessage
	if json.Unmarshal(servers, &elements) != nil {
		return Page{}, fmt.Errorf("%w: servers is no list", ErrAnswer)
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

// metadata reads where the list goes on. The last page may have no cursor, an empty one, or
// null.
func metadata(members []rawjson.Member) (next string, count int, err error) {
	raw, err := only(members, "metadata")
	if errors.Is(err, errMissing) {
		return "", -1, nil
	}
	var said struct {
		Next  *string `json:"nextCursor"`
		Count *int    `json:"count"`
	}
	if err == nil {
		err = strictjson.Unmarshal(raw, &said, strictjson.Options{})
	}
	if err != nil {
		return "", 0, fmt.Errorf("%w: metadata: %w", ErrAnswer, err)
	}
	count = -1
	if said.Count != nil && *said.Count >= 0 {
		count = *said.Count
	}
	if said.Next != nil {
		next = *said.Next
	}
	if len(next) > maxCursor {
		return "", 0, fmt.Errorf("%w: a cursor of more than %d bytes", ErrAnswer, maxCursor)
	}
	return next, count, nil
}

var errMissing = errors.New("there is none")

// only returns a member that must be there once.
func only(members []rawjson.Member, name string) (value json.RawMessage, err error) {
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
	return nil, fmt.Errorf("%w: %s twice", ErrAnswer, name)
}
