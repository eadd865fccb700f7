package registrytest

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gatehouse.example/registry"
)

// ServeHTTP answers as a registry, with the faults of [Upstream.Break].
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	faults := u.begin(r)
	s := u.snapshot(faults)
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Date", s.now.UTC().Format(http.TimeFormat))
	if faults.intercept(w, r, s.form) {
		return
	}
	if path := r.URL.EscapedPath(); len(path) > 1 && strings.HasSuffix(path, "/") {
		http.Redirect(w, r, (&url.URL{Path: strings.TrimRight(r.URL.Path, "/"), RawQuery: r.URL.RawQuery}).String(), http.StatusPermanentRedirect)
		return
	}
	body, refused := s.answer(r)
	if refused != nil {
		s.form.refuse(w, refused.status, refused.detail)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if s.tags {
		tag := fmt.Sprintf(`"%x"`, sha256.Sum256(body))
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	faults.send(w, body)
}

// snapshot is the state of the upstream for one request.
type snapshot struct {
	rows     []*row
	now      time.Time
	form     Form
	prefixes []string
	tags     bool
	faults   Faults
	request  int
}

func (u *Upstream) snapshot(f Faults) snapshot {
	u.mu.Lock()
	defer u.mu.Unlock()
	rows := slices.Clone(u.rows)
	if f.Only > 0 {
		rows = rows[:min(f.Only, len(rows))]
	}
	return snapshot{rows: rows, now: u.clock(), form: u.form, prefixes: u.prefixes, tags: u.tags, faults: f, request: u.since}
}

// refusal is an error answer.
type refusal struct {
	status int
	detail string
}

func (s snapshot) answer(r *http.Request) ([]byte, *refusal) {
	if strings.Contains(r.URL.Path+r.URL.RawQuery, "\x00") || strings.Contains(r.URL.RawQuery, "%00") {
		return nil, &refusal{http.StatusBadRequest, "Invalid request: it contains null bytes"}
	}
	if r.Method != http.MethodGet {
		return nil, &refusal{http.StatusMethodNotAllowed, "Method not allowed"}
	}
	for _, prefix := range s.prefixes {
		if path, found := strings.CutPrefix(r.URL.EscapedPath(), prefix+"/"); found {
			return s.route(strings.Split(path, "/"), r.URL.Query())
		}
	}
	return nil, &refusal{http.StatusNotFound, "Endpoint not found"}
}

// route answers a request below a version of the interface. path has the escaped segments.
func (s snapshot) route(path []string, query url.Values) ([]byte, *refusal) {
	if len(path) == 1 && path[0] == "servers" {
		return s.list(query)
	}
	if len(path) < 3 || len(path) > 4 || path[0] != "servers" || path[2] != "versions" {
		return nil, &refusal{http.StatusNotFound, "Endpoint not found"}
	}
	name, err := url.PathUnescape(path[1])
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, "Invalid server name encoding"}
	}
	rows := s.rows
	if query.Get("include_deleted") != "true" {
		rows = slices.DeleteFunc(rows, func(r *row) bool { return r.status == registry.StatusDeleted })
	}
	rows = slices.DeleteFunc(rows, func(r *row) bool { return r.name != name })
	if len(path) == 4 {
		return s.version(rows, path[3])
	}
	if len(rows) == 0 {
		return nil, &refusal{http.StatusNotFound, "Server not found"}
	}
	slices.SortStableFunc(rows, func(a, b *row) int { return b.published.Compare(a.published) })
	return s.page(rows, ""), nil
}

func (s snapshot) version(rows []*row, escaped string) ([]byte, *refusal) {
	version, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, "Invalid version encoding"}
	}
	for _, r := range rows {
		if r.version == version || version == "latest" && r.latest {
			return []byte(s.form.item(r)), nil
		}
	}
	return nil, &refusal{http.StatusNotFound, "Server not found"}
}

func (s snapshot) list(query url.Values) ([]byte, *refusal) {
	limit, keep, refused := filters(query)
	if refused != nil {
		return nil, refused
	}
	if s.faults.Endless {
		return s.page(nil, position("request "+strconv.Itoa(s.request))), nil
	}
	after, err := base64.RawURLEncoding.DecodeString(query.Get("cursor"))
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, "Invalid cursor"}
	}
	var rows []*row
	next := ""
	for _, r := range s.rows {
		if r.name+"\x00"+r.version <= string(after) || !keep(r) {
			continue
		}
		rows = append(rows, r)
		if len(rows) == limit { // a full page has a next one, even an empty one, as in the official registry
			next = position(r.name + "\x00" + r.version)
			break
		}
	}
	if s.faults.CursorLoop && len(s.rows) > 0 {
		next = position(s.rows[0].name + "\x00" + s.rows[0].version)
	}
	return s.page(rows, next), nil
}

// position returns the cursor of the rows behind after.
func position(after string) string { return base64.RawURLEncoding.EncodeToString([]byte(after)) }

// filters parses the query of a list: the page size and the filter for rows.
func filters(query url.Values) (limit int, keep func(*row) bool, refused *refusal) {
	if limit, refused = pageSize(query.Get("limit")); refused != nil {
		return 0, nil, refused
	}
	search := query.Get("search")
	if search != "" && utf8.RuneCountInString(strings.TrimSpace(search)) < 3 {
		return 0, nil, &refusal{http.StatusUnprocessableEntity, "search must contain at least 3 characters"}
	}
	since, deleted, refused := updates(query)
	if refused != nil {
		return 0, nil, refused
	}
	version := query.Get("version")
	return limit, func(r *row) bool {
		return (deleted || r.status != registry.StatusDeleted) && r.updated.After(since) &&
			strings.Contains(strings.ToLower(r.name), strings.ToLower(search)) &&
			(version == "" || version == r.version || version == "latest" && r.latest)
	}, nil
}

func pageSize(limit string) (int, *refusal) {
	if limit == "" {
		return 30, nil
	}
	n, err := strconv.Atoi(limit)
	if err != nil || n < 1 || n > 100 {
		return 0, &refusal{http.StatusUnprocessableEntity, "validation failed"}
	}
	return n, nil
}

// updates parses updated_since and include_deleted. A list of updates includes deleted rows.
func updates(query url.Values) (since time.Time, deleted bool, refused *refusal) {
	given, include := query.Get("updated_since"), query.Get("include_deleted")
	if given == "" {
		return time.Time{}, include == "true", nil
	}
	since, err := time.Parse(time.RFC3339, given)
	if err != nil {
		return time.Time{}, false, &refusal{http.StatusBadRequest, "Invalid updated_since format: expected RFC3339 timestamp"}
	}
	if include == "false" {
		return time.Time{}, false, &refusal{http.StatusBadRequest, "Cannot set include_deleted=false when using updated_since"}
	}
	return since, true, nil
}
