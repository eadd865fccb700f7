package upstream_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/registry/upstream"
)

func TestCrawl(t *testing.T) {
	for form, name := range map[registrytest.Form]string{registrytest.Official: "official", registrytest.Flat: "flat", registrytest.Both: "both"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			origin := registrytest.New(t)
			origin.SetForm(form)
			origin.Fill(205)
			origin.SetStatus("com.example/server-000007", "1.0.0", registry.StatusDeprecated, "Use 8.")
			origin.SetStatus("com.example/server-000008", "1.0.0", registry.StatusDeleted, "")
			origin.SetMeta("com.example/server-000007", "1.0.0", "com.example.reg/stars", 4.5)
			got := crawl(t.Context(), newClient(t, upstream.Config{Base: origin.URL(), PageSize: 60}), upstream.Query{IncludeDeleted: true})
			if got.err != nil || len(got.items) != 205 || len(got.pages) != 4 || len(got.invalid) != 0 {
				t.Fatalf("%v: %d items on %d pages, %d invalid: %v", got.err, len(got.items), len(got.pages), len(got.invalid), got.invalid)
			}
			for i, item := range got.items {
				name := fmt.Sprintf("com.example/server-%06d", i+1)
				if item.Record.Name() != name || form != registrytest.Flat && string(item.Record.Raw()) != registrytest.Record(name, "1.0.0") {
					t.Fatalf("item %d: %s", i, item.Record.Raw())
				}
			}
			if s := got.items[6]; s.Official.Status != registry.StatusDeprecated || string(s.Meta["com.example.reg/stars"]) != "4.5" {
				t.Errorf("%+v", s)
			}
			if s := got.items[7].Official.Status; s != registry.StatusDeleted {
				t.Error(s)
			}
			if o := got.items[6].Official; form != registrytest.Flat && (o.StatusMessage != "Use 8." || !o.IsLatest ||
				!o.PublishedAt.Equal(registrytest.Epoch.Add(7*time.Second)) || !o.UpdatedAt.Equal(registrytest.Epoch.Add(208*time.Second))) {
				t.Errorf("%+v", o)
			}
			for i, page := range got.pages {
				if page.Count != len(page.Items) || page.Miscounted || page.Bytes == 0 || !page.Date.Equal(origin.Now()) || (page.Next == "") != (i == 3) {
					t.Errorf("page %d: %+v", i, page)
				}
			}
			asked := origin.Requests()
			if asked[0] != "/v0.1/servers?include_deleted=true&limit=60" || len(asked) != 4 {
				t.Errorf("%q", asked)
			}
			for i, request := range asked[1:] {
				if want := "/v0.1/servers?cursor=" + url.QueryEscape(got.pages[i].Next) + "&include_deleted=true&limit=60"; request != want {
					t.Errorf("asked for %s, want %s", request, want)
				}
			}
		})
	}
}

// TestCursorUnchanged has a cursor with characters that are special in URLs.
func TestCursorUnchanged(t *testing.T) {
	const cursor = "com.example/a:1.0.0+b&limit=1 %2F ü#?="
	base := handler(t, func(w http.ResponseWriter, r *http.Request) {
		if given := r.URL.Query().Get("cursor"); given == "" {
			_ = json.NewEncoder(w).Encode(map[string]any{"servers": []any{}, "metadata": map[string]any{"nextCursor": cursor}})
		} else if given == cursor && r.URL.Query().Get("limit") == "100" {
			_, _ = io.WriteString(w, `{"servers":[]}`)
		} else {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	if got := crawl(t.Context(), newClient(t, upstream.Config{Base: base}), upstream.Query{}); got.err != nil || len(got.pages) != 2 {
		t.Errorf("%v %d", got.err, len(got.pages))
	}
}

func TestQueries(t *testing.T) {
	origin := registrytest.New(t)
	origin.Add("com.example/notes", "1.10.0")
	origin.Add("com.example/notes", "1.9.0")
	origin.Add("org.example/mail", "may")
	since := origin.Now()
	origin.Add("org.example/mail", "june")
	origin.SetStatus("com.example/notes", "1.10.0", registry.StatusDeleted, "")
	client := newClient(t, upstream.Config{Base: origin.URL()})
	for name, test := range map[string]struct {
		q    upstream.Query
		want []string
	}{
		"all":         {upstream.Query{}, []string{"com.example/notes 1.9.0", "org.example/mail june", "org.example/mail may"}},
		"deleted too": {upstream.Query{IncludeDeleted: true}, []string{"com.example/notes 1.10.0", "com.example/notes 1.9.0", "org.example/mail june", "org.example/mail may"}},
		"the latest":  {upstream.Query{Latest: true}, []string{"com.example/notes 1.9.0", "org.example/mail june"}},
		"a search":    {upstream.Query{Search: "NOTE"}, []string{"com.example/notes 1.9.0"}},
		"updated":     {upstream.Query{UpdatedSince: since}, []string{"com.example/notes 1.10.0", "org.example/mail june"}},
		"updated, in another zone": {
			upstream.Query{UpdatedSince: since.In(time.FixedZone("east", 3600)), IncludeDeleted: true}, []string{"com.example/notes 1.10.0", "org.example/mail june"},
		},
		"updated, between two seconds": {
			upstream.Query{UpdatedSince: since.Add(-time.Nanosecond)}, []string{"com.example/notes 1.10.0", "org.example/mail june", "org.example/mail may"},
		},
		"updated, nothing": {upstream.Query{UpdatedSince: origin.Now()}, nil},
	} {
		got := crawl(t.Context(), client, test.q)
		if got.err != nil || !slices.Equal(names(got.items), test.want) {
			t.Errorf("%s: %v: %q", name, got.err, names(got.items))
		}
	}
	// The time ends in Z, which every registry accepts, and keeps its fraction.
	at := registrytest.Epoch.Add(200 * time.Millisecond)
	origin.SetClock(func() time.Time { return at })
	origin.Add("org.example/first", "1.0.0")
	at = at.Add(400 * time.Millisecond)
	origin.Add("org.example/second", "1.0.0")
	origin.Forget()
	later := crawl(t.Context(), client, upstream.Query{Search: "org.example/", UpdatedSince: at.Add(-200 * time.Millisecond).In(time.FixedZone("east", 3600))})
	if got, asked := names(later.items), origin.Requests(); slices.Contains(got, "org.example/first 1.0.0") || !slices.Contains(got, "org.example/second 1.0.0") ||
		!strings.Contains(asked[0], "updated_since="+url.QueryEscape("2025-10-01T00:00:00.4Z")) {
		t.Errorf("%q: %q", asked, got)
	}

	got := crawl(t.Context(), client, upstream.Query{Search: "ab"})
	refused := (*upstream.AnswerError)(nil)
	if !errors.As(got.err, &refused) || refused.Status != 422 || !strings.Contains(refused.Detail, "3 characters") {
		t.Errorf("%v", got.err)
	}
}

func TestResumeFromACursor(t *testing.T) {
	origin := registrytest.New(t)
	origin.Fill(100)
	client := newClient(t, upstream.Config{Base: origin.URL(), PageSize: 15})
	origin.Break(registrytest.Faults{After: 3, Down: true})
	first := crawl(t.Context(), client, upstream.Query{})
	origin.Mend()
	if first.err == nil || len(first.items) != 45 {
		t.Fatalf("%v after %d items", first.err, len(first.items))
	}
	rest := crawl(t.Context(), client, upstream.Query{Cursor: first.pages[2].Next})
	all := names(append(first.items, rest.items...))
	if rest.err != nil || len(slices.Compact(slices.Clone(all))) != 100 || !slices.IsSorted(all) {
		t.Errorf("%v: %q", rest.err, all)
	}

	// The caller may stop early.
	origin.Forget()
	for page := range client.Items(t.Context(), upstream.Query{}) {
		if len(page.Items) != 15 {
			t.Error(len(page.Items))
		}
		break
	}
	if asked := origin.Requests(); len(asked) != 1 {
		t.Errorf("%q", asked)
	}
}

func TestInvalidItemsAmongGoodOnes(t *testing.T) {
	origin := registrytest.New(t)
	origin.Fill(2)
	origin.Break(registrytest.Faults{Invalid: []string{
		`{"server":{"name":"com.example/a","version":"1.0.0"},"_meta":{` + official + `:{"status":"deleted","updatedAt":"2025-10-01T12:30:00Z"}}}`,
		`{"server":{"name":"com.example/a","version":"1.x","description":"d"}}`,
		`{"server":{"name":"../..","version":"1","description":"d"}}`,
		`{"server":{"name":1,"version":2}}`, `{"server":{"name":"a/b","name":"c/d"}}`, `{"server":[]}`, `null`, `7`, `"x"`,
		`{"server":{` + required + `},"status":"active","_meta":{` + official + `:{"status":"deleted"}}}`,
		`{"server":{` + required + `},"_meta":{` + official + `:{"status":"deleted","publishedAt":"x"}}}`,
		"{\"server\":{" + required + ",\"title\":\"\xff\"}}",
	}})
	got := crawl(t.Context(), newClient(t, upstream.Config{Base: origin.URL()}), upstream.Query{})
	if got.err != nil || len(got.items) != 2 || got.pages[0].Miscounted {
		t.Fatalf("%v: %d items", got.err, len(got.items))
	}
	type readable struct {
		name, version string
		status        registry.Status
	}
	want := []readable{
		{"com.example/a", "1.0.0", "deleted"}, {"com.example/a", "", "active"}, {"", "1", "active"},
		{"", "", "active"}, {}, {"", "", "active"}, {"", "", "active"}, {"", "", "active"}, {"", "", "active"},
		{"com.example/a", "1.0.0", ""}, {"com.example/a", "1.0.0", "deleted"}, {},
	}
	if len(got.invalid) != len(want) {
		t.Fatalf("%d are invalid", len(got.invalid))
	}
	for i, bad := range got.invalid {
		invalid := (*registry.InvalidError)(nil)
		if is := (readable{bad.Name, bad.Version, bad.Official.Status}); is != want[i] || !errors.As(bad.Err, &invalid) {
			t.Errorf("%d: %+v, want %+v: %v", i, is, want[i], bad.Err)
		}
	}
	if at := got.invalid[0].Official.UpdatedAt; !at.Equal(day(1)) {
		t.Error(at)
	}
}

func TestCounting(t *testing.T) {
	origin := registrytest.New(t)
	origin.Fill(4)
	client := newClient(t, upstream.Config{Base: origin.URL()})
	origin.Break(registrytest.Faults{Duplicates: true})
	if got := crawl(t.Context(), client, upstream.Query{}); got.err != nil || len(got.items) != 8 || got.pages[0].Miscounted {
		t.Errorf("%v %d", got.err, len(got.items))
	}
	origin.Break(registrytest.Faults{Miscount: true})
	if got := crawl(t.Context(), client, upstream.Query{}); got.err != nil || !got.pages[0].Miscounted || got.pages[0].Count != 5 {
		t.Errorf("%v %+v", got.err, got.pages)
	}
	for count, want := range map[int]bool{0: true, 1: false, 2: true, -1: false} { // a count below zero is none
		base := body(t, fmt.Sprintf(`{"servers":[{%s}],"metadata":{"count":%d}}`, required, count))
		if got := crawl(t.Context(), newClient(t, upstream.Config{Base: base}), upstream.Query{}); got.err != nil || got.pages[0].Miscounted != want {
			t.Errorf("a count of %d: %v %+v", count, got.err, got.pages)
		}
	}
}

// TestLists has lists in the forms of other registries.
func TestLists(t *testing.T) {
	for name, test := range map[string]struct {
		body  string
		items int
		count int
	}{
		"no metadata":        {`{"servers":[{` + required + `}]}`, 1, -1},
		"metadata, empty":    {`{"servers":[{` + required + `}],"metadata":{}}`, 1, -1},
		"metadata, null":     {`{"servers":[],"metadata":null}`, 0, -1},
		"cursor, null":       {`{"servers":[],"metadata":{"nextCursor":null,"count":0}}`, 0, 0},
		"cursor, empty":      {`{"servers":[],"metadata":{"nextCursor":"","count":0}}`, 0, 0},
		"no servers":         {`{"servers":null,"metadata":{"count":0}}`, 0, 0},
		"a count below zero": {`{"servers":[],"metadata":{"count":-7}}`, 0, -1},
		"more members":       {`{"servers":[],"Servers":[1],"metadata":{"total":3},"x":{"a":1,"a":2}}`, 0, -1},
		"spaces":             {" \n{ \"servers\" : [ {" + required + "} , {" + required + "} ] } \n", 2, -1},
	} {
		got := crawl(t.Context(), newClient(t, upstream.Config{Base: body(t, test.body)}), upstream.Query{})
		if got.err != nil || len(got.pages) != 1 || len(got.items) != test.items || got.pages[0].Count != test.count || got.pages[0].Miscounted {
			t.Errorf("%s: %v: %+v", name, got.err, got.pages)
		}
	}
}

// TestLongestCursor: a cursor of the greatest length is one.
func TestLongestCursor(t *testing.T) {
	next := strings.Repeat("a", 4096)
	list := newClient(t, upstream.Config{Base: body(t, `{"servers":[{`+required+`}],"metadata":{"nextCursor":"`+next+`"}}`)}).Items(t.Context(), upstream.Query{})
	for page, err := range list {
		if err != nil || page.Next != next {
			t.Errorf("%v: a cursor of %d bytes", err, len(page.Next))
		}
		break
	}
}

func TestNotTheAnswerOfARegistry(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                     ``,
		"a page for people":           `<!DOCTYPE html><title>Sign in</title>`,
		"a list alone":                `[]`,
		"another object":              `{"items":[]}`,
		"a list in another case":      `{"Servers":[]}`,
		"servers, no list":            `{"servers":{}}`,
		"servers twice":               `{"servers":[],"servers":[]}`,
		"metadata twice":              `{"servers":[],"metadata":{},"metadata":{"nextCursor":"a"}}`,
		"metadata, no object":         `{"servers":[],"metadata":[]}`,
		"cursor, a number":            `{"servers":[],"metadata":{"nextCursor":1}}`,
		"cursor twice":                `{"servers":[],"metadata":{"nextCursor":"a","nextCursor":"b"}}`,
		"count, a text":               `{"servers":[],"metadata":{"count":"1"}}`,
		"half of a list":              `{"servers":[{` + required + `}`,
		"something behind":            `{"servers":[]}{}`,
		"a cursor too long":           `{"servers":[],"metadata":{"nextCursor":"` + strings.Repeat("a", 4097) + `"}}`,
		"nested without end":          `{"servers":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
		"nested without end, outside": strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000),
	} {
		got := crawl(t.Context(), newClient(t, upstream.Config{Base: body(t, text)}), upstream.Query{})
		if !errors.Is(got.err, upstream.ErrAnswer) || len(got.pages) > 0 {
			t.Errorf("%s: %v: %+v", name, got.err, got.pages)
		}
	}
}

func TestNotModified(t *testing.T) {
	origin := registrytest.New(t)
	origin.Fill(3)
	origin.SetETags(true)
	client := newClient(t, upstream.Config{Base: origin.URL(), PageSize: 2})
	first := crawl(t.Context(), client, upstream.Query{})
	tag := first.pages[0].ETag
	if first.err != nil || tag == "" || len(first.pages) != 2 {
		t.Fatalf("%v %+v", first.err, first.pages)
	}
	if got := crawl(t.Context(), client, upstream.Query{IfNoneMatch: tag}); !errors.Is(got.err, upstream.ErrNotModified) || len(got.pages) != 0 {
		t.Errorf("%v %+v", got.err, got.pages)
	}
	// If-None-Match is sent for the first page only, so further pages are always read.
	if got := crawl(t.Context(), client, upstream.Query{IfNoneMatch: first.pages[1].ETag, Cursor: first.pages[0].Next}); got.err != nil || len(got.items) != 1 {
		t.Errorf("%v %+v", got.err, got.pages)
	}
	origin.SetStatus("com.example/server-000001", "1.0.0", registry.StatusDeprecated, "")
	if got := crawl(t.Context(), client, upstream.Query{IfNoneMatch: tag}); got.err != nil || len(got.items) != 3 {
		t.Errorf("%v %+v", got.err, got.pages)
	}
}

func TestListsWithoutEnd(t *testing.T) {
	origin := registrytest.New(t)
	origin.Fill(20)
	base := origin.URL()
	endless := atomic.Int64{}
	counting := handler(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"servers":[{%s}],"metadata":{"nextCursor":"%d"}}`, required, endless.Add(1))
	})
	onward := `{"servers":[{` + required + `}],"metadata":{"nextCursor":"0"}}`
	constant := handler(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Replace(onward, `"0"`, fmt.Sprintf(`"%d"`, endless.Add(1)%10), 1))
	})
	for name, test := range map[string]struct {
		config upstream.Config
		faults registrytest.Faults
		query  upstream.Query
		err    error
		why    string
		pages  int
	}{
		"a cursor again":                 {upstream.Config{Base: base, PageSize: 5}, registrytest.Faults{CursorLoop: true}, upstream.Query{}, upstream.ErrEndless, "repeated cursor", 2},
		"the cursor where it began":      {upstream.Config{Base: base, PageSize: 5}, registrytest.Faults{CursorLoop: true}, upstream.Query{Cursor: "Y29tLmV4YW1wbGUvc2VydmVyLTAwMDAwMQAxLjAuMA"}, upstream.ErrEndless, "repeated cursor", 1},
		"empty pages":                    {upstream.Config{Base: base}, registrytest.Faults{Endless: true}, upstream.Query{}, upstream.ErrEndless, "empty pages", 4},
		"empty pages, fewer allowed":     {upstream.Config{Base: base, MaxEmptyPages: 1}, registrytest.Faults{Endless: true}, upstream.Query{}, upstream.ErrEndless, "empty pages", 2},
		"pages of one item":              {upstream.Config{Base: base, PageSize: 1, MaxEmptyPages: 1}, registrytest.Faults{}, upstream.Query{}, nil, "", 21},
		"pages before the cursor":        {upstream.Config{Base: counting, MaxPages: 7}, registrytest.Faults{}, upstream.Query{PagesBefore: 5}, upstream.ErrEndless, "more than 7 pages", 2},
		"pages":                          {upstream.Config{Base: counting, MaxPages: 7}, registrytest.Faults{}, upstream.Query{}, upstream.ErrEndless, "more than 7 pages", 7},
		"bytes":                          {upstream.Config{Base: counting, MaxBytes: 400}, registrytest.Faults{}, upstream.Query{}, upstream.ErrTooLarge, "more than", 3},
		"bytes, to the last one":         {upstream.Config{Base: constant, MaxBytes: 2 * int64(len(onward))}, registrytest.Faults{}, upstream.Query{}, upstream.ErrTooLarge, "a crawl of more than", 2},
		"a page":                         {upstream.Config{Base: base, MaxPageBytes: 1000}, registrytest.Faults{}, upstream.Query{}, upstream.ErrTooLarge, "more than 1000 bytes", 0},
		"a list of the allowed length":   {upstream.Config{Base: base, PageSize: 5, MaxPages: 5}, registrytest.Faults{}, upstream.Query{}, nil, "", 5},
		"a list that is one page longer": {upstream.Config{Base: base, PageSize: 5, MaxPages: 4}, registrytest.Faults{}, upstream.Query{}, upstream.ErrEndless, "more than 4 pages", 4},
	} {
		origin.Break(test.faults)
		got := crawl(t.Context(), newClient(t, test.config), test.query)
		if !errors.Is(got.err, test.err) || len(got.pages) != test.pages {
			t.Errorf("%s: %v after %d pages", name, got.err, len(got.pages))
		}
		if got.err != nil && !strings.Contains(got.err.Error(), test.why) {
			t.Errorf("%s: %v", name, got.err)
		}
	}
}

// TestLargeInside has a compressed answer that is small before and large after decompression.
func TestLargeInside(t *testing.T) {
	var small bytes.Buffer
	w := gzip.NewWriter(&small)
	if _, err := io.Copy(w, strings.NewReader(`{"servers":[],"x":"`+strings.Repeat("a", 5<<20)+`"}`)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	base := handler(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(small.Bytes())
	})
	for most, want := range map[int64]error{1 << 20: upstream.ErrTooLarge, 6 << 20: nil} {
		if got := crawl(t.Context(), newClient(t, upstream.Config{Base: base, MaxPageBytes: most}), upstream.Query{}); !errors.Is(got.err, want) {
			t.Errorf("%d bytes: %v", most, got.err)
		}
	}
}

// FuzzPage checks that all items of a list are valid, and that each element of the list is
// either an item or an invalid one.
func FuzzPage(f *testing.F) {
	record, err := os.ReadFile("../testdata/records/packages.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		`{"servers":[{"server":` + string(record) + `}],"metadata":{"count":1,"nextCursor":"a"}}`,
		`{"servers":[{` + required + `,"status":"deleted"},{},null,[{}]],"metadata":{"nextCursor":null}}`,
		`{"metadata":{},"servers":[]}`, `{"servers":[],"servers":[]}`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		page, err := upstream.ParsePage(data)
		if err != nil {
			return
		}
		var is struct{ Elements []any }
		if unmarshalMember(data, "servers", &is.Elements) != nil || len(page.Items)+len(page.Invalid) != len(is.Elements) {
			t.Fatalf("%d and %d of %d", len(page.Items), len(page.Invalid), len(is.Elements))
		}
		for _, item := range page.Items {
			if again, err := registry.ParseRecord(item.Record.Raw()); err != nil || again.String() != item.Record.String() {
				t.Errorf("%s is no record: %v", item.Record.Raw(), err)
			}
		}
		for _, invalid := range page.Invalid {
			if invalid.Err == nil || invalid.Official.Status != "" && invalid.Official.Status.Validate() != nil {
				t.Fatalf("%+v", invalid)
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

func BenchmarkParsePage(b *testing.B) {
	record, err := os.ReadFile("../testdata/records/remote.json")
	if err != nil {
		b.Fatal(err)
	}
	var page bytes.Buffer
	for i := range 100 {
		if i > 0 {
			page.WriteByte(',')
		}
		fmt.Fprintf(&page, `{"server":%s}`, record)
	}
	list := []byte(`{"servers":[` + page.String() + `],"metadata":{"count":100}}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(list)))
	for b.Loop() {
		if got, err := upstream.ParsePage(list); err != nil || len(got.Items) != 100 {
			b.Fatal(err)
		}
	}
}
