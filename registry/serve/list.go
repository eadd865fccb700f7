package serve

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gatehouse.example/registry"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
)

const (
	defaultLimit, maxLimit = 30, 100
	// minSearch and maxSearch limit the length of a search in characters.
	minSearch, maxSearch = 3, registry.MaxName
	// maxQuery is the limit of a query string in bytes.
	maxQuery = 8 << 10
	// maxPageBytes is the limit of the records on a page in bytes, unless the page has a single
	// record. maxAnswer is the limit of an answer, which has each record twice, with _meta.
	maxPageBytes = 1 << 20
	maxAnswer    = 4 << 20
)

// query is the query of a list.
type query struct {
	name    string // of one server, "" for all
	latest  bool
	version string
	deleted bool
	since   time.Time
	search  string // in lower case
	shape   shape

	limit  int
	cursor string
}

// selection returns the parts of a query that determine the rows and their form, as text. A
// cursor is valid for exactly one such text.
func (q query) selection() string {
	return fmt.Sprintf("name=%q latest=%t version=%q deleted=%t since=%s search=%q shape=%d",
		q.name, q.latest, q.version, q.deleted, q.since.Format(time.RFC3339Nano), q.search, q.shape)
}

// resource returns the whole query as text.
func (q query) resource() string {
	return fmt.Sprintf("list %s limit=%d cursor=%q", q.selection(), q.limit, q.cursor)
}

// list serves GET /v0.1/servers.
func (h *Handler) list(c *call) error {
	q, err := parseQuery(c.r.URL.RawQuery)
	if err != nil {
		return err
	}
	return h.answer(c, q.resource(), func(ctx context.Context, st catalogue.State) ([]byte, uint64, error) {
		return h.listing(ctx, st, q)
	})
}

// listing returns the page of a query as JSON. If the answer would exceed maxAnswer, it has
// fewer rows.
func (h *Handler) listing(ctx context.Context, st catalogue.State, q query) ([]byte, uint64, error) {
	for {
		rows, err := h.rows(ctx, st, q)
		if err != nil {
			return nil, 0, err
		}
		body, fitted, written := h.writeList(rows.entries, rows.next, q.shape)
		switch {
		case fitted < len(rows.entries):
			q.limit = fitted
		case q.name != "" && q.cursor == "" && written == 0 && rows.next == "":
			return nil, 0, fmt.Errorf("%w: of %s", errRow, q.name) // as in noRows: it is no server without versions
		default:
			return body, rows.committed, nil
		}
	}
}

// rows is a page of the catalogue.
type rows struct {
	entries   []catalogue.Entry
	next      string // the cursor of the next page, "" if there is none
	committed uint64
}

// rows reads the page of a query. The page may have fewer rows than the limit, or none,
// although there is a next page, because the cost of a request is limited.
func (h *Handler) rows(ctx context.Context, st catalogue.State, q query) (rows, error) {
	chosen, after := q.selection(), ""
	if q.name != "" {
		chosen += fmt.Sprintf(" age=%t", st.ByAge) // it determines the order
	}
	if q.cursor != "" {
		var ok bool
		if after, ok = openCursor(st.CursorKey, chosen, q.cursor); !ok {
			return rows{}, badRequest("The cursor is not one that this registry gave for this query. Repeat it unchanged with the same query, or begin without it.")
		}
	}
	page, err := h.catalogue.Page(ctx, h.catalogueQuery(ctx, st, q), after, q.limit)
	if err != nil {
		return rows{}, err
	}
	if page.Unreadable > 0 {
		h.logFault("rows of the catalogue cannot be read and are left out", "rows", page.Unreadable)
	}
	if q.name != "" && after == "" && len(page.Entries) == 0 && !page.More {
		return rows{}, noRows(page)
	}
	out := rows{entries: page.Entries, committed: page.Committed}
	if page.More && len(st.CursorKey) > 0 {
		out.next = sealCursor(st.CursorKey, chosen, page.Next)
	}
	return out, nil
}

// noRows returns the error for a server without visible rows.
func noRows(page catalogue.Page) error {
	if page.Unreadable > 0 {
		return storage.ErrRecord
	}
	return errNoServer
}

// catalogueQuery converts a query to that of the catalogue.
func (h *Handler) catalogueQuery(ctx context.Context, st catalogue.State, q query) catalogue.Query {
	wanted := catalogue.Query{Name: q.name, Latest: q.latest, Version: q.version, Deleted: q.deleted, Since: q.since, MaxBytes: maxPageBytes}
	if q.search == "" {
		return wanted
	}
	wanted.Match = func(name string) bool { return strings.Contains(strings.ToLower(name), q.search) }
	if !q.since.IsZero() {
		return wanted
	}
	if names := h.names.forState(ctx, st); names != nil {
		wanted.Seek = (&search{nameList: names, text: q.search, left: maxSearched}).next
	}
	return wanted
}

// logFault logs a fault, at most one per minute: any client can repeat the request that causes
// it.
func (h *Handler) logFault(what string, args ...any) {
	if minute := h.now().Unix() / 60; h.lastFault.Swap(minute) != minute {
		h.log.Error("registry: "+what, args...)
	}
}

// parseQuery parses the query of a list. An empty parameter counts as absent.
func parseQuery(raw string) (query, error) {
	p, err := parameters(raw, "limit", "cursor", "updated_since", "search", "version", "include_deleted", "shape")
	if err != nil {
		return query{}, err
	}
	q := query{cursor: p["cursor"]}
	if q.version = p["version"]; q.version == registry.Latest {
		q.latest, q.version = true, ""
	}
	var errs [5]error
	q.limit, errs[0] = parseLimit(p["limit"], defaultLimit)
	q.search, errs[1] = parseSearch(p["search"])
	q.shape, errs[2] = parseShape(p["shape"])
	q.deleted, errs[3] = parseBool("include_deleted", p["include_deleted"])
	q.since, errs[4] = parseSince(p["updated_since"])
	if err := cmp.Or(errs[:]...); err != nil {
		return query{}, err
	}
	if !q.since.IsZero() {
		// A list of updates includes deletions.
		if p["include_deleted"] != "" && !q.deleted {
			return query{}, badRequest("updated_since includes deleted servers: leave include_deleted=false out.")
		}
		q.deleted = true
	}
	return q, nil
}

// parameters parses a query string and returns the known parameters. Others are ignored.
func parameters(raw string, known ...string) (map[string]string, error) {
	if len(raw) > maxQuery {
		return nil, badRequest("The query has more than %d bytes.", maxQuery)
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, badRequest("The query cannot be read.")
	}
	for name, all := range values {
		for _, text := range append([]string{name}, all...) {
			if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				return nil, badRequest("The query is not text.")
			}
		}
	}
	is := map[string]string{}
	for _, name := range known {
		if len(values[name]) > 1 {
			return nil, badRequest("%s occurs more than once.", name)
		}
		is[name] = values.Get(name)
	}
	return is, nil
}

func parseLimit(text string, otherwise int) (int, error) {
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n < 1 || n > maxLimit {
		return 0, unprocessable("limit must be a number from 1 to %d.", maxLimit)
	}
	return int(n), nil
}

func parseSearch(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	text = strings.TrimSpace(text)
	switch n := utf8.RuneCountInString(text); {
	case n < minSearch:
		return "", unsearchable("registry.error.searchShort", minSearch)
	case n > maxSearch: // no name is longer
		return "", unsearchable("registry.error.searchLong", maxSearch)
	}
	return strings.ToLower(text), nil
}

func parseBool(name, text string) (bool, error) {
	if text == "" {
		return false, nil
	}
	is, err := strconv.ParseBool(text)
	if err != nil {
		return false, unprocessable("%s must be true or false.", name)
	}
	return is, nil
}

// parseSince parses a time of RFC 3339, with or without a fraction.
func parseSince(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	since, err := time.Parse(time.RFC3339, text)
	// RFC 3339 section 1: years have four digits. That must hold in UTC as well. The zero time
	// stands for an absent parameter.
	if since = since.UTC(); err != nil || since.Year() < 1 || since.Year() > 9999 || since.IsZero() {
		return time.Time{}, badRequest("updated_since must be a time of RFC 3339, such as 2025-08-07T13:15:04.280Z. A + in it is written %%2B.")
	}
	return since, nil
}
