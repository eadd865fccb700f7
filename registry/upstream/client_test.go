package upstream_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/registry/upstream"
)

const (
	official = `"io.modelcontextprotocol.registry/official"`
	// required are the members that every record has.
	required = `"name":"com.example/a","description":"d","version":"1.0.0"`
)

func day(n int) time.Time { return time.Date(2025, 10, n, 12, 30, 0, 0, time.UTC) }

func newClient(t *testing.T, c upstream.Config) *upstream.Client {
	t.Helper()
	client, err := upstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// crawled is the result of a crawl.
type crawled struct {
	pages   []upstream.Page
	items   []registry.Item
	invalid []registry.InvalidItem
	err     error
}

func crawl(ctx context.Context, client *upstream.Client, q upstream.Query) (c crawled) {
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

// handler starts a server with a handler function.
func handler(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// body starts a server that answers every request with a body.
func body(t *testing.T, text string) string {
	t.Helper()
	return handler(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

func TestBasesAndVersionsOfTheInterface(t *testing.T) {
	for name, test := range map[string]struct {
		serves []string
		suffix string
		want   []string // requests of two lists and one lookup; nil: the lists fail
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
		origin := registrytest.New(t)
		origin.Add("com.example/notes", "1.0.0")
		origin.SetPrefixes(test.serves...)
		client := newClient(t, upstream.Config{Base: origin.URL() + test.suffix})
		got := crawl(t.Context(), client, upstream.Query{})
		if test.want == nil {
			if !errors.Is(got.err, upstream.ErrNotFound) {
				t.Errorf("%s: %v", name, got.err)
			}
			continue
		}
		again := crawl(t.Context(), client, upstream.Query{})
		_, err := client.Version(t.Context(), "com.example/notes", "1.0.0")
		if got.err != nil || again.err != nil || err != nil {
			t.Errorf("%s: %v, %v, %v", name, got.err, again.err, err)
		}
		asked := origin.Requests()
		if !slices.EqualFunc(asked, test.want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, asked, test.want)
		}
	}
}

// TestInterfaceChanges has an upstream that drops the version of the interface that worked.
func TestInterfaceChanges(t *testing.T) {
	origin := registrytest.New(t)
	origin.Fill(3)
	client := newClient(t, upstream.Config{Base: origin.URL(), PageSize: 2})
	for _, prefix := range []string{"/v0", "/v0.1"} {
		origin.SetPrefixes(prefix)
		if got := crawl(t.Context(), client, upstream.Query{}); got.err != nil || len(got.items) != 3 {
			t.Errorf("%s: %v", prefix, got.err)
		}
	}
	// Each version is asked for the first page once, and that which worked last comes first.
	origin.SetPrefixes("/none")
	origin.Forget()
	if got := crawl(t.Context(), client, upstream.Query{}); !errors.Is(got.err, upstream.ErrNotFound) {
		t.Errorf("no version: %v", got.err)
	}
	if asked := origin.Requests(); len(asked) != 2 || !strings.HasPrefix(asked[0], "/v0.1/") || !strings.HasPrefix(asked[1], "/v0/") {
		t.Errorf("no version: asked %q", asked)
	}
	// For a 404 in the middle of a list, the other version is not tried.
	origin.SetPrefixes("/v0")
	origin.Forget()
	got := crawl(t.Context(), client, upstream.Query{Cursor: "x"})
	if asked := origin.Requests(); !errors.Is(got.err, upstream.ErrNotFound) || len(asked) != 1 {
		t.Errorf("%v %q", got.err, asked)
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
			w.Header().Set("Retry-After", "5") // ignored with these statuses
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		})
		got := crawl(t.Context(), newClient(t, upstream.Config{Base: base}), upstream.Query{})
		refused := (*upstream.AnswerError)(nil)
		if !errors.As(got.err, &refused) || refused.Status != test.status || refused.Title != test.title || refused.Detail != test.detail || !refused.RetryAt.IsZero() {
			t.Errorf("%s: %+v", name, got.err)
			continue
		}
		if errors.Is(got.err, upstream.ErrNotFound) != (test.status == 404) || errors.Is(got.err, upstream.ErrBusy) {
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
			origin := registrytest.New(t)
			origin.Break(registrytest.Faults{Status: status, RetryAfter: field})
			client := newClient(t, upstream.Config{Base: origin.URL(), Now: func() time.Time { return now }})
			got := crawl(t.Context(), client, upstream.Query{})
			busy := (*upstream.AnswerError)(nil)
			if !errors.As(got.err, &busy) || !errors.Is(got.err, upstream.ErrBusy) || !busy.RetryAt.Equal(want) || busy.Status != status {
				t.Errorf("%d %q: %+v", status, field, got.err)
			}
			if asked := origin.Requests(); len(asked) != 1 {
				t.Errorf("%q: asked %d times", field, len(asked))
			}
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
		got := crawl(t.Context(), newClient(t, upstream.Config{Base: base}), upstream.Query{})
		if (got.err == nil) != test.want || len(got.pages) > 0 != test.want || asked.Load() > 4 || name == "itself" && asked.Load() != 4 {
			t.Errorf("%s: %v after %d requests", name, got.err, asked.Load())
		}
		if !test.want && test.to != "" && !errors.Is(got.err, upstream.ErrRedirect) {
			t.Errorf("%s: another error: %v", name, got.err)
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests went to another origin", n)
	}
}

func TestTime(t *testing.T) {
	origin := registrytest.New(t)
	origin.Fill(30)
	never := make(chan struct{})
	origin.Break(registrytest.Faults{After: 1, Hold: never})
	client := newClient(t, upstream.Config{Base: origin.URL(), PageSize: 10, Timeout: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(20*time.Second, cancel).Stop() // in case the client does not stop by itself
	if got := crawl(ctx, client, upstream.Query{}); !errors.Is(got.err, context.DeadlineExceeded) || len(got.pages) != 1 {
		t.Errorf("%v after %d pages", got.err, len(got.pages))
	}
	// An endless body is limited too.
	base := handler(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"servers":[`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	slow := newClient(t, upstream.Config{Base: base, Timeout: 50 * time.Millisecond})
	if got := crawl(ctx, slow, upstream.Query{}); !errors.Is(got.err, context.DeadlineExceeded) {
		t.Errorf("%v", got.err)
	}

	origin.Break(registrytest.Faults{After: 1, Hold: never})
	patient := newClient(t, upstream.Config{Base: origin.URL(), PageSize: 10})
	pages := 0
	var last error
	for _, err := range patient.Items(ctx, upstream.Query{}) {
		if last = err; err == nil {
			pages++
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) || pages != 1 {
		t.Errorf("%v after %d pages", last, pages)
	}
}

func TestClientConfig(t *testing.T) {
	unverified := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	for name, test := range map[string]struct {
		config upstream.Config
		want   string // "" if the configuration is valid
	}{
		"nothing":                  {upstream.Config{}, "https"},
		"https":                    {upstream.Config{Base: "https://registry.example.com"}, ""},
		"http":                     {upstream.Config{Base: "http://registry.example.com"}, "https"},
		"http, allowed":            {upstream.Config{Base: "http://registry.example.com", InsecureAllowHTTP: true}, ""},
		"http, here":               {upstream.Config{Base: "http://127.0.0.1:8080/v0.1"}, ""},
		"http, here, by name":      {upstream.Config{Base: "http://localhost:8080"}, ""},
		"http, here, IPv6":         {upstream.Config{Base: "http://[::1]:8080"}, ""},
		"http, here, almost":       {upstream.Config{Base: "http://localhost.example.com"}, "https"},
		"http, an address":         {upstream.Config{Base: "http://192.0.2.1:8080"}, "https"},
		"https without a host":     {upstream.Config{Base: "https:///v0.1"}, "https"},
		"another scheme, a host":   {upstream.Config{Base: "ftp://registry.example.com"}, "https"},
		"no URL":                   {upstream.Config{Base: "https://registry.example.com/%zz"}, "https URL"},
		"another scheme":           {upstream.Config{Base: "file:///etc"}, "https"},
		"a path only":              {upstream.Config{Base: "/v0.1"}, "https"},
		"a password":               {upstream.Config{Base: "https://a:s3cret@registry.example.com"}, "password"},
		"a query":                  {upstream.Config{Base: "https://registry.example.com?a=b"}, "query"},
		"a query, empty":           {upstream.Config{Base: "https://registry.example.com?"}, "query"},
		"a fragment":               {upstream.Config{Base: "https://registry.example.com#a"}, "fragment"},
		"a page too large":         {upstream.Config{Base: "https://registry.example.com", PageSize: 101}, "1 to 100"},
		"the smallest page":        {upstream.Config{Base: "https://registry.example.com", PageSize: 1}, ""},
		"the largest page":         {upstream.Config{Base: "https://registry.example.com", PageSize: 100}, ""},
		"a page below zero":        {upstream.Config{Base: "https://registry.example.com", PageSize: -1}, "1 to 100"},
		"a bound below zero":       {upstream.Config{Base: "https://registry.example.com", MaxBytes: -1}, "below zero"},
		"page bytes below zero":    {upstream.Config{Base: "https://registry.example.com", MaxPageBytes: -1}, "below zero"},
		"pages below zero":         {upstream.Config{Base: "https://registry.example.com", MaxPages: -1}, "below zero"},
		"empty pages below zero":   {upstream.Config{Base: "https://registry.example.com", MaxEmptyPages: -1}, "below zero"},
		"a time below zero":        {upstream.Config{Base: "https://registry.example.com", Timeout: -1}, "below zero"},
		"certificates unverified":  {upstream.Config{Base: "https://registry.example.com", HTTP: &http.Client{Transport: unverified}}, "certificates"},
		"another client":           {upstream.Config{Base: "https://registry.example.com", HTTP: &http.Client{}}, ""},
		"two mistakes, the first":  {upstream.Config{PageSize: 101}, "1 to 100"},
		"two mistakes, the second": {upstream.Config{PageSize: 101}, "https"},
	} {
		_, err := upstream.New(test.config)
		if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Headers of any length are not read, nobody else's transport is changed for that, and an answer that
// nothing has changed counts only where something was known.
func TestAnswersOfNoUse(t *testing.T) {
	long := handler(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("a", 70<<10))
		_, _ = io.WriteString(w, `{"servers":[]}`)
	})
	given := &http.Transport{}
	t.Cleanup(given.CloseIdleConnections)
	for _, client := range []*http.Client{nil, {Transport: given}} {
		if got := crawl(t.Context(), newClient(t, upstream.Config{Base: long, HTTP: client}), upstream.Query{}); got.err == nil {
			t.Error("a header of 70 KiB was read")
		}
	}
	if given.MaxResponseHeaderBytes != 0 {
		t.Error("the transport of the caller was changed")
	}
	for _, tt := range []struct {
		status int
		tag    string
		same   bool
	}{{304, `"a"`, true}, {304, "", false}, {500, `"a"`, false}, {503, `"a"`, false}, {412, `"a"`, false}} {
		base := handler(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(tt.status) })
		got := crawl(t.Context(), newClient(t, upstream.Config{Base: base}), upstream.Query{IfNoneMatch: tt.tag})
		var answer *upstream.AnswerError
		if errors.Is(got.err, upstream.ErrNotModified) != tt.same || errors.As(got.err, &answer) == tt.same {
			t.Errorf("%d to a question with the tag %q: %v", tt.status, tt.tag, got.err)
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
	client := newClient(t, upstream.Config{Base: base, MaxPages: 2, HTTP: &http.Client{Jar: jar}, UserAgent: "tests/1.0"})
	crawl(t.Context(), client, upstream.Query{})
	if len(asked) != 2 || jar.used || asked[1].Get("Cookie") != "" || asked[0].Get("User-Agent") != "tests/1.0" || !strings.Contains(asked[0].Get("Accept"), "application/json") {
		t.Errorf("%v, cookies: %t", asked, jar.used)
	}
	for _, header := range asked { // no credentials
		for name := range header {
			if !slices.Contains([]string{"Accept", "Accept-Encoding", "User-Agent"}, name) {
				t.Errorf("%s: %s was sent", name, header.Get(name))
			}
		}
	}
}

// jar is a cookie jar that records its use.
type jar struct{ used bool }

func (j *jar) SetCookies(*url.URL, []*http.Cookie) { j.used = true }

func (j *jar) Cookies(*url.URL) []*http.Cookie {
	j.used = true
	return []*http.Cookie{{Name: "a", Value: "b"}}
}

func TestCertificates(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"servers":[]}`) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // discards the errors of the failed handshake
	server.StartTLS()
	defer server.Close()
	if got := crawl(t.Context(), newClient(t, upstream.Config{Base: server.URL}), upstream.Query{}); got.err == nil || !strings.Contains(got.err.Error(), "certificate") {
		t.Errorf("%v", got.err)
	}
	if got := crawl(t.Context(), newClient(t, upstream.Config{Base: server.URL, HTTP: server.Client()}), upstream.Query{}); got.err != nil {
		t.Errorf("%v", got.err)
	}
}

func TestCutOff(t *testing.T) {
	origin := registrytest.New(t)
	origin.Fill(50)
	client := newClient(t, upstream.Config{Base: origin.URL(), PageSize: 20})
	for name, faults := range map[string]registrytest.Faults{
		"in the middle": {After: 1, CutOff: true}, "before it began": {After: 1, Down: true}, "by a page": {After: 1, Page: true},
	} {
		origin.Break(faults)
		if got := crawl(t.Context(), client, upstream.Query{}); got.err == nil || len(got.pages) != 1 {
			t.Errorf("%s: %v after %d pages", name, got.err, len(got.pages))
		}
	}
}
