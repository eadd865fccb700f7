package serve_test

import (
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/registry"
	"gatehouse.example/registry/serve"
	"gatehouse.example/storage/catalogue"
)

// links returns the targets of the links of a page.
func links(page string) (to []string) {
	for _, match := range regexp.MustCompile(`<a [^>]*href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		to = append(to, html.UnescapeString(match[1]))
	}
	return to
}

// expect checks that a page contains some texts and does not contain others.
func expect(t *testing.T, name, page string, want, never []string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(page, w) {
			t.Errorf("%s: %q is missing in\n%s", name, w, page)
		}
	}
	for _, n := range never {
		if strings.Contains(page, n) {
			t.Errorf("%s: %q is there", name, n)
		}
	}
}

func TestListPage(t *testing.T) {
	d := newDesk(t, serve.Config{Title: "Example servers"}, small()...)
	page := d.get("/").Body.String()
	expect(t, "all", page, []string{
		"<h1><bdi>Example servers</bdi></h1>", "4 servers.", `<a href="/servers/com.example/notes">`, `<bdi class="note">1.10.0</bdi>`, `<a href="/servers/com.example/Files">`, `<a href="/servers/org.example.tools/files_2">`,
		`deprecated</span>`,
	}, []string{"com.example/gone", "1.2.0", "3.0.0", `rel="next"`, "From the beginning"})
	if n := strings.Count(page, "deprecated</span>"); n != 1 {
		t.Errorf("%d servers are marked", n)
	}
	page = d.get("/?search=%20FILES%20").Body.String()
	expect(t, "search", page, []string{"com.example/Files", "files_2", `value="FILES"`}, []string{"com.example/notes"})
	expect(t, "nothing", d.get("/?search=nowhere").Body.String(), []string{"There is no such server."}, nil)
	for query, want := range map[string]int{"search=ab": 422, "cursor=x": 400, "search=abc&search=abc": 400, "search=%00%00%00": 400, "search=%20": 200, "search=": 200, "x=1": 200} {
		w := d.get("/?" + query)
		if w.Code != want || w.Header().Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(w.Body.String(), "<h1>") {
			t.Errorf("%s: %d", query, w.Code)
		}
	}
	expect(t, "too short", d.get("/?search=ab").Body.String(), []string{`role="alert"`, "3 characters", `value="ab"`}, nil)
}

// TestListPages follows the links of the list to its end and back.
func TestListPages(t *testing.T) {
	var rows []catalogue.Entry
	for i := range 70 {
		name := "com.example/notes" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		rows = append(rows, rowOf(name, "1.0.0"), rowOf("org.example/x"+name[17:], "1.0.0"))
	}
	d := newDesk(t, serve.Config{}, rows...)
	mounted := d.serve(serve.Config{Prefix: "/registry"})
	for _, search := range []string{"", "notes"} {
		handler, at := mounted, "/registry/"
		if search != "" {
			at += "?search=" + search
		}
		var seen []string
		for range 10 {
			w := ask(handler, "GET", at)
			next := ""
			for _, to := range links(w.Body.String()) {
				if name, ok := strings.CutPrefix(to, "/registry/servers/"); ok {
					seen = append(seen, name)
				}
				if strings.Contains(to, "cursor=") {
					next = to
				}
			}
			if at != "/registry/" && strings.Contains(at, "cursor") && !strings.Contains(w.Body.String(), "From the beginning") {
				t.Errorf("%s does not lead back", at)
			}
			if at = next; next == "" {
				break
			}
		}
		want := 140
		if search != "" {
			want = 70
		}
		if len(seen) != want || !slices.IsSorted(seen) || len(slices.Compact(seen)) != want {
			t.Errorf("%q: %d of %d servers", search, len(seen), want)
		}
	}
	// A cursor of one search is not valid for another.
	next := links(d.get("/?search=notes").Body.String())
	i := slices.IndexFunc(next, func(to string) bool { return strings.Contains(to, "cursor=") })
	other := strings.Replace(next[i], "search=notes", "search=org", 1)
	if w := d.get(other); w.Code != 400 {
		t.Errorf("%s: %d", other, w.Code)
	}
}

func TestServerPage(t *testing.T) {
	remote := strings.Replace(readFile(t, "../testdata/records/remote.json"), "com.example/notes", "com.example/remote", 1)
	d := newDesk(t, serve.Config{
		Title: "Example servers", MetaKey: ourKey, Revision: func() string { return "" },
		Enrich: func(registry.Item) (json.RawMessage, error) {
			return json.RawMessage(`{"stars":4.5,"tags":["a","b"],"scan":{"at":"2026-01-01"},"by":"<us>"}`), nil
		},
	}, append(small(),
		rowOf("com.example/remote", "1.4.0-rc.1+build.7", recordIs(remote), publishedAt(day(3))),
		rowOf("com.example/remote", "1.3.0", isOlder, isDeprecated),
		rowOf("com.example/remote", "1.2.0", isOlder, isDeleted),
		rowOf("org.example.tools/file_reader.v2", "2.0.1", recordIs(readFile(t, "../testdata/records/packages.json"))),
	)...)
	w := d.get("/servers/com.example/remote")
	expect(t, "remote", w.Body.String(), []string{
		"<h1><bdi>Notes</bdi></h1>", "com.example/remote", "<bdi>1.4.0-rc.1&#43;build.7</bdi>", "https://notes.example.com/mcp", "https://{tenant}.notes.example.com:{port}/sse", "X-Region", "tenant", "required",
		`href="https://notes.example.com/about?lang=en" rel="nofollow noopener noreferrer"`, `href="https://git.example.com/notes"`,
		`<a href="/servers/com.example/remote?version=1.3.0">`, "3 October 2025", `href="/v0.1/servers/com.example%2Fremote/versions/1.4.0-rc.1&#43;build.7"`,
		"<dt><bdi>stars</bdi></dt><dd><bdi>4.5</bdi></dd>", "<bdi>a, b</bdi>", "{&#34;at&#34;:&#34;2026-01-01&#34;}", "&lt;us&gt;", `<a href="/"><bdi>Example servers</bdi></a>`,
	}, []string{"1.2.0", "not the latest", `class="caution"`})
	if same := d.get("/servers/com.example%2Fremote"); same.Body.String() != w.Body.String() {
		t.Error("the escaped slash leads elsewhere")
	}
	expect(t, "old", d.get("/servers/com.example/remote?version=1.3.0").Body.String(), []string{
		"This version is deprecated. The registry says: <bdi>Use another one.</bdi>", "not the latest version", `<a href="/servers/com.example/remote">Show the latest</a>`,
	}, nil)
	expect(t, "packages", d.get("/servers/org.example.tools/file_reader.v2").Body.String(), []string{"@example/file-reader", "READER_KEY", "secret", "npx", "stdio", "fe333e598595"}, []string{"Where it runs"})
	for path, want := range map[string]int{
		"/servers/com.example/remote?version=1.2.0": 404, "/servers/com.example/remote?version=9": 404, "/servers/com.example/gone": 404, "/servers/com.example/nobody": 404,
		"/servers/com.example": 404, "/servers": 404, "/servers/": 404, "/servers/a/b/c": 404, "/nowhere": 404, "/servers/com.example/no%00tes": 400,
		"/servers/com.example/remote?version=1&version=2": 400, "/servers/com.example/remote?version=%00": 400, "/servers/com.example/remote?version=1.4.0-rc.1%2Bbuild.7": 200,
	} {
		w := d.get(path)
		if w.Code != want || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Header().Get("Content-Type"), want)
		}
	}
	for _, to := range links(w.Body.String()) {
		if strings.HasPrefix(to, "/") {
			if w := d.get(to); w.Code != 200 {
				t.Errorf("a link leads to %s: %d", to, w.Code)
			}
		}
	}
}

func TestPageHeaders(t *testing.T) {
	d := newDesk(t, serve.Config{CacheAge: 1e9}, small()...)
	for _, path := range []string{"/", "/servers/com.example/notes", "/nowhere", "/?search=a"} {
		w := d.get(path)
		for name, want := range map[string]string{
			"Content-Type": "text/html; charset=utf-8", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": "", "Set-Cookie": "",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		policy := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "img-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'", "style-src 'sha256-"} {
			if !strings.Contains(policy, want) || strings.Contains(policy, "unsafe") {
				t.Errorf("%s: policy %q", path, policy)
			}
		}
	}
}

// TestHostileRecords: strings of publishers are inert in the HTML of every page.
func TestHostileRecords(t *testing.T) {
	texts := []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</title><script>x</script>`, `</style><script>x</script>`, `javascript:alert(1)`,
		"\u202egnp.exe", `{{.API}}`, `&lt;script&gt;`, `--><svg onload=alert(1)>`,
	}
	for _, evil := range texts {
		row := rowOf("com.example/a", "1.0.0 "+evil, isDeprecated, func(e *catalogue.Entry) {
			e.StatusMessage = evil
			e.Server = encode(object{ // worse than a valid record can be
				"name": "com.example/a", "version": e.Version, "title": evil, "description": evil, "websiteUrl": "https://a.example/?" + evil, "repository": object{"url": evil, "source": evil},
				"icons":    []any{object{"src": evil}},
				"remotes":  []any{object{"type": evil, "url": evil, "headers": []any{object{"name": evil, "description": evil}}, "variables": object{evil: object{"description": evil}}}},
				"packages": []any{object{"registryType": evil, "identifier": evil, "version": evil, "registryBaseUrl": evil, "transport": object{"type": evil}, "environmentVariables": []any{object{"name": evil}}}},
			})
		})
		d := newDesk(t, serve.Config{
			MetaKey: ourKey, Revision: func() string { return "" },
			Enrich: func(registry.Item) (json.RawMessage, error) { return encode(object{"a": evil, evil: "b"}), nil },
		}, row, rowOf("com.example/a", "0.1 "+evil, isOlder))
		for _, path := range []string{"/", "/servers/com.example/a", "/servers/com.example/a?version=" + url.QueryEscape("0.1 "+evil), "/?search=" + url.QueryEscape(evil), "/nowhere?" + url.QueryEscape(evil)} {
			page := d.get(path).Body.String()
			if strings.ContainsAny(evil, "<\u202e") && strings.Contains(page, evil) || strings.Contains(page, "<script") || strings.Contains(page, "<img") || strings.Contains(page, "onerror=alert(1)>") && !strings.Contains(page, "onerror=alert(1)&gt;") {
				t.Errorf("%s: %q is alive", path, evil)
			}
			for _, to := range links(page) {
				if u, err := url.Parse(to); err != nil || u.Scheme != "" && u.Scheme != "https" || u.Host != "" && u.Host != "a.example" {
					t.Errorf("%s: %q leads to %q", path, evil, to)
				}
			}
		}
		// Programs get the record unchanged.
		var back struct{ Title string }
		if err := json.Unmarshal(d.get("/v0.1/servers/com.example%2Fa/versions/latest").Body.Bytes(), &back); err != nil || back.Title != evil {
			t.Errorf("%q is %q for programs, %v", evil, back.Title, err)
		}
	}
}
