package templates_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

func registryList() templates.RegistryList {
	return templates.RegistryList{
		Title: "Example servers", Home: "/", API: "/v0.1/servers", Total: 2, Next: "/?cursor=abc&search=x",
		Servers: []templates.RegistryRow{
			{Name: "com.example/notes", Title: "Notes", Description: "Reads notes.", Version: "1.4.0", Page: "/servers/com.example/notes", Icon: "/icons/com.example/notes/1.4.0/x"},
			{Name: "com.example/files", Version: "2.0.0", Page: "/servers/com.example/files", Deprecated: true},
		},
	}
}

func registryServer() templates.RegistryServer {
	return templates.RegistryServer{
		ListTitle: "Example servers", Home: "/", API: "/v0.1/servers/com.example%2Fnotes/versions/1.4.0",
		Name: "com.example/notes", Title: "Notes", Description: "Reads notes.", Version: "1.4.0", Icon: "/icons/x", Latest: true,
		Published: time.Date(2026, 3, 1, 22, 0, 0, 0, time.FixedZone("", -4*3600)), Updated: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC),
		Website: "https://notes.example.com/about?lang=en", Source: "https://git.example.com/notes",
		Remotes: []templates.RegistryRemote{{
			Type: "streamable-http", URL: "https://{tenant}.notes.example.com/mcp",
			Inputs: []templates.RegistryInput{{Name: "tenant", Description: "Who", Required: true}, {Name: "X-Key", Secret: true}},
		}},
		Packages: []templates.RegistryPackage{{Type: "npm", Identifier: "@example/notes", Version: "1.4.0", Base: "https://packages.example.org", Digest: strings.Repeat("a", 64), Runtime: "npx", Transport: "stdio"}},
		Facts:    []templates.RegistryFact{{Name: "stars", Value: "4.5"}},
		Versions: []templates.RegistryVersion{
			{Version: "1.4.0", Page: "/servers/com.example/notes?version=1.4.0", Current: true, IsLatest: true},
			{Version: "1.3.0", Page: "/servers/com.example/notes?version=1.3.0", Deprecated: true, Published: time.Date(2025, 1, 2, 0, 0, 0, 0, time.UTC)},
		},
	}
}

func registryPages(t testing.TB) *templates.Registry {
	t.Helper()
	pages, err := templates.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func renderRegistry(t testing.TB, page any) string {
	t.Helper()
	return renderRegistryWith(t, registryPages(t), page)
}

// renderRegistryWith returns the page as HTML, written by a set.
func renderRegistryWith(t testing.TB, pages *templates.Registry, page any) string {
	t.Helper()
	b := &strings.Builder{}
	var err error
	switch page := page.(type) {
	case templates.RegistryList:
		err = pages.List(b, page)
	case templates.RegistryServer:
		err = pages.Server(b, page)
	case templates.Error:
		err = pages.Error(b, page)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// hostileServer returns a server page with the text evil in every field that comes from third
// parties.
func hostileServer(evil string) templates.RegistryServer {
	inputs := []templates.RegistryInput{{Name: evil, Description: evil, Required: true, Secret: true}}
	return templates.RegistryServer{
		ListTitle: evil, Home: evil, API: evil, Name: evil, Title: evil, Description: evil, Version: evil, Icon: evil,
		Deprecated: true, Message: evil, LatestPage: evil, Website: evil, Source: evil,
		Remotes:  []templates.RegistryRemote{{Type: evil, URL: evil, Inputs: inputs}},
		Packages: []templates.RegistryPackage{{Type: evil, Identifier: evil, Version: evil, Base: evil, Digest: evil, Runtime: evil, Transport: evil, Inputs: inputs}},
		Facts:    []templates.RegistryFact{{Name: evil, Value: evil}},
		Versions: []templates.RegistryVersion{{Version: evil, Page: evil, Deprecated: true, IsLatest: true}, {Version: evil, Current: true}},
	}
}

func hostileList(evil string) templates.RegistryList {
	row := templates.RegistryRow{Name: evil, Title: evil, Description: evil, Version: evil, Page: evil, Icon: evil, Deprecated: true}
	return templates.RegistryList{Title: evil, Home: evil, Search: evil, API: evil, Next: evil, Start: evil, Servers: []templates.RegistryRow{row, row}}
}

func everyRegistryPage() map[string]any {
	const evil = `"><script>x</script><p style="x" onclick=x>`
	searched, wrong, old, last := registryList(), registryList(), registryServer(), registryList()
	searched.Search, searched.Servers, searched.Start = "nowhere", nil, "/"
	wrong.Problem, wrong.Search = language.Detail("Too short."), "ab"
	old.Latest, old.LatestPage, old.Deprecated, old.Message = false, "/servers/com.example/notes", true, "Use another one."
	last.Next, last.Total = "", 1
	return map[string]any{
		"list": registryList(), "nothing found": searched, "wrong search": wrong, "last page": last, "empty list": templates.RegistryList{}, "hostile list": hostileList(evil),
		"server": registryServer(), "old version": old, "empty server": templates.RegistryServer{}, "hostile server": hostileServer(strings.Repeat(evil, 300)),
		"error": problem(), "empty error": templates.Error{},
	}
}

func TestEveryRegistryPageIsWholeAndPassive(t *testing.T) {
	forbidden := regexp.MustCompile(`(?i)<script|<iframe|<object|<embed|<base|<link|<[^>]+\sstyle\s*=|<[^>]+\son[a-z]+\s*=|javascript:|@import|url\(|http-equiv`)
	value := regexp.MustCompile(`="[^"<>]*"`)
	for name, page := range everyRegistryPage() {
		got := renderRegistry(t, page)
		if found := forbidden.FindString(value.ReplaceAllString(got, `=""`)); found != "" {
			t.Errorf("%s: contains %q", name, found)
		}
		for _, once := range []string{"<!doctype html>", `<html lang="en" dir="ltr">`, `<meta charset="utf-8">`, `<meta name="viewport"`, "<title>", "<style>", "<header", "<main>", "</main>", "<footer>", "<h1>", "</html>"} {
			if n := strings.Count(got, once); n != 1 {
				t.Errorf("%s: %q is there %d times, want once", name, once, n)
			}
		}
		if strings.Contains(got, "<no value>") || !utf8.ValidString(got) || strings.Contains(got, "ZgotmplZ") && !strings.Contains(name, "hostile") {
			t.Errorf("%s: a value did not fit its place", name)
		}
		for _, tag := range []string{"p", "div", "form", "bdi", "dl", "dt", "dd", "section", "label", "button", "h2", "ul", "li", "a", "span", "code", "nav", "strong", "time"} {
			opened, closed := len(regexp.MustCompile("<"+tag+`[\s>]`).FindAllString(got, -1)), strings.Count(got, "</"+tag+">")
			if opened != closed {
				t.Errorf("%s: <%s> opened %d times, closed %d times", name, tag, opened, closed)
			}
		}
		checkReferences(t, name, got)
	}
}

// checkReferences checks that inputs have labels, and that ids are unique and exist where
// they are referred to.
func checkReferences(t *testing.T, name, got string) {
	t.Helper()
	seen := map[string]bool{}
	for _, match := range regexp.MustCompile(`\bid="([^"]+)"`).FindAllStringSubmatch(got, -1) {
		if seen[match[1]] {
			t.Errorf("%s: id %q is used twice", name, match[1])
		}
		seen[match[1]] = true
	}
	for _, ref := range regexp.MustCompile(`(?:aria-describedby|aria-labelledby|\bfor)="([^"]+)"`).FindAllStringSubmatch(got, -1) {
		if !seen[ref[1]] {
			t.Errorf("%s: refers to %q, which is not there", name, ref[1])
		}
	}
	for _, input := range regexp.MustCompile(`<input id="([^"]+)"`).FindAllStringSubmatch(got, -1) {
		if !strings.Contains(got, `<label for="`+input[1]+`">`) {
			t.Errorf("%s: %s has no label", name, input[1])
		}
	}
	for _, img := range regexp.MustCompile(`<img [^>]*>`).FindAllString(got, -1) {
		if !strings.Contains(img, ` alt=""`) || !strings.Contains(img, ` src="/`) {
			t.Errorf("%s: %s", name, img)
		}
	}
}

func TestRegistryPolicy(t *testing.T) {
	pages := registryPages(t)
	policy := pages.ContentSecurityPolicy()
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`)
	for name, page := range everyRegistryPage() {
		sum := sha256.Sum256([]byte(style.FindStringSubmatch(renderRegistry(t, page))[1]))
		if want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"; !strings.Contains(policy, want) {
			t.Errorf("%s: policy %q lacks %q", name, policy, want)
		}
	}
	for _, want := range []string{"default-src 'none'; ", "img-src 'self'; ", "base-uri 'none'; ", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("policy %q lacks %q", policy, want)
		}
	}
}

func TestRegistryList(t *testing.T) {
	check(t, "list", renderRegistry(t, registryList()), []string{
		"<title>Example servers – Gatehouse</title>", "<h1><bdi>Example servers</bdi></h1>", `<form class="search" method="get" action="/" role="search">`, "2 servers.",
		`<a href="/servers/com.example/notes"><bdi>Notes</bdi></a>`, `<img class="mark" src="/icons/com.example/notes/1.4.0/x" alt="" width="40" height="40">`,
		`<bdi class="uri">com.example/notes</bdi> <bdi class="note">1.4.0</bdi>`, `<p class="line"><bdi>Reads notes.</bdi></p>`,
		`<a href="/servers/com.example/files"><bdi>files</bdi></a> <span class="tag caution-tag">deprecated</span>`,
		`<span class="mark letter" aria-hidden="true"><bdi>F</bdi></span>`, `<a class="plain" href="/?cursor=abc&amp;search=x" rel="next">More</a>`, `<a href="/v0.1/servers"><code>/v0.1/servers</code></a>`,
	}, []string{"From the beginning", `role="alert"`})
	found, wrong, later := registryList(), registryList(), registryList()
	found.Search, found.Servers, found.Next = "nowhere", nil, ""
	check(t, "nothing found", renderRegistry(t, found), []string{`value="nowhere"`, `Names with <bdi class="name">nowhere</bdi> in them.`, "There is no such server.", `<a href="/">Show all</a>`}, []string{"<nav", "so far"})
	found.Next = "/?cursor=a"
	check(t, "nothing found so far", renderRegistry(t, found), []string{"There is no such server so far.", `rel="next"`}, nil)
	wrong.Problem, wrong.Search = language.Detail("Too short."), "ab"
	check(t, "wrong", renderRegistry(t, wrong), []string{`<p class="problem" id="problem" role="alert">Too short.</p>`, `value="ab"`, `aria-describedby="problem"`}, []string{"2 servers", `class="servers"`, "<nav"})
	later.Start, later.Next = "/?search=x", ""
	check(t, "last", renderRegistry(t, later), []string{`<a class="plain" href="/?search=x">From the beginning</a>`}, []string{`rel="next"`})
	check(t, "empty", renderRegistry(t, templates.RegistryList{}), []string{"<h1><bdi>Servers</bdi></h1>", "0 servers.", "Nothing is here yet."}, []string{"<nav", "<img"})
}

func TestRegistryServer(t *testing.T) {
	check(t, "server", renderRegistry(t, registryServer()), []string{
		"<title>Notes – Gatehouse</title>", `<a href="/"><bdi>Example servers</bdi></a>`, `<bdi class="uri">com.example/notes</bdi>`, `<img class="mark" src="/icons/x"`,
		`<time datetime="2026-03-02T02:00:00Z">2 March 2026</time>`, `<time datetime="2026-04-01T00:00:00Z">1 April 2026</time>`,
		`<a href="https://notes.example.com/about?lang=en" rel="nofollow noopener noreferrer" referrerpolicy="no-referrer"><bdi>https://notes.example.com/about?lang=en</bdi></a>`,
		`<a href="https://git.example.com/notes" rel="nofollow noopener noreferrer"`,
		`<code><bdi>https://{tenant}.notes.example.com/mcp</bdi></code>`, `<code><bdi>tenant</bdi></code> <span class="tag">required</span> <bdi class="note">Who</bdi>`, `<code><bdi>X-Key</bdi></code> <span class="tag">secret</span>`,
		`<code><bdi>@example/notes</bdi></code> <bdi class="note">1.4.0</bdi>`, `<bdi>npm</bdi> from <bdi>https://packages.example.org</bdi>, run with <bdi>npx</bdi>, over <bdi>stdio</bdi>`,
		"SHA-256 <code><bdi>" + strings.Repeat("a", 64), `<dt><bdi>stars</bdi></dt><dd><bdi>4.5</bdi></dd>`,
		`<strong aria-current="page"><bdi>1.4.0</bdi></strong> <span class="tag">latest</span>`,
		`<a href="/servers/com.example/notes?version=1.3.0"><bdi>1.3.0</bdi></a> <span class="tag caution-tag">deprecated</span> <span class="note"><time datetime="2025-01-02T00:00:00Z">2 January 2025</time></span>`,
	}, []string{`class="caution"`, "more."})
	old := registryServer()
	old.Latest, old.LatestPage, old.Deprecated, old.Message = false, "/servers/com.example/notes", true, "Use another one."
	check(t, "old", renderRegistry(t, old), []string{
		`This version is deprecated. The registry says: <bdi>Use another one.</bdi></p>`, `This is not the latest version. <a href="/servers/com.example/notes">Show the latest</a>`,
	}, nil)
	check(t, "empty", renderRegistry(t, templates.RegistryServer{Latest: true}), []string{"<dt>Version</dt>"}, []string{"Published", "Website", "<section", "<img", "deprecated"})
}

// TestRegistryEscaping puts hostile text into every member and searches the pages for it.
func TestRegistryEscaping(t *testing.T) {
	for _, evil := range []string{
		`<script>alert(1)</script>`, `"><script>alert(1)</script>`, `' onmouseover='alert(1)`, `" onfocus="alert(1)" x="`, `</title><script>`,
		`</bdi><img src=x onerror=alert(1)>`, `--><svg onload=alert(1)>`, `</style><script>`, `/"><script>alert(1)</script>`, `https://a.example/"><script>alert(1)</script>`,
	} {
		for _, page := range []any{hostileList(evil), hostileServer(evil)} {
			got := renderRegistry(t, page)
			if strings.Contains(got, evil) {
				t.Errorf("%T carries %q as it is", page, evil)
			}
			if strings.Count(got, "<script")+strings.Count(got, "<img src=x")+strings.Count(got, "<svg onload") > 0 {
				t.Errorf("%T: %q became an element", page, evil)
			}
		}
	}
	// Text that reverses, hides or covers other text is not shown, and all text is isolated.
	got := renderRegistry(t, hostileServer("Bank\u202egnp.exe \x00\u200b"+strings.Repeat("\u0335", 50)))
	if strings.ContainsAny(got, "\u202e\x00\u200b") || strings.Contains(got, strings.Repeat("\u0335", 3)) || !strings.Contains(got, "<bdi>Bankgnp.exe") {
		t.Error("hostile characters are still there")
	}
}

// TestRegistryLinks: external links are http or https and show their destination, and
// internal paths stay on this origin.
func TestRegistryLinks(t *testing.T) {
	for _, link := range []string{
		"javascript:alert(1)", "JaVaScRiPt:alert(1)", "javascript://a.example/%0aalert(1)", "data:text/html,x", "//a.example", "/path", "ftp://a.example/", "vbscript:x", "",
		"https:a.example", "https:///path", "https://user@a.example/", "https://a.example@b.example/", " https://a.example/", "https://a.example\\@b.example/", "https://a.example/\x00", "file:///etc/passwd",
	} {
		p := registryServer()
		p.Website, p.Source = link, link
		check(t, link, renderRegistry(t, p), nil, []string{"Website", "Source", "<a href=\"" + link + "\" rel"})
	}
	for _, path := range []string{"https://a.example/x", "//a.example/x", `/\a.example/x`, "javascript:alert(1)", "x"} {
		p, l := registryServer(), registryList()
		p.Icon, p.Versions[1].Page = path, path
		l.Servers[0].Icon, l.Servers[0].Page = path, path
		for _, page := range []any{p, l} {
			if got := renderRegistry(t, page); strings.Contains(got, html.EscapeString(path)) && path != "x" || strings.Contains(got, "<img") {
				t.Errorf("%T: %q is there", page, path)
			}
		}
	}
	p := registryServer()
	p.Website, p.Source = "http://a.example/?a=1&b=<2>", "HTTPS://A.example/x"
	check(t, "http", renderRegistry(t, p), []string{`href="http://a.example/?a=1&amp;b=%3c2%3e"`, `href="https://A.example/x"`}, nil)
}

// TestRegistryPagesStayBounded: the size of a page is limited, whatever it shows.
func TestRegistryPagesStayBounded(t *testing.T) {
	p := hostileServer(strings.Repeat("\U0001f98a\u0301", 300))
	for range 1000 {
		p.Remotes = append(p.Remotes, p.Remotes[0])
		p.Packages = append(p.Packages, p.Packages[0])
		p.Facts = append(p.Facts, p.Facts[0])
		p.Versions = append(p.Versions, p.Versions[0])
		p.Remotes[0].Inputs = append(p.Remotes[0].Inputs, p.Remotes[0].Inputs[0])
	}
	got := renderRegistry(t, p)
	if len(got) > 4<<20 {
		t.Errorf("%d bytes", len(got))
	}
	for _, want := range []string{"And 951 more.", "And 802 more."} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestRegistryWriteErrors(t *testing.T) {
	pages := registryPages(t)
	for name, err := range map[string]error{
		"list": pages.List(&failing{10}, registryList()), "server": pages.Server(&failing{10}, registryServer()), "error": pages.Error(&failing{10}, problem()),
	} {
		if !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%s: %v, want the writer's error", name, err)
		}
	}
}

// FuzzRegistryServer: for any text, the page has the same elements.
func FuzzRegistryServer(f *testing.F) {
	for _, seed := range []string{"Example", "\u202ex", `"><script>`, "\xff", "/x", "https://a.example/", "e\u0301\u0301\u0301", strings.Repeat("a", 5000)} {
		f.Add(seed)
	}
	pages := registryPages(f)
	element := regexp.MustCompile(`<[a-z!/][a-z0-9]*`)
	optional := regexp.MustCompile(`(?s)<div><dt>(Website|Source)</dt>.*?</div>|<img[^>]*>|<span class="mark letter" aria-hidden="true"><bdi>.*?</bdi></span>| <a href="[^"]*">Show the latest</a>`)
	elements := func(t testing.TB, evil string) []string {
		var b strings.Builder
		p := hostileServer("x")
		p.Name, p.Title, p.Version, p.Message = "x", "x"+evil, "x"+evil, "x"+evil
		p.Remotes[0].URL, p.Packages[0].Identifier, p.Facts[0].Value, p.Versions[0].Version = "x"+evil, "x"+evil, "x"+evil, "x"+evil
		p.Website, p.Icon, p.Versions[0].Page, p.LatestPage = evil, evil, evil, evil
		if err := pages.Server(&b, p); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(b.String(), "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\x00") {
			t.Fatalf("%q smuggles a direction or a NUL", evil)
		}
		return element.FindAllString(optional.ReplaceAllString(b.String(), ""), -1)
	}
	want := elements(f, "y")
	f.Fuzz(func(t *testing.T, evil string) {
		if got := elements(t, evil); !slices.Equal(got, want) {
			t.Errorf("%q changes the structure of the page", evil)
		}
	})
}

func ExampleRegistry_List() {
	pages, err := templates.NewRegistry()
	if err != nil {
		panic(err)
	}
	var page strings.Builder
	err = pages.List(&page, templates.RegistryList{
		Home: "/", API: "/v0.1/servers", Total: 1,
		Servers: []templates.RegistryRow{{Name: "com.example/notes", Title: "Notes", Version: "1.0.0", Page: "/servers/com.example/notes"}},
	})
	fmt.Println(err, strings.Contains(page.String(), `<a href="/servers/com.example/notes"><bdi>Notes</bdi></a>`))
	// Output: <nil> true
}
