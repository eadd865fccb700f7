package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/registry/serve"
)

func TestServedLists(t *testing.T) {
	c := newDesk(t, serve.Config{}, small()...)
	files, gone, n10, n2 := "com.example/Files 2.0.0", "com.example/gone 1.0.0", "com.example/notes 1.10.0", "com.example/notes 1.2.0"
	files2, old2, old3 := "org.example.tools/files_2 0.1", "org.example.tools/old 2.0.0", "org.example.tools/old 3.0.0"
	for query, want := range map[string][]string{
		"":                                     {files, n10, n2, files2, old2}, // by name, then version as text
		"?":                                    {files, n10, n2, files2, old2},
		"?limit=&search=&version=":             {files, n10, n2, files2, old2},
		"?cursor=&updated_since=&shape":        {files, n10, n2, files2, old2},
		"?unknown=1&unknown=2&a":               {files, n10, n2, files2, old2},
		"?include_deleted=true":                {files, gone, n10, n2, files2, old2, old3},
		"?include_deleted=True":                {files, gone, n10, n2, files2, old2, old3},
		"?include_deleted=1":                   {files, gone, n10, n2, files2, old2, old3},
		"?include_deleted=false":               {files, n10, n2, files2, old2},
		"?limit=2":                             {files, n10},
		"?limit=100":                           {files, n10, n2, files2, old2},
		"?version=latest":                      {files, n10, files2, old2},
		"?version=latest&include_deleted=true": {files, gone, n10, files2, old2},
		"?version=2.0.0":                       {files, old2},
		"?version=1.2.0":                       {n2},
		"?version=1.2":                         {},
		"?version=3.0.0":                       {},
		"?version=3.0.0&include_deleted=true":  {old3},
		"?version=LATEST":                      {},
		"?search=files":                        {files, files2},
		"?search=FILES":                        {files, files2},
		"?search=%20%20fiLes%09":               {files, files2},
		"?search=example/n":                    {n10, n2},
		"?search=_2%25":                        {},
		"?search=s_2":                          {files2},
		"?search=%25%25%25":                    {},
		"?search=...":                          {},
		"?search=gone":                         {},
		"?search=gone&include_deleted=true":    {gone},
		"?search=notes&version=latest":         {n10},
		"?search=files&version=0.1":            {files2},
		"?search=" + strings.Repeat("x", 200):  {},
		"?search=%C3%A9%C3%A9%C3%A9":           {},
		// Strictly later, by time, deleted rows included.
		"?updated_since=2025-10-04T12:30:00Z":                                {files2, n10, gone},
		"?updated_since=2025-10-04T12:29:59.999999999Z":                      {files, files2, n10, gone},
		"?updated_since=2025-10-04T12:30:00.000000001Z":                      {n10, gone},
		"?updated_since=2025-10-04T14:30:00%2B02:00":                         {files2, n10, gone},
		"?updated_since=2025-10-06T12:30:00Z":                                {gone},
		"?updated_since=2025-10-06T12:30:00.000000001Z":                      {},
		"?updated_since=0001-01-01T00:00:01Z&limit=100&include_deleted=true": {n2, old2, old3, files, files2, n10, gone},
		"?updated_since=2025-10-02T12:30:00Z&version=latest":                 {old2, files, files2, n10, gone},
		"?updated_since=2025-10-02T12:30:00Z&version=2.0.0":                  {old2, files},
		"?updated_since=2025-10-02T12:30:00Z&search=files":                   {files, files2},
		"?updated_since=9999-12-31T23:59:59Z":                                {},
	} {
		for _, base := range []string{"/v0.1", "/v0"} {
			got := c.list(base + "/servers" + query).names()
			if !slices.Equal(got, want) && len(got)+len(want) > 0 {
				t.Errorf("%s: %q, want %q", query, got, want)
			}
		}
	}
}

func TestQueriesRefused(t *testing.T) {
	c := newDesk(t, serve.Config{}, small()...)
	for query, want := range map[string]struct {
		status int
		says   string
	}{
		"limit=0":                        {422, "limit"},
		"limit=101":                      {422, "limit"},
		"limit=-1":                       {422, "limit"},
		"limit=1e1":                      {422, "limit"},
		"limit=%2B1":                     {422, "limit"},
		"limit=x":                        {422, "limit"},
		"limit=4294967297":               {422, "limit"},
		"limit=65537":                    {422, "limit"},
		"limit=99999999999999999999999":  {422, "limit"},
		"limit=1&limit=1":                {400, "limit"},
		"search=ab":                      {422, "3 characters"},
		"search=%20ab%20":                {422, "3 characters"},
		"search=%20%20%20%20":            {422, "3 characters"},
		"search=%C3%A9%C3%A9":            {422, "3 characters"},
		"search=abc&search=abc":          {400, "search"},
		"search=ab%00c":                  {400, "text"},
		"search=abc%FF":                  {400, "text"},
		"x=%00":                          {400, "text"},
		"%00=x":                          {400, "text"},
		"%FF":                            {400, "text"},
		"search=%zz":                     {400, "read"},
		"a;b":                            {400, "read"},
		"x=" + strings.Repeat("y", 9000): {400, "bytes"},
		"version=1&version=1":            {400, "version"},
		"version=1%00":                   {400, "text"},
		"include_deleted=yes":            {422, "include_deleted"},
		"include_deleted=2":              {422, "include_deleted"},
		"include_deleted=true&include_deleted=true": {400, "include_deleted"},
		"shape=flat":                                               {422, "shape"},
		"shape=both":                                               {422, "shape"},
		"shape=record&shape=record":                                {400, "shape"},
		"updated_since=yesterday":                                  {400, "RFC 3339"},
		"updated_since=2025-10-04":                                 {400, "RFC 3339"},
		"updated_since=2025-10-04T12:30:00":                        {400, "RFC 3339"},
		"updated_since=2025-10-04T12:30:00+02:00":                  {400, "%2B"}, // an unescaped + is a space
		"updated_since=2025-13-04T12:30:00Z":                       {400, "RFC 3339"},
		"updated_since=1759581000":                                 {400, "RFC 3339"},
		"updated_since=0000-12-31T23:59:59Z":                       {400, "RFC 3339"},
		"updated_since=0001-01-01T00:00:00Z":                       {400, "RFC 3339"},
		"updated_since=0001-01-01T00:00:00%2B01:00":                {400, "RFC 3339"},
		"updated_since=9999-12-31T23:59:59-01:00":                  {400, "RFC 3339"},
		"updated_since=2025-10-04T12:30:00Z&updated_since=":        {400, "updated_since"},
		"updated_since=2025-10-04T12:30:00Z&include_deleted=false": {400, "include_deleted=false"},
		"updated_since=2025-10-04T12:30:00Z&include_deleted=0":     {400, "include_deleted=false"},
		"cursor=x":                       {400, "cursor"},
		"cursor=com.example/notes:1.0.0": {400, "cursor"},
		"cursor=x&cursor=x":              {400, "cursor"},
	} {
		for _, base := range []string{"/v0.1", "/v0"} {
			w := c.get(base + "/servers?" + query)
			if p := readProblem(t, w); w.Code != want.status || !strings.Contains(p.Detail, want.says) {
				t.Errorf("%.80s: %d %s; want %d and %q", query, w.Code, w.Body, want.status, want.says)
			}
		}
	}
}

// problem is a decoded error answer.
type problem struct {
	Type, Title, Detail, Error string
	Status                     int
}

// readProblem decodes an error answer and checks the properties of all of them.
func readProblem(t testing.TB, w *httptest.ResponseRecorder) (p problem) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%d: %v\n%s", w.Code, err, w.Body)
	}
	if p.Type != "about:blank" || p.Title != http.StatusText(w.Code) || p.Status != w.Code || p.Detail == "" || p.Error != p.Detail {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/problem+json", "Access-Control-Allow-Origin": "*", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "ETag": "",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%d: %s is %q, want %q", w.Code, name, got, want)
		}
	}
	return p
}

func TestServedVersions(t *testing.T) {
	c := newDesk(t, serve.Config{},
		rowOf("com.example/a", "1.0.0", isOlder, publishedAt(day(1))),
		rowOf("com.example/a", "1.10.0", publishedAt(day(3))),
		rowOf("com.example/a", "1.2.0", isOlder, publishedAt(day(3))),
		rowOf("com.example/a", "2.0.0", isOlder, isDeleted, publishedAt(day(4))),
		rowOf("com.example/a", "0.9", isOlder, publishedAt(time.Time{})),
		rowOf("com.example/a", "1.1.0", isOlder, publishedAt(day(1))),
		rowOf("com.example/a", "1.0.1", isOlder, publishedAt(day(5))),
		rowOf("com.example/ab", "1.0.0"),
		rowOf("com.example/gone", "1.0.0", isDeleted),
	)
	const a, gone = "/v0.1/servers/com.example%2Fa/versions", "/v0.1/servers/com.example%2Fgone/versions"
	for target, want := range map[string]string{
		a:                              "1.0.1 1.10.0 1.2.0 1.1.0 1.0.0 0.9", // the newest first
		a + "?include_deleted=true":    "1.0.1 2.0.0 1.10.0 1.2.0 1.1.0 1.0.0 0.9",
		gone + "?include_deleted=true": "1.0.0",
	} {
		var got []string
		l := c.list(target)
		for _, s := range l.Servers {
			got = append(got, s.Version)
		}
		if strings.Join(got, " ") != want || l.Metadata.NextCursor != nil {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
	for target, want := range map[string]int{
		gone: 404, gone + "/1.0.0": 404, gone + "/latest": 404, gone + "/1.0.0?include_deleted=false": 404,
		gone + "/1.0.0?include_deleted=true": 200, gone + "/latest?include_deleted=true": 200,
		a + "/2.0.0": 404, a + "/2.0.0?include_deleted=true": 200, a + "/1.0.0": 200,
		"/v0.1/servers/com.example%2Fnobody/versions":                             404,
		"/v0.1/servers/com.example%2Fnobody/versions/latest?include_deleted=true": 404,
	} {
		if w := c.get(target); w.Code != want {
			t.Errorf("%s: %d, want %d", target, w.Code, want)
		}
	}
}

// TestReadOnly: all methods that could change something are refused.
func TestReadOnly(t *testing.T) {
	c := newDesk(t, serve.Config{}, small()...)
	before := c.get("/v0.1/servers?include_deleted=true").Body.String()
	for _, path := range []string{
		"/v0.1/servers", "/v0.1/servers/com.example%2Fnotes/versions", "/v0.1/servers/com.example%2Fnotes/versions/1.2.0", "/v0.1/health",
	} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "get", "QUERY"} {
			w := ask(c.handler, method, path)
			if w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD, OPTIONS" {
				t.Errorf("%s %s: %d, Allow %q", method, path, w.Code, w.Header().Get("Allow"))
			}
			readProblem(t, w)
		}
		for _, origin := range []string{"", "Origin: https://app.example.com"} {
			w := ask(c.handler, "OPTIONS", path, origin, "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: authorization")
			for name, want := range map[string]string{
				"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "GET", "Access-Control-Allow-Credentials": "", "Allow": "GET, HEAD, OPTIONS",
			} {
				if got := w.Header().Get(name); w.Code != 204 || got != want || w.Body.Len() > 0 {
					t.Errorf("OPTIONS %s: %d %s: %q, want %q", path, w.Code, name, got, want)
				}
			}
			if !strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), "Authorization") {
				t.Errorf("OPTIONS %s: %q", path, w.Header())
			}
		}
	}
	if w := ask(c.handler, "POST", "/"); w.Code != 405 || w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("POST /: %d", w.Code)
	}
	if after := c.get("/v0.1/servers?include_deleted=true").Body.String(); after != before {
		t.Error("something changed")
	}
}

// TestPagesReadTheHeadersOfTheirGuard: pages of other origins may read the headers that a guard around
// the registry lets them read, and those of the registry.
func TestPagesReadTheHeadersOfTheirGuard(t *testing.T) {
	c := newDesk(t, serve.Config{}, small()...)
	w := httptest.NewRecorder()
	w.Header().Set("Access-Control-Expose-Headers", "DPoP-Nonce, X-Request-Id")
	c.handler.ServeHTTP(w, httptest.NewRequest("GET", "/v0.1/servers", nil))
	exposed := strings.Join(w.Header()["Access-Control-Expose-Headers"], ", ")
	if w.Code != 200 || exposed != "DPoP-Nonce, X-Request-Id, ETag, Retry-After" {
		t.Errorf("%d: %s", w.Code, exposed)
	}
}

// TestHead: the answer to HEAD is that to GET without the body.
func TestHead(t *testing.T) {
	c := newDesk(t, serve.Config{CacheAge: time.Minute}, small()...)
	for _, path := range []string{
		"/v0.1/servers", "/v0.1/servers?limit=0", "/v0.1/servers?limit=2", "/v0.1/servers/com.example%2Fnotes/versions", "/v0.1/servers/com.example%2Fnotes/versions/latest",
		"/v0.1/servers/com.example%2Fnobody/versions", "/nowhere", "/v0.1/nowhere", "/", "/servers/com.example/notes", "/v0.1/servers/", "/v0.1/health", "/v0.1/ping",
	} {
		get, head := c.get(path), ask(c.handler, "HEAD", path)
		if head.Code != get.Code || head.Body.Len() > 0 {
			t.Errorf("%s: %d with %d bytes, and GET %d", path, head.Code, head.Body.Len(), get.Code)
		}
		if want := fmt.Sprint(get.Body.Len()); get.Code != 308 && head.Header().Get("Content-Length") != want {
			t.Errorf("%s: Content-Length %q, want %s", path, head.Header().Get("Content-Length"), want)
		}
		get.Header().Del("Date")
		if fmt.Sprint(get.Header()) != fmt.Sprint(head.Header()) {
			t.Errorf("%s: %v\nand GET %v", path, head.Header(), get.Header())
		}
	}
}
