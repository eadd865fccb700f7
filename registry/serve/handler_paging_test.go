package serve_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/registry/serve"
	"gatehouse.example/storage/catalogue"
)

// patient repeats a request while the catalogue or the machine is busy.
func (d *desk) patient(target string) *httptest.ResponseRecorder {
	for range 20 {
		if w := d.get(target); w.Code != 503 {
			return w
		}
	}
	return d.get(target)
}

// walk follows a list to its end and returns its items and the sizes of its pages.
func (d *desk) walk(target string) (names []string, sizes []int) {
	d.t.Helper()
	for next := target; ; {
		l := readList(d.t, d.patient(next).Body.Bytes())
		names, sizes = append(names, l.names()...), append(sizes, len(l.Servers))
		cursor := l.Metadata.NextCursor
		if cursor == nil {
			return names, sizes
		}
		if *cursor == "" || len(sizes) > 1000 {
			d.t.Fatalf("%s: the cursor %q after %d pages", target, *cursor, len(sizes))
		}
		next = target + "&cursor=" + url.QueryEscape(*cursor)
	}
}

// TestPages: for every query and page size, the pages together are the list, and no page is
// empty unless the list is.
func TestPages(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 4 {
		rows := randomRows(random, 150)
		d := newDesk(t, serve.Config{}, rows...)
		for range 40 {
			q := randomQuery(random)
			limit := 1 + random.IntN(100)
			got, sizes := d.walk("/v0.1/servers?" + q.Encode() + "&limit=" + strconv.Itoa(limit))
			want := expected(rows, q)
			if !slices.Equal(got, want) && len(got)+len(want) > 0 {
				t.Fatalf("%s, %d at once: %q, want %q", q.Encode(), limit, got, want)
			}
			pages := max((len(want)+limit-1)/limit, 1)
			for i, n := range sizes[:len(sizes)-1] {
				if n != limit {
					t.Fatalf("%s: page %d has %d of %d", q.Encode(), i, n, limit)
				}
			}
			if len(sizes) != pages {
				t.Fatalf("%s: %d rows on %d pages of %d", q.Encode(), len(want), len(sizes), limit)
			}
		}
	}
}

// randomRows returns rows with few different names, versions and times, so that many share them.
func randomRows(random *rand.Rand, n int) (rows []catalogue.Entry) {
	seen := map[string]bool{}
	for range n {
		name := []string{"com.example/", "com.example.a/", "org.Example/"}[random.IntN(3)] + []string{"notes", "Notes", "files", "a_b", "a-b", "x"}[random.IntN(6)] + strconv.Itoa(random.IntN(12))
		version := []string{"1.0.0", "1.10.0", "1.2.0", "2.0.0-rc.1", "latest-ish"}[random.IntN(5)]
		if seen[name+version] {
			continue
		}
		seen[name+version] = true
		at := day(1).Add(time.Duration(random.IntN(20)) * 500 * time.Millisecond)
		row := rowOf(name, version, updatedAt(at))
		row.Status = []string{"active", "active", "deprecated", "deleted"}[random.IntN(4)]
		row.Latest = random.IntN(2) == 0
		rows = append(rows, row)
	}
	return rows
}

func randomQuery(random *rand.Rand) url.Values {
	q := url.Values{}
	if random.IntN(3) == 0 {
		q.Set("search", []string{"notes", "NOTES1", "example.a", "a_b", "com.", "nowhere"}[random.IntN(6)])
	}
	if random.IntN(2) == 0 {
		q.Set("version", []string{"latest", "1.0.0", "latest-ish", "9"}[random.IntN(4)])
	}
	switch random.IntN(3) {
	case 0:
		q.Set("include_deleted", "true")
	case 1:
		q.Set("updated_since", day(1).Add(time.Duration(random.IntN(22)-1)*500*time.Millisecond).Format(time.RFC3339Nano))
	}
	return q
}

// expected returns the items of a list by a direct implementation of the rules.
func expected(rows []catalogue.Entry, q url.Values) (names []string) {
	since, _ := time.Parse(time.RFC3339, q.Get("updated_since"))
	rows = slices.DeleteFunc(slices.Clone(rows), func(e catalogue.Entry) bool {
		return e.Status == "deleted" && q.Get("include_deleted") == "" && since.IsZero() ||
			!e.Updated.After(since) ||
			q.Get("version") == "latest" && !e.Latest ||
			q.Get("version") != "latest" && q.Get("version") != "" && e.Version != q.Get("version") ||
			!strings.Contains(strings.ToLower(e.Name), strings.ToLower(q.Get("search")))
	})
	slices.SortFunc(rows, func(a, b catalogue.Entry) int {
		byTime := a.Updated.Compare(b.Updated)
		if since.IsZero() {
			byTime = 0
		}
		return cmp.Or(byTime, strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version))
	})
	for _, e := range rows {
		names = append(names, e.Name+" "+e.Version)
	}
	return names
}

// TestPagesWhileOthersWrite: the rows of one commit are visible together or not at all, on each
// page and in each list of versions, and rows that exist all the time are listed exactly once.
func TestPagesWhileOthersWrite(t *testing.T) {
	const together, rounds, settledRows, readers = 8, 25, 50, 2
	var settled []catalogue.Entry
	for i := range settledRows {
		settled = append(settled, rowOf(fmt.Sprintf("com.example/b%02d", i), "1.0.0"))
	}
	d := newDesk(t, serve.Config{}, settled...)
	over, turns := make(chan struct{}), make(chan struct{})
	var reading sync.WaitGroup
	for n := range readers {
		reading.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 3))
			for {
				select {
				case <-over:
					return
				case turns <- struct{}{}:
				default:
				}
				readWhileOthersWrite(t, d, random, together)
			}
		})
	}
	for round := range rounds {
		var page []catalogue.Entry
		for i := range together {
			// One row that changes, in front of and behind the others, and one new row.
			page = append(page, rowOf(fmt.Sprintf("com.example/%c%d", "ac"[i%2], i), "1.0.0", recordIs(fmt.Sprintf(`{"name":"n","round":%d}`, round))))
			page = append(page, rowOf("com.example/versions", fmt.Sprintf("1.%d.%d", round, i), isOlder))
		}
		d.commit(page...)
		for range readers { // limits the writer to the speed of the readers
			<-turns
		}
	}
	close(over)
	reading.Wait()
}

func readWhileOthersWrite(t *testing.T, d *desk, random *rand.Rand, together int) {
	var rounds []int
	w := d.patient("/v0.1/servers?version=1.0.0&limit=100")
	for _, item := range readRaw(t, w.Body.Bytes()) {
		var is struct{ Round *int }
		if unmarshalMember(item, "server", &is) == nil && is.Round != nil {
			rounds = append(rounds, *is.Round)
		}
	}
	if n := len(slices.Compact(slices.Clone(rounds))); n > 1 || len(rounds) != 0 && len(rounds) != together {
		t.Errorf("half a page: rounds %d", rounds)
	}
	if w := d.patient("/v0.1/servers/com.example%2Fversions/versions"); w.Code == 200 {
		if n := len(readList(t, w.Body.Bytes()).Servers); n < 100 && n%together != 0 {
			t.Errorf("half a page: %d versions", n)
		}
	} else if w.Code != 404 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	names, _ := d.walk("/v0.1/servers?search=com.example/b&limit=" + strconv.Itoa(5+random.IntN(30)))
	if len(names) != 50 || !slices.IsSorted(names) || len(slices.Compact(names)) != 50 {
		t.Errorf("%d rows of 50: %q", len(names), names)
	}
}

// TestCursors: a cursor is valid only unchanged and for the query that it was given for: cursors
// are opaque and integrity-protected.
func TestCursors(t *testing.T) {
	d, other := newDesk(t, serve.Config{}, small()...), newDesk(t, serve.Config{}, small()...)
	const base = "/v0.1/servers?limit=1"
	queries := []string{
		"", "&version=latest", "&version=2.0.0", "&search=files", "&include_deleted=true", "&updated_since=2025-10-01T00:00:00Z", "&updated_since=2025-10-02T00:00:00Z",
		"&search=example", "&shape=wrapped", "&shape=record", "&version=latest&include_deleted=true",
	}
	for _, given := range queries {
		cursor := *d.list(base + given).Metadata.NextCursor
		if strings.ContainsAny(cursor, "+/=:&% ") {
			t.Errorf("the cursor %q has to be escaped", cursor)
		}
		for _, used := range queries {
			want := 400
			if used == given {
				want = 200
			}
			if w := d.get(base + used + "&cursor=" + cursor); w.Code != want {
				t.Errorf("given for %q, used with %q: %d, want %d", given, used, w.Code, want)
			}
		}
		// The limit may change, and so may ignored parameters, the spelling of the query and
		// the version of the interface.
		for _, used := range []string{"/v0.1/servers?limit=7", "/v0.1/servers?limit=100&utm=1", "/v0/servers?"} {
			if w := d.get(used + strings.Replace(strings.Replace(given, "files", "%20FILES", 1), "00Z", "00%2B00:00", 1) + "&cursor=" + cursor); w.Code != 200 {
				t.Errorf("given for %q, used with %q: %d %s", given, used, w.Code, w.Body)
			}
		}
		if w := other.get(base + given + "&cursor=" + cursor); w.Code != 400 {
			t.Errorf("%q: the cursor of another catalogue: %d", given, w.Code)
		}
		if w := d.get("/?search=" + "&cursor=" + cursor); w.Code != 400 && given != "&version=latest" {
			t.Errorf("%q: a page takes the cursor: %d", given, w.Code)
		}
	}
}

func TestForgedCursors(t *testing.T) {
	d := newDesk(t, serve.Config{}, small()...)
	cursor := *d.list("/v0.1/servers?limit=1").Metadata.NextCursor
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		t.Fatal(err)
	}
	forged := map[string]string{
		"padded": cursor + "=", "cut": cursor[:len(cursor)-1], "cut more": cursor[:8], "longer": cursor + "AA", "a line break": cursor[:4] + "\n" + cursor[4:],
		"a blank": " " + cursor, "in another alphabet": base64.RawStdEncoding.EncodeToString([]byte{255, 255, 255}),
		"without a MAC":           base64.RawURLEncoding.EncodeToString([]byte("com.example/notes\x001.0.0")),
		"another key":             serve.ForgedCursor([]byte("another key, of a bit more than 32 bytes"), string(raw[17:])),
		"no key":                  serve.ForgedCursor(nil, string(raw[17:])),
		"no place":                serve.ForgedCursor(nil, ""),
		"no position of the list": base64.RawURLEncoding.EncodeToString(raw[:17]),
		"another case":            strings.ToUpper(cursor), "of the official one": "com.example/notes:1.0.0",
		"twice": cursor + "," + cursor, "null": "null", "zero": "0",
	}
	for i := range raw {
		changed := slices.Clone(raw)
		changed[i] ^= 1
		forged["changed at "+strconv.Itoa(i)] = base64.RawURLEncoding.EncodeToString(changed)
	}
	for i := range 4 { // the last character may have unused bits
		last := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", cursor[len(cursor)-1])
		if again := cursor[:len(cursor)-1] + string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[last^i]); again != cursor {
			forged["encoded again "+strconv.Itoa(i)] = again
		}
	}
	for name, cursor := range forged {
		w := d.get("/v0.1/servers?limit=1&cursor=" + url.QueryEscape(cursor))
		if p := readProblem(t, w); w.Code != 400 || !strings.Contains(p.Detail, "begin without it") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// FuzzCursor: only cursors that the handler gave are valid.
func FuzzCursor(f *testing.F) {
	d := newDesk(f, serve.Config{}, small()...)
	given := map[string]bool{}
	for limit := 1; limit < 6; limit++ {
		for target := fmt.Sprintf("/v0.1/servers?limit=%d", limit); ; {
			next := d.list(target).Metadata.NextCursor
			if next == nil {
				break
			}
			given[*next] = true
			f.Add(*next)
			target = fmt.Sprintf("/v0.1/servers?limit=%d&cursor=%s", limit, *next)
		}
	}
	f.Add("")
	f.Add("AQ")
	f.Add(serve.ForgedCursor(nil, "a"))
	f.Fuzz(func(t *testing.T, cursor string) {
		w := d.get("/v0.1/servers?cursor=" + url.QueryEscape(cursor))
		if ok := given[cursor] || cursor == ""; ok != (w.Code == 200) || !ok && w.Code != 400 {
			t.Fatalf("%q: %d %s", cursor, w.Code, w.Body)
		}
	})
}

// FuzzQuery: for every query, the answer is a list that follows the rules, or an error.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"", "limit=1", "limit=101", "search=files&version=latest", "updated_since=2025-10-04T12:30:00Z", "include_deleted=true&shape=record", "shape=wrapped",
		"cursor=x", "search=%00", "a;b", "%", "limit=1&limit=2", "updated_since=9999-12-31T23:59:59.999999999Z", "search=%E2%84%AA%E2%84%AA%E2%84%AA", "version=%01%01",
	} {
		f.Add("/v0.1/servers", seed)
		f.Add("/v0.1/servers/com.example%2Fnotes/versions", seed)
	}
	f.Add("/v0/servers/com.example/notes/versions/latest/", "")
	f.Add("/servers/com.example%2Fnotes", "version=1.2.0")
	f.Add("/icons/com.example/notes/1.2.0/x", "")
	rows := small()
	d := newDesk(f, serve.Config{}, rows...)
	f.Fuzz(func(t *testing.T, path, query string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || strings.ContainsAny(query, "\n\r") {
			return
		}
		u.RawQuery, u.Host, u.Scheme = query, "", ""
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL = u
		w := httptest.NewRecorder()
		d.handler.ServeHTTP(w, r)
		switch {
		case w.Code >= 500:
			t.Fatalf("%d %s", w.Code, w.Body)
		case w.Code == 308:
			if to := w.Header().Get("Location"); !strings.HasPrefix(to, "/v0") && !strings.HasPrefix(to, "/servers/") && !strings.HasPrefix(to, "/icons/") && to != "/" && !strings.HasPrefix(to, "/?") {
				t.Fatalf("to %q", to)
			}
		case w.Header().Get("Content-Type") == "application/problem+json":
			readProblem(t, w)
		case strings.HasSuffix(u.EscapedPath(), "/servers") && w.Code == 200:
			values, _ := url.ParseQuery(query)
			got := readList(t, w.Body.Bytes())
			if values.Get("cursor") != "" || got.Metadata.NextCursor != nil || len(got.Servers) > 100 {
				return
			}
			if b, err := strconv.ParseBool(values.Get("include_deleted")); err != nil || !b {
				values.Del("include_deleted")
			}
			values.Set("search", strings.TrimSpace(values.Get("search")))
			if want := expected(rows, values); !slices.Equal(got.names(), want) && len(want)+len(got.names()) > 0 {
				t.Fatalf("%q: %q, want %q", query, got.names(), want)
			}
		}
	})
}

// unmarshalMember decodes the member of an object with exactly this name.
func unmarshalMember(data []byte, name string, v any) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	return json.Unmarshal(members[name], v)
}
