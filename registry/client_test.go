package registry_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/registrytest"
)

func get(t *testing.T, address string) (status int, header http.Header, body []byte) {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, body
}

func newClient(t *testing.T, c registry.ClientConfig) *registry.Client {
	t.Helper()
	client, err := registry.NewClient(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// crawled is what a crawl gave.
type crawled struct {
	pages   []registry.Page
	items   []registry.Item
	invalid []registry.InvalidItem
	err     error
}

func crawl(ctx context.Context, client *registry.Client, q registry.Query) (c crawled) {
	for page, err := range client.Items(ctx, q) {
		if err != nil {
			c.err = err
			continue
		}
		c.pages = append(c.pages, page)
		c.items = append(c.items, page.Items...)
		c.invalid = append(c.invalid, page.Invalid...)
	}
	return c
}

func names(items []registry.Item) (names []string) {
	for _, item := range items {
		names = append(names, item.Record.String())
	}
	return names
}

// handler answers with one function.
func handler(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// body answers everything with a body.
func body(t *testing.T, text string) string {
	t.Helper()
	return handler(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

func TestCrawl(t *testing.T) {
	for form, name := range map[registrytest.Form]string{registrytest.Official: "official", registrytest.Flat: "flat", registrytest.Both: "both"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := registrytest.New(t)
			upstream.SetForm(form)
			upstream.Fill(205)
			upstream.SetStatus("com.example/server-000007", "1.0.0", registry.StatusDeprecated, "Use 8.")
			upstream.SetStatus("com.example/server-000008", "1.0.0", registry.StatusDeleted, "")
			upstream.SetMeta("com.example/server-000007", "1.0.0", "com.example.reg/stars", 4.5)
			got := crawl(t.Context(), newClient(t, registry.ClientConfig{Base: upstream.URL(), PageSize: 60}), registry.Query{IncludeDeleted: true})
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
				if page.Count != len(page.Items) || page.Miscounted || page.Bytes == 0 || !page.Date.Equal(upstream.Now()) || (page.Next == "") != (i == 3) {
					t.Errorf("page %d: %+v", i, page)
				}
			}
			asked := upstream.Requests()
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

// TestCursorUnchanged has a cursor of characters that mean something elsewhere.
func TestCursorUnchanged(t *testing.T) {
	const cursor = "com.example/a:1.0.0+b&limit=1 %2F ü#?="
	base := handler(t, func(w http.ResponseWriter, r *http.Request) {
		if given := r.URL.Query().Get("cursor"); given == "" {
			_, _ = w.Write(encode(object{"servers": []any{}, "metadata": object{"nextCursor": cursor}}))
		} else if given == cursor && r.URL.Query().Get("limit") == "100" {
			_, _ = io.WriteString(w, `{"servers":[]}`)
		} else {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	if got := crawl(t.Context(), newClient(t, registry.ClientConfig{Base: base}), registry.Query{}); got.err != nil || len(got.pages) != 2 {
		t.Errorf("%v %d", got.err, len(got.pages))
	}
}

func TestQueries(t *testing.T) {
	upstream := registrytest.New(t)
	upstream.Add("com.example/notes", "1.10.0")
	upstream.Add("com.example/notes", "1.9.0")
	upstream.Add("org.example/mail", "may")
	since := upstream.Now()
	upstream.Add("org.example/mail", "june")
	upstream.SetStatus("com.example/notes", "1.10.0", registry.StatusDeleted, "")
	client := newClient(t, registry.ClientConfig{Base: upstream.URL()})
	for name, test := range map[string]struct {
		q    registry.Query
		want []string
	}{
		"all":         {registry.Query{}, []string{"com.example/notes 1.9.0", "org.example/mail june", "org.example/mail may"}},
		"deleted too": {registry.Query{IncludeDeleted: true}, []string{"com.example/notes 1.10.0", "com.example/notes 1.9.0", "org.example/mail june", "org.example/mail may"}},
		"the latest":  {registry.Query{Latest: true}, []string{"com.example/notes 1.9.0", "org.example/mail june"}},
		"a search":    {registry.Query{Search: "NOTE"}, []string{"com.example/notes 1.9.0"}},
		"updated":     {registry.Query{UpdatedSince: since}, []string{"com.example/notes 1.10.0", "org.example/mail june"}},
		"updated, in another zone": {
			registry.Query{UpdatedSince: since.In(time.FixedZone("east", 3600)), IncludeDeleted: true}, []string{"com.example/notes 1.10.0", "org.example/mail june"},
		},
		"updated, between two seconds": {
			registry.Query{UpdatedSince: since.Add(-time.Nanosecond)}, []string{"com.example/notes 1.10.0", "org.example/mail june", "org.example/mail may"},
		},
		"updated, nothing": {registry.Query{UpdatedSince: upstream.Now()}, nil},
	} {
		got := crawl(t.Context(), client, test.q)
		if got.err != nil || !slices.Equal(names(got.items), test.want) {
			t.Errorf("%s: %v: %q", name, got.err, names(got.items))
		}
	}
	// Everybody reads a time that ends in Z, and fractions count.
	at := registrytest.Epoch.Add(200 * time.Millisecond)
	upstream.SetClock(func() time.Time { return at })
	upstream.Add("org.example/first", "1.0.0")
	at = at.Add(400 * time.Millisecond)
	upstream.Add("org.example/second", "1.0.0")
	upstream.Forget()
	later := crawl(t.Context(), client, registry.Query{Search: "org.example/", UpdatedSince: at.Add(-200 * time.Millisecond).In(time.FixedZone("east", 3600))})
	if got, asked := names(later.items), upstream.Requests(); slices.Contains(got, "org.example/first 1.0.0") || !slices.Contains(got, "org.example/second 1.0.0") ||
		!strings.Contains(asked[0], "updated_since="+url.QueryEscape("2025-10-01T00:00:00.4Z")) {
		t.Errorf("%q: %q", asked, got)
	}

	got := crawl(t.Context(), client, registry.Query{Search: "ab"})
	refused := (*registry.AnswerError)(nil)
	if !errors.As(got.err, &refused) || refused.Status != 422 || !strings.Contains(refused.Detail, "3 characters") {
		t.Errorf("%v", got.err)
	}
}

func TestResumeFromACursor(t *testing.T) {
	upstream := registrytest.New(t)
	upstream.Fill(100)
	client := newClient(t, registry.ClientConfig{Base: upstream.URL(), PageSize: 15})
	upstream.Break(registrytest.Faults{After: 3, Down: true})
	first := crawl(t.Context(), client, registry.Query{})
	upstream.Mend()
	if first.err == nil || len(first.items) != 45 {
		t.Fatalf("%v after %d items", first.err, len(first.items))
	}
	rest := crawl(t.Context(), client, registry.Query{Cursor: first.pages[2].Next})
	all := names(append(first.items, rest.items...))
	if rest.err != nil || len(slices.Compact(slices.Clone(all))) != 100 || !slices.IsSorted(all) {
		t.Errorf("%v: %q", rest.err, all)
	}

	// Whoever has enough need not go on.
	upstream.Forget()
	for page := range client.Items(t.Context(), registry.Query{}) {
		if len(page.Items) != 15 {
			t.Error(len(page.Items))
		}
		break
	}
	if asked := upstream.Requests(); len(asked) != 1 {
		t.Errorf("%q", asked)
	}
}

func TestBasesAndVersionsOfTheInterface(t *testing.T) {
	for name, test := range map[string]struct {
		serves []string
		suffix string
		want   []string // of two lists and one lookup; nil: it does not work
	}{
		"plain":                       {[]string{"/v0.1", "/v0"}, "", []string{"/v0.1/servers?", "/v0.1/servers?", "/v0.1/servers/"}},
		"with a slash":                {[]string{"/v0.1"}, "/", []string{"/v0.1/servers?", "/v0.1/servers?", "/v0.1/servers/"}},
		"with the version":            {[]string{"/v0.1"}, "/v0.1", []string{"/v0.1/servers?", "/v0.1/servers?", "/v0.1/servers/"}},
		"with the version and slash":  {[]string{"/v0.1"}, "/v0.1/", []string{"/v0.1/servers?", "/v0.1/servers?", "/v0.1/servers/"}},
		"the older one":               {[]string{"/v0"}, "", []string{"/v0.1/servers?", "/v0/servers?", "/v0/servers?", "/v0/servers/"}},
		"the older one, another told": {[]string{"/v0"}, "/v0.1", []string{"/v0.1/servers?", "/v0/servers?", "/v0/servers?", "/v0/servers/"}},
		"the older one, told":         {[]string{"/v0"}, "/v0", []string{"/v0/servers?", "/v0/servers?", "/v0/servers/"}},
		"the older one only":          {[]string{"/v0.1"}, "/v0", nil},
		"below a path":                {[]string{"/registry/v0.1"}, "/registry", []string{"/registry/v0.1/servers?", "/registry/v0.1/servers?", "/registry/v0.1/servers/"}},
		"neither":                     {[]string{"/v1"}, "", nil},
	} {
		upstream := registrytest.New(t)
		upstream.Add("com.example/notes", "1.0.0")
		upstream.SetPrefixes(test.serves...)
		client := newClient(t, registry.ClientConfig{Base: upstream.URL() + test.suffix})
		got := crawl(t.Context(), client, registry.Query{})
		if test.want == nil {
			if !errors.Is(got.err, registry.ErrNotFound) {
				t.Errorf("%s: %v", name, got.err)
			}
			continue
		}
		again := crawl(t.Context(), client, registry.Query{})
		_, err := client.Version(t.Context(), "com.example/notes", "1.0.0")
		if got.err != nil || again.err != nil || err != nil {
			t.Errorf("%s: %v, %v, %v", name, got.err, again.err, err)
		}
		asked := upstream.Requests()
		if !slices.EqualFunc(asked, test.want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, asked, test.want)
		}
	}
}

// TestInterfaceChanges has an upstream that gives up the interface that worked.
func TestInterfaceChanges(t *testing.T) {
	upstream := registrytest.New(t)
	upstream.Fill(3)
	client := newClient(t, registry.ClientConfig{Base: upstream.URL(), PageSize: 2})
	for _, prefix := range []string{"/v0", "/v0.1"} {
		upstream.SetPrefixes(prefix)
		if got := crawl(t.Context(), client, registry.Query{}); got.err != nil || len(got.items) != 3 {
			t.Errorf("%s: %v", prefix, got.err)
		}
	}
	// What is missing in the middle of a list is not looked for elsewhere.
	upstream.SetPrefixes("/v0")
	upstream.Forget()
	got := crawl(t.Context(), client, registry.Query{Cursor: "x"})
	if asked := upstream.Requests(); !errors.Is(got.err, registry.ErrNotFound) || len(asked) != 1 {
		t.Errorf("%v %q", got.err, asked)
	}
}

func TestInvalidItemsAmongGoodOnes(t *testing.T) {
	upstream := registrytest.New(t)
	upstream.Fill(2)
	upstream.Break(registrytest.Faults{Invalid: []string{
		`{"server":{"name":"com.example/a","version":"1.0.0"},"_meta":{` + official + `:{"status":"deleted","updatedAt":"2025-10-01T12:30:00Z"}}}`,
		`{"server":{"name":"com.example/a","version":"1.x","description":"d"}}`,
		`{"server":{"name":"../..","version":"1","description":"d"}}`,
		`{"server":{"name":1,"version":2}}`, `{"server":{"name":"a/b","name":"c/d"}}`, `{"server":[]}`, `null`, `7`, `"x"`,
		`{"server":{` + required + `},"status":"active","_meta":{` + official + `:{"status":"deleted"}}}`,
		`{"server":{` + required + `},"_meta":{` + official + `:{"status":"deleted","publishedAt":"x"}}}`,
		"{\"server\":{" + required + ",\"title\":\"\xff\"}}",
	}})
	got := crawl(t.Context(), newClient(t, registry.ClientConfig{Base: upstream.URL()}), registry.Query{})
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
	upstream := registrytest.New(t)
	upstream.Fill(4)
	client := newClient(t, registry.ClientConfig{Base: upstream.URL()})
	upstream.Break(registrytest.Faults{Duplicates: true})
	if got := crawl(t.Context(), client, registry.Query{}); got.err != nil || len(got.items) != 8 || got.pages[0].Miscounted {
		t.Errorf("%v %d", got.err, len(got.items))
	}
	upstream.Break(registrytest.Faults{Miscount: true})
	if got := crawl(t.Context(), client, registry.Query{}); got.err != nil || !got.pages[0].Miscounted || got.pages[0].Count != 5 {
		t.Errorf("%v %+v", got.err, got.pages)
	}
}

// TestLists has lists as other registries write them.
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
		got := crawl(t.Context(), newClient(t, registry.ClientConfig{Base: body(t, test.body)}), registry.Query{})
		if got.err != nil || len(got.pages) != 1 || len(got.items) != test.items || got.pages[0].Count != test.count || got.pages[0].Miscounted {
			t.Errorf("%s: %v: %+v", name, got.err, got.pages)
		}
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
		got := crawl(t.Context(), newClient(t, registry.ClientConfig{Base: body(t, text)}), registry.Query{})
		if !errors.Is(got.err, registry.ErrAnswer) || len(got.pages) > 0 {
			t.Errorf("%s: %v: %+v", name, got.err, got.pages)
		}
	}
}

func TestCutOff(t *testing.T) {
	upstream := registrytest.New(t)
	upstream.Fill(50)
	client := newClient(t, registry.ClientConfig{Base: upstream.URL(), PageSize: 20})
	for name, faults := range map[string]registrytest.Faults{
		"in the middle": {After: 1, CutOff: true}, "before it began": {After: 1, Down: true}, "by a page": {After: 1, Page: true},
	} {
		upstream.Break(faults)
		if got := crawl(t.Context(), client, registry.Query{}); got.err == nil || len(got.pages) != 1 {
			t.Errorf("%s: %v after %d pages", name, got.err, len(got.pages))
		}
	}
}

func TestErrorsOfTheUpstream(t *testing.T) {
	long := strings.Repeat("ä", 400)
	for name, test := range map[string]struct {
		status        int
		body          string
		title, detail string
	}{
		"a problem":           {422, `{"title":"Unprocessable Entity","status":422,"detail":"validation failed","errors":[{"message":"x"}]}`, "Unprocessable Entity", "validation failed"},
		"an error":            {404, `{"error":"Server not found"}`, "", "Server not found"},
		"a message":           {500, `{"message":"oops"}`, "", "oops"},
		"an error, an object": {500, `{"error":{"code":1},"message":"oops"}`, "", "oops"},
		"nothing":             {502, ``, "", ""},
		"a page":              {502, `<html>Bad gateway`, "", ""},
		"another kind":        {400, `["a"]`, "", ""},
		"half of it":          {400, `{"error":"Ser`, "", ""},
		"control characters":  {400, `{"error":"a\u0000\u001b[31m\nb"}`, "", "a  [31m b"},
		"long":                {400, `{"error":"` + long + `"}`, "", long[:2*300] + "..."},
		"longer than is read": {400, `{"error":"` + strings.Repeat("a", 70_000) + `"}`, "", ""},
		"no content":          {204, ``, "", ""},
		"not modified":        {304, ``, "", ""},
		"choices":             {300, `{"error":"many"}`, "", "many"},
		"sign in":             {401, `{"title":"Unauthorized"}`, "Unauthorized", ""},
	} {
		base := handler(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "5") // means nothing with these
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		})
		got := crawl(t.Context(), newClient(t, registry.ClientConfig{Base: base}), registry.Query{})
		refused := (*registry.AnswerError)(nil)
		if !errors.As(got.err, &refused) || refused.Status != test.status || refused.Title != test.title || refused.Detail != test.detail || !refused.RetryAt.IsZero() {
			t.Errorf("%s: %+v", name, got.err)
			continue
		}
		if errors.Is(got.err, registry.ErrNotFound) != (test.status == 404) || errors.Is(got.err, registry.ErrBusy) {
			t.Errorf("%s: it is another kind of error", name)
		}
		if text := got.err.Error(); !strings.Contains(text, strconv.Itoa(test.status)) || !strings.Contains(text, test.detail) || !strings.Contains(text, test.title) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2025, 10, 1, 12, 0, 0, 0, time.UTC)
	for field, want := range map[string]time.Time{
		"":                              {},
		"120":                           now.Add(2 * time.Minute),
		"0":                             now,
		"Wed, 01 Oct 2025 12:05:00 GMT": now.Add(5 * time.Minute),
		"Wed, 01 Oct 2025 11:00:00 GMT": now,
		"Wed, 01 Oct 2031 11:00:00 GMT": now.Add(24 * time.Hour),
		"90000":                         now.Add(24 * time.Hour),
		"18446744073709551615":          now.Add(24 * time.Hour),
		"99999999999999999999999":       {},
		"-5":                            {},
		"soon":                          {},
		"1.5":                           {},
	} {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			upstream := registrytest.New(t)
			upstream.Break(registrytest.Faults{Status: status, RetryAfter: field})
			client := newClient(t, registry.ClientConfig{Base: upstream.URL(), Now: func() time.Time { return now }})
			got := crawl(t.Context(), client, registry.Query{})
			busy := (*registry.AnswerError)(nil)
			if !errors.As(got.err, &busy) || !errors.Is(got.err, registry.ErrBusy) || !busy.RetryAt.Equal(want) || busy.Status != status {
				t.Errorf("%d %q: %+v", status, field, got.err)
			}
			if asked := upstream.Requests(); len(asked) != 1 {
				t.Errorf("%q: asked %d times", field, len(asked))
			}
		}
	}
}

func TestNotModified(t *testing.T) {
	upstream := registrytest.New(t)
	upstream.Fill(3)
	upstream.SetETags(true)
	client := newClient(t, registry.ClientConfig{Base: upstream.URL(), PageSize: 2})
	first := crawl(t.Context(), client, registry.Query{})
	tag := first.pages[0].ETag
	if first.err != nil || tag == "" || len(first.pages) != 2 {
		t.Fatalf("%v %+v", first.err, first.pages)
	}
	if got := crawl(t.Context(), client, registry.Query{IfNoneMatch: tag}); !errors.Is(got.err, registry.ErrNotModified) || len(got.pages) != 0 {
		t.Errorf("%v %+v", got.err, got.pages)
	}
	// Only about the first page: further ones are read whatever they are called.
	if got := crawl(t.Context(), client, registry.Query{IfNoneMatch: first.pages[1].ETag, Cursor: first.pages[0].Next}); got.err != nil || len(got.items) != 1 {
		t.Errorf("%v %+v", got.err, got.pages)
	}
	upstream.SetStatus("com.example/server-000001", "1.0.0", registry.StatusDeprecated, "")
	if got := crawl(t.Context(), client, registry.Query{IfNoneMatch: tag}); got.err != nil || len(got.items) != 3 {
		t.Errorf("%v %+v", got.err, got.pages)
	}
}

func TestListsWithoutEnd(t *testing.T) {
	upstream := registrytest.New(t)
	upstream.Fill(20)
	base := upstream.URL()
	endless := atomic.Int64{}
	counting := handler(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"servers":[{%s}],"metadata":{"nextCursor":"%d"}}`, required, endless.Add(1))
	})
	onward := `{"servers":[{` + required + `}],"metadata":{"nextCursor":"0"}}`
	constant := handler(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Replace(onward, `"0"`, fmt.Sprintf(`"%d"`, endless.Add(1)%10), 1))
	})
	for name, test := range map[string]struct {
		config registry.ClientConfig
		faults registrytest.Faults
		query  registry.Query
		err    error
		why    string
		pages  int
	}{
		"a cursor again":                 {registry.ClientConfig{Base: base, PageSize: 5}, registrytest.Faults{CursorLoop: true}, registry.Query{}, registry.ErrEndless, "there before", 2},
		"the cursor where it began":      {registry.ClientConfig{Base: base, PageSize: 5}, registrytest.Faults{CursorLoop: true}, registry.Query{Cursor: "Y29tLmV4YW1wbGUvc2VydmVyLTAwMDAwMQAxLjAuMA"}, registry.ErrEndless, "there before", 1},
		"empty pages":                    {registry.ClientConfig{Base: base}, registrytest.Faults{Endless: true}, registry.Query{}, registry.ErrEndless, "empty pages", 4},
		"empty pages, fewer allowed":     {registry.ClientConfig{Base: base, MaxEmptyPages: 1}, registrytest.Faults{Endless: true}, registry.Query{}, registry.ErrEndless, "empty pages", 2},
		"pages":                          {registry.ClientConfig{Base: counting, MaxPages: 7}, registrytest.Faults{}, registry.Query{}, registry.ErrEndless, "more than 7 pages", 7},
		"bytes":                          {registry.ClientConfig{Base: counting, MaxBytes: 400}, registrytest.Faults{}, registry.Query{}, registry.ErrTooLarge, "more than", 3},
		"bytes, to the last one":         {registry.ClientConfig{Base: constant, MaxBytes: 2 * int64(len(onward))}, registrytest.Faults{}, registry.Query{}, registry.ErrTooLarge, "a crawl of more than", 2},
		"a page":                         {registry.ClientConfig{Base: base, MaxPageBytes: 1000}, registrytest.Faults{}, registry.Query{}, registry.ErrTooLarge, "more than 1000 bytes", 0},
		"a list of the allowed length":   {registry.ClientConfig{Base: base, PageSize: 5, MaxPages: 5}, registrytest.Faults{}, registry.Query{}, nil, "", 5},
		"a list that is one page longer": {registry.ClientConfig{Base: base, PageSize: 5, MaxPages: 4}, registrytest.Faults{}, registry.Query{}, registry.ErrEndless, "more than 4 pages", 4},
	} {
		upstream.Break(test.faults)
		got := crawl(t.Context(), newClient(t, test.config), test.query)
		if !errors.Is(got.err, test.err) || len(got.pages) != test.pages {
			t.Errorf("%s: %v after %d pages", name, got.err, len(got.pages))
		}
		if got.err != nil && !strings.Contains(got.err.Error(), test.why) {
			t.Errorf("%s: %v", name, got.err)
		}
	}
}

// TestLargeInside has an answer that is small on the wire.
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
	for most, want := range map[int64]error{1 << 20: registry.ErrTooLarge, 6 << 20: nil} {
		if got := crawl(t.Context(), newClient(t, registry.ClientConfig{Base: base, MaxPageBytes: most}), registry.Query{}); !errors.Is(got.err, want) {
			t.Errorf("%d bytes: %v", most, got.err)
		}
	}
}

func TestRedirects(t *testing.T) {
	var elsewhere atomic.Int64
	other := handler(t, func(w http.ResponseWriter, _ *http.Request) {
		elsewhere.Add(1)
		_, _ = io.WriteString(w, `{"servers":[]}`)
	})
	for name, test := range map[string]struct {
		to   string // from /v0.1/servers
		want bool
	}{
		"another path":                    {"/moved/servers?a=b", true},
		"another path, in whole":          {"{self}/moved/servers", true},
		"another origin":                  {other + "/v0.1/servers", false},
		"another origin, without scheme":  {strings.TrimPrefix(other, "http:") + "/v0.1/servers", false},
		"another scheme":                  {"https{rest}/moved/servers", false},
		"a user name":                     {"http://user@{host}/moved/servers", false},
		"itself":                          {"/v0.1/servers", false},
		"a file":                          {"file:///etc/passwd", false},
		"nowhere":                         {"", false},
		"the same origin by another name": {"http://localhost:{port}/moved/servers", false},
	} {
		var self *url.URL
		var asked atomic.Int64
		base := handler(t, func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if r.URL.Path == "/moved/servers" {
				_, _ = io.WriteString(w, `{"servers":[]}`)
				return
			}
			if test.to != "" {
				w.Header().Set("Location", strings.NewReplacer("{self}", "http://"+self.Host, "{rest}", "://"+self.Host, "{host}", self.Host, "{port}", self.Port()).Replace(test.to))
			}
			w.WriteHeader(http.StatusPermanentRedirect)
		})
		self, _ = url.Parse(base)
		got := crawl(t.Context(), newClient(t, registry.ClientConfig{Base: base}), registry.Query{})
		if (got.err == nil) != test.want || len(got.pages) > 0 != test.want || asked.Load() > 4 {
			t.Errorf("%s: %v after %d requests", name, got.err, asked.Load())
		}
		if !test.want && test.to != "" && !errors.Is(got.err, registry.ErrRedirect) {
			t.Errorf("%s: another error: %v", name, got.err)
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests went to another origin", n)
	}
}

func TestTime(t *testing.T) {
	upstream := registrytest.New(t)
	upstream.Fill(30)
	never := make(chan struct{})
	upstream.Break(registrytest.Faults{After: 1, Hold: never})
	client := newClient(t, registry.ClientConfig{Base: upstream.URL(), PageSize: 10, Timeout: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(20*time.Second, cancel).Stop() // should the client have no end of its own
	if got := crawl(ctx, client, registry.Query{}); !errors.Is(got.err, context.DeadlineExceeded) || len(got.pages) != 1 {
		t.Errorf("%v after %d pages", got.err, len(got.pages))
	}
	// A body that never ends is bounded too.
	base := handler(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"servers":[`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	slow := newClient(t, registry.ClientConfig{Base: base, Timeout: 50 * time.Millisecond})
	if got := crawl(ctx, slow, registry.Query{}); !errors.Is(got.err, context.DeadlineExceeded) {
		t.Errorf("%v", got.err)
	}

	upstream.Break(registrytest.Faults{After: 1, Hold: never})
	patient := newClient(t, registry.ClientConfig{Base: upstream.URL(), PageSize: 10})
	pages := 0
	var last error
	for _, err := range patient.Items(ctx, registry.Query{}) {
		if last = err; err == nil {
			pages++
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) || pages != 1 {
		t.Errorf("%v after %d pages", last, pages)
	}
}

// onlyPage returns the only page of a list.
func onlyPage(pages iter.Seq2[registry.Page, error]) (only registry.Page, err error) {
	n := 0
	for page, failed := range pages {
		only, err = page, failed
		n++
	}
	if n != 1 {
		return only, fmt.Errorf("%d pages: %w", n, err)
	}
	return only, err
}

func TestVersions(t *testing.T) {
	upstream := registrytest.New(t)
	for _, version := range []string{"1.0.0", "1.1.0+build", "release/2 100%", "2.0.0"} {
		upstream.Add("com.example/notes.v_1-a", version)
	}
	upstream.SetStatus("com.example/notes.v_1-a", "2.0.0", registry.StatusDeleted, "malware")
	client := newClient(t, registry.ClientConfig{Base: upstream.URL()})
	page, err := onlyPage(client.Versions(t.Context(), "com.example/notes.v_1-a"))
	if err != nil || len(page.Items) != 4 || page.Items[0].Record.Version() != "2.0.0" || page.Items[0].Official.Status != registry.StatusDeleted {
		t.Errorf("%v: %q", err, names(page.Items))
	}
	for asked, want := range map[string]string{"1.0.0": "1.0.0", "1.1.0+build": "1.1.0+build", "release/2 100%": "release/2 100%", "2.0.0": "2.0.0", "latest": "1.1.0+build"} {
		item, err := client.Version(t.Context(), "com.example/notes.v_1-a", asked)
		if err != nil || item.Record.Version() != want {
			t.Errorf("%s: %v %s", asked, err, item.Record)
		}
	}
	requests := upstream.Requests()
	for _, want := range []string{
		"/v0.1/servers/com.example%2Fnotes.v_1-a/versions?include_deleted=true",
		"/v0.1/servers/com.example%2Fnotes.v_1-a/versions/latest",
		"/v0.1/servers/com.example%2Fnotes.v_1-a/versions/release%2F2%20100%25?include_deleted=true",
	} {
		if !slices.Contains(requests, want) {
			t.Errorf("%s was not asked for: %q", want, requests)
		}
	}
	upstream.Forget()
	for _, name := range []string{"", "notes", "a/b/c", "../..", "a/..", "com.example/a?b"} {
		if _, err := onlyPage(client.Versions(t.Context(), name)); err == nil {
			t.Errorf("%q is a name", name)
		}
		if _, err := client.Version(t.Context(), name, "1.0.0"); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
	for _, version := range []string{"", ".", "..", "^1.0.0", "1\x00"} {
		if _, err := client.Version(t.Context(), "a/b", version); err == nil {
			t.Errorf("%q is a version", version)
		}
	}
	if asked := upstream.Requests(); len(asked) != 0 {
		t.Errorf("%q", asked)
	}
	if _, err := onlyPage(client.Versions(t.Context(), "a/b")); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := client.Version(t.Context(), "com.example/notes.v_1-a", "3.0.0"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if asked := upstream.Requests(); len(asked) != 2 {
		t.Errorf("what is not found is looked for elsewhere: %q", asked)
	}
}

func TestVersionOfSomethingElse(t *testing.T) {
	client := newClient(t, registry.ClientConfig{Base: body(t, `{"server":{`+required+`}}`)})
	if _, err := client.Version(t.Context(), "com.example/a", "1.0.0"); err != nil {
		t.Error(err)
	}
	for _, asked := range [][2]string{{"com.example/b", "1.0.0"}, {"com.example/a", "1.0.1"}, {"com.example/b", "latest"}} {
		if item, err := client.Version(t.Context(), asked[0], asked[1]); !errors.Is(err, registry.ErrAnswer) || !item.Record.IsZero() {
			t.Errorf("%q: %v", asked, err)
		}
	}
	client = newClient(t, registry.ClientConfig{Base: body(t, `{"server":{}}`)})
	invalid := (*registry.InvalidError)(nil)
	if _, err := client.Version(t.Context(), "com.example/a", "1.0.0"); !errors.Is(err, registry.ErrAnswer) || !errors.As(err, &invalid) {
		t.Errorf("%v", err)
	}
}

func TestClientConfig(t *testing.T) {
	unverified := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	for name, test := range map[string]struct {
		config registry.ClientConfig
		want   string // "" if it is right
	}{
		"nothing":                  {registry.ClientConfig{}, "https"},
		"https":                    {registry.ClientConfig{Base: "https://registry.example.com"}, ""},
		"http":                     {registry.ClientConfig{Base: "http://registry.example.com"}, "https"},
		"http, allowed":            {registry.ClientConfig{Base: "http://registry.example.com", InsecureAllowHTTP: true}, ""},
		"http, here":               {registry.ClientConfig{Base: "http://127.0.0.1:8080/v0.1"}, ""},
		"http, here, by name":      {registry.ClientConfig{Base: "http://localhost:8080"}, ""},
		"http, here, IPv6":         {registry.ClientConfig{Base: "http://[::1]:8080"}, ""},
		"http, here, almost":       {registry.ClientConfig{Base: "http://localhost.example.com"}, "https"},
		"another scheme":           {registry.ClientConfig{Base: "file:///etc"}, "https"},
		"a path only":              {registry.ClientConfig{Base: "/v0.1"}, "https"},
		"a password":               {registry.ClientConfig{Base: "https://a:s3cret@registry.example.com"}, "password"},
		"a query":                  {registry.ClientConfig{Base: "https://registry.example.com?a=b"}, "query"},
		"a query, empty":           {registry.ClientConfig{Base: "https://registry.example.com?"}, "query"},
		"a fragment":               {registry.ClientConfig{Base: "https://registry.example.com#a"}, "fragment"},
		"a page too large":         {registry.ClientConfig{Base: "https://registry.example.com", PageSize: 101}, "1 to 100"},
		"a page below zero":        {registry.ClientConfig{Base: "https://registry.example.com", PageSize: -1}, "1 to 100"},
		"a bound below zero":       {registry.ClientConfig{Base: "https://registry.example.com", MaxBytes: -1}, "below zero"},
		"a time below zero":        {registry.ClientConfig{Base: "https://registry.example.com", Timeout: -1}, "below zero"},
		"certificates unverified":  {registry.ClientConfig{Base: "https://registry.example.com", HTTP: &http.Client{Transport: unverified}}, "certificates"},
		"another client":           {registry.ClientConfig{Base: "https://registry.example.com", HTTP: &http.Client{}}, ""},
		"two mistakes, the first":  {registry.ClientConfig{PageSize: 101}, "1 to 100"},
		"two mistakes, the second": {registry.ClientConfig{PageSize: 101}, "https"},
	} {
		_, err := registry.NewClient(test.config)
		if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHowTheClientAsks(t *testing.T) {
	var asked []http.Header
	base := handler(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Clone())
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b", Path: "/"})
		_, _ = fmt.Fprintf(w, `{"servers":[{%s}],"metadata":{"nextCursor":"%d"}}`, required, len(asked))
	})
	jar := &jar{}
	client := newClient(t, registry.ClientConfig{Base: base, MaxPages: 2, HTTP: &http.Client{Jar: jar}, UserAgent: "tests/1.0"})
	crawl(t.Context(), client, registry.Query{})
	if len(asked) != 2 || jar.used || asked[1].Get("Cookie") != "" || asked[0].Get("User-Agent") != "tests/1.0" || !strings.Contains(asked[0].Get("Accept"), "application/json") {
		t.Errorf("%v, cookies: %t", asked, jar.used)
	}
	for _, header := range asked { // nothing of ours that opens anything
		for name := range header {
			if !slices.Contains([]string{"Accept", "Accept-Encoding", "User-Agent"}, name) {
				t.Errorf("%s: %s was sent", name, header.Get(name))
			}
		}
	}
}

// jar is where cookies would be kept.
type jar struct{ used bool }

func (j *jar) SetCookies(*url.URL, []*http.Cookie) { j.used = true }
func (j *jar) Cookies(*url.URL) []*http.Cookie {
	j.used = true
	return []*http.Cookie{{Name: "a", Value: "b"}}
}

func TestCertificates(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"servers":[]}`) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains about who does not trust it
	server.StartTLS()
	defer server.Close()
	if got := crawl(t.Context(), newClient(t, registry.ClientConfig{Base: server.URL}), registry.Query{}); got.err == nil || !strings.Contains(got.err.Error(), "certificate") {
		t.Errorf("%v", got.err)
	}
	if got := crawl(t.Context(), newClient(t, registry.ClientConfig{Base: server.URL, HTTP: server.Client()}), registry.Query{}); got.err != nil {
		t.Errorf("%v", got.err)
	}
}

// FuzzPage checks that no list, however it is written, gives an item that is not sound, and
// that nothing is lost: each element is an item or an invalid one.
func FuzzPage(f *testing.F) {
	record, err := os.ReadFile("testdata/records/packages.json")
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
		page, err := registry.ParsePage(data)
		if err != nil {
			return
		}
		var is struct{ Elements []any }
		if unmarshalMember(data, "servers", &is.Elements) != nil || len(page.Items)+len(page.Invalid) != len(is.Elements) {
			t.Fatalf("%d and %d of %d", len(page.Items), len(page.Invalid), len(is.Elements))
		}
		for _, item := range page.Items {
			sound(t, item.Record)
		}
		for _, invalid := range page.Invalid {
			if invalid.Err == nil || invalid.Official.Status != "" && invalid.Official.Status.Validate() != nil {
				t.Fatalf("%+v", invalid)
			}
		}
	})
}

// unmarshalMember reads the member of an object with exactly this name.
func unmarshalMember(data []byte, name string, v any) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	return json.Unmarshal(members[name], v)
}
