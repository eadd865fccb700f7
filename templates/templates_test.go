package templates_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"gatehouse.example/templates"
)

var (
	notes = templates.Resource{URI: "https://notes.example.com/mcp", Name: "Notes"}
	tasks = templates.Resource{URI: "https://tasks.example.com/mcp", Name: "Tasks"}
)

func login() templates.Login {
	return templates.Login{
		Action: "/login", Transaction: "txn-1", CSRF: "csrf-1",
		Client:       templates.Client{Name: "Example Client"},
		RedirectHost: "app.example.org", Resources: []templates.Resource{notes},
	}
}

func consent() templates.Consent {
	return templates.Consent{
		Action: "/consent", Transaction: "txn-1", CSRF: "csrf-1",
		Client:       templates.Client{Name: "Example Client"},
		RedirectHost: "app.example.org",
		Groups: []templates.Group{{Resource: notes, Boxes: []templates.Box{
			{Value: "notes:read", Name: "notes:read", Description: "Read your notes", Checked: true},
			{Value: "notes:write", Name: "notes:write", Description: "Add and change notes"},
		}}},
		UserName: "reader",
	}
}

func problem() templates.Error {
	return templates.Error{
		Status: 400, Title: "Unknown program", Message: "It is not known here.", Code: "invalid_client",
		Steps: []string{"Remove the connection.", "Add it again."},
		Link:  &templates.Link{URL: "https://app.example.org/cb?error=invalid_scope&state=a", Host: "app.example.org"},
	}
}

func pages(t testing.TB) *templates.Set {
	t.Helper()
	set, err := templates.New()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// render returns the page of any of the three kinds.
func render(t testing.TB, page any) string {
	t.Helper()
	set, b := pages(t), &strings.Builder{}
	var err error
	switch page := page.(type) {
	case templates.Login:
		err = set.Login(b, page)
	case templates.Consent:
		err = set.Consent(b, page)
	case templates.Error:
		err = set.Error(b, page)
	case templates.Home:
		err = set.Home(b, page)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// text is what people read of a page: no tags, no style, single spaces.
func text(page string) string {
	page = regexp.MustCompile(`(?s)<style>.*?</style>`).ReplaceAllString(page, "")
	page = regexp.MustCompile(`</?(bdi|span|code)[^>]*>`).ReplaceAllString(page, "")
	page = regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, "\n")
	return html.UnescapeString(strings.Join(strings.Fields(page), " "))
}

// everyPage is each page in each of its shapes, for what must hold of all.
func everyPage() map[string]any {
	wrong, loopback, private, bare := login(), consent(), consent(), problem()
	wrong.Problem, wrong.UserName = "Wrong password.", "reader"
	loopback.LoopbackRedirect, loopback.Offline, loopback.Problem = true, true, "Tick something."
	private.PrivateUseRedirect = true
	private.Groups = append(private.Groups, templates.Group{Resource: tasks, Boxes: []templates.Box{{Value: tasks.URI, Description: "Whatever you may do there"}}})
	bare.Link, bare.Steps = nil, bare.Steps[:1]
	hostile := consent()
	hostile.Client.Name = strings.Repeat(`"><script>x</script><p style="x" onclick=x>`, 300)
	hostile.UserName, hostile.RedirectHost, hostile.Problem = hostile.Client.Name, hostile.Client.Name, hostile.Client.Name
	hostile.Groups = []templates.Group{{Resource: templates.Resource{URI: hostile.Client.Name, Name: hostile.Client.Name}, Boxes: []templates.Box{
		{Value: hostile.Client.Name, Name: hostile.Client.Name, Description: hostile.Client.Name},
	}}}
	return map[string]any{
		"login": login(), "login with problem": wrong, "empty login": templates.Login{},
		"consent": consent(), "loopback": loopback, "private use": private, "hostile": hostile, "empty consent": templates.Consent{},
		"home": templates.Home{Issuer: "https://auth.example.com", Catalogue: "https://auth.example.com/registry/"}, "short home": templates.Home{},
		"enclosed home": templates.Home{Issuer: "https://auth.example.com", Enclosed: true, Registers: true, Pinned: []string{"Notes", "Tasks"}},
		"error":         problem(), "short error": bare, "empty error": templates.Error{},
	}
}

func TestEveryPageIsWholeAndPassive(t *testing.T) {
	forbidden := regexp.MustCompile(`(?i)<script|<iframe|<object|<embed|<base|<link|<img|<[^>]+\sstyle\s*=|<[^>]+\son[a-z]+\s*=|javascript:|@import|url\(|http-equiv`)
	value := regexp.MustCompile(`="[^"<>]*"`)
	for name, page := range everyPage() {
		got := render(t, page)
		if found := forbidden.FindString(value.ReplaceAllString(got, `=""`)); found != "" {
			t.Errorf("%s: contains %q", name, found)
		}
		for _, once := range []string{"<!doctype html>", `<html lang="en">`, `<meta charset="utf-8">`, `<meta name="viewport"`, "<title>", "<style>", "<header", "<main>", "</main>", "<footer>", "<h1>", "</html>"} {
			if n := strings.Count(got, once); n != 1 {
				t.Errorf("%s: %q is there %d times, want once", name, once, n)
			}
		}
		if strings.Contains(got, "ZgotmplZ") || strings.Contains(got, "<no value>") || !utf8.ValidString(got) {
			t.Errorf("%s: a value did not fit its place", name)
		}
		for _, tag := range []string{"p", "div", "form", "bdi", "dl", "dt", "dd", "section", "fieldset", "label", "button", "h2", "ol", "li", "a"} {
			opened, closed := len(regexp.MustCompile("<"+tag+`[\s>]`).FindAllString(got, -1)), strings.Count(got, "</"+tag+">")
			if opened != closed {
				t.Errorf("%s: <%s> opened %d times, closed %d times", name, tag, opened, closed)
			}
		}
	}
}

func TestEveryInputIsLabelled(t *testing.T) {
	input := regexp.MustCompile(`<input ([^>]*)>`)
	id := regexp.MustCompile(`\bid="([^"]+)"`)
	for name, page := range everyPage() {
		got, seen := render(t, page), map[string]bool{}
		for _, tag := range input.FindAllStringSubmatch(got, -1) {
			if strings.Contains(tag[1], `type="hidden"`) {
				continue
			}
			match := id.FindStringSubmatch(tag[1])
			if match == nil {
				t.Errorf("%s: %s has no id", name, tag[0])
				continue
			}
			if strings.Count(got, `<label for="`+match[1]+`">`) != 1 {
				t.Errorf("%s: %s has no label of its own", name, tag[0])
			}
		}
		for _, match := range id.FindAllStringSubmatch(got, -1) {
			if seen[match[1]] {
				t.Errorf("%s: id %q is used twice", name, match[1])
			}
			seen[match[1]] = true
		}
		for _, ref := range regexp.MustCompile(`aria-(?:describedby|labelledby)="([^"]+)"`).FindAllStringSubmatch(got, -1) {
			if !seen[ref[1]] {
				t.Errorf("%s: refers to %q, which is not there", name, ref[1])
			}
		}
	}
}

func TestPolicyNamesTheStyleOfEveryPage(t *testing.T) {
	policy := pages(t).ContentSecurityPolicy()
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`)
	for name, page := range everyPage() {
		sum := sha256.Sum256([]byte(style.FindStringSubmatch(render(t, page))[1]))
		want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"
		if !strings.Contains(policy, want) {
			t.Errorf("%s: policy %q lacks %q", name, policy, want)
		}
	}
}

func TestPolicy(t *testing.T) {
	policy := pages(t).ContentSecurityPolicy()
	for _, want := range []string{"default-src 'none'; ", "img-src 'self'; ", "base-uri 'none'; ", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("policy %q lacks %q", policy, want)
		}
	}
	for _, never := range []string{"form-action", "unsafe", "script-src", "http:", "https:", "*", "\n"} {
		if strings.Contains(policy, never) {
			t.Errorf("policy %q holds %q", policy, never)
		}
	}
}

func TestLogin(t *testing.T) {
	wrong := login()
	wrong.Problem, wrong.UserName = "That did not match.", "reader"
	for _, tt := range []struct {
		name        string
		page        templates.Login
		want, never []string
	}{
		{"fresh", login(), []string{
			`<form method="post" action="/login"`,
			`name="transaction" value="txn-1"`, `name="csrf" value="csrf-1"`,
			`name="username" type="text" value="" required autocomplete="username"`,
			`name="password" type="password" required autocomplete="current-password"`,
			`spellcheck="false" dir="auto" autofocus>`,
			`<bdi class="name">Example Client</bdi>`, `<bdi class="host">app.example.org</bdi>`,
			`<bdi class="name">Notes</bdi> <bdi class="uri">https://notes.example.com/mcp</bdi>`,
		}, []string{`role="alert"`, "aria-describedby", `name="decision"`}},
		{"wrong password", wrong, []string{
			`<p class="problem" id="problem" role="alert">That did not match.</p>`,
			`value="reader"`, `autocomplete="current-password" aria-describedby="problem" autofocus>`,
		}, []string{`dir="auto" aria-describedby="problem" autofocus`}},
	} {
		check(t, tt.name, render(t, tt.page), tt.want, tt.never)
	}
}

func TestConsent(t *testing.T) {
	with := func(change func(*templates.Consent)) templates.Consent {
		p := consent()
		change(&p)
		return p
	}
	for _, tt := range []struct {
		name        string
		page        templates.Consent
		want, never []string
	}{
		{"plain", consent(), []string{
			`<form method="post" action="/consent"`,
			`name="transaction" value="txn-1"`, `name="csrf" value="csrf-1"`,
			`<button class="plain" type="submit" name="decision" value="deny">Deny</button>`,
			`<button class="primary" type="submit" name="decision" value="allow">Allow</button>`,
			`name="scope" value="notes:read" checked>`, `name="scope" value="notes:write">`,
			`<bdi>Read your notes</bdi> <bdi class="uri">notes:read</bdi>`,
			`<bdi class="name">reader</bdi>`, "ends by itself",
		}, []string{`role="alert"`, `class="caution"`, "until it is revoked"}},
		{"loopback", with(func(p *templates.Consent) { p.LoopbackRedirect = true }), []string{"any program on it could receive it"}, []string{"an application on this device"}},
		{"private use", with(func(p *templates.Consent) { p.PrivateUseRedirect = true }), []string{"an application on this device"}, []string{"a program on this computer"}},
		{"offline", with(func(p *templates.Consent) { p.Offline = true }), []string{"until it is revoked"}, []string{"ends by itself"}},
		{"problem", with(func(p *templates.Consent) { p.Problem = "Tick one." }), []string{`role="alert">Tick one.</p>`}, nil},
		{"no scopes", with(func(p *templates.Consent) {
			p.Groups[0].Boxes = []templates.Box{{Description: "Whatever you may do there"}}
		}), []string{"<p>Whatever you may do there. There are no single permissions", `value="allow"`}, []string{"checkbox", "Untick"}},
		{"nothing but buttons", templates.Consent{}, []string{`value="allow"`, `value="deny"`, "An application without a name", "gave no name"}, []string{"Signed in as", "Returns to", "Wants to use"}},
		{"scope without description", with(func(p *templates.Consent) {
			p.Groups[0].Boxes = []templates.Box{{Value: "notes:read", Name: "notes:read"}}
		}), []string{"<bdi>notes:read</bdi></label>"}, nil},
	} {
		check(t, tt.name, render(t, tt.page), tt.want, tt.never)
	}
}

func TestDenyComesFirst(t *testing.T) {
	// The first submit button is what the Enter key presses.
	got := render(t, consent())
	if deny, allow := strings.Index(got, `value="deny"`), strings.Index(got, `value="allow"`); deny < 0 || deny > allow {
		t.Error("the Enter key would allow")
	}
}

func TestClientIsNeverTakenAtItsWord(t *testing.T) {
	const unverified = "Unverified: this name was chosen by the application itself."
	for _, tt := range []struct {
		name        string
		client      templates.Client
		want, never []string
	}{
		{"self-registered", templates.Client{Name: "Bank"}, []string{unverified}, []string{"Published by"}},
		{"self-registered with a host", templates.Client{Name: "Bank", Host: "app.example.org"}, []string{unverified, "It is described at app.example.org."}, []string{"Published by"}},
		{"verified", templates.Client{Name: "App", Verified: true, Host: "app.example.org"}, []string{"Published by app.example.org"}, []string{"Unverified"}},
		{"configured", templates.Client{Name: "App", Verified: true}, nil, []string{"Unverified", "Published by"}},
		{"no name", templates.Client{}, []string{"An application without a name", "Unverified: the application gave no name."}, []string{unverified}},
		{"invisible name", templates.Client{Name: " \u200b\u3164\u2800\u202e\x00 "}, []string{"An application without a name"}, nil},
	} {
		c, l := consent(), login()
		c.Client, l.Client = tt.client, tt.client
		check(t, tt.name+" at consent", text(render(t, c)), tt.want, tt.never)
		check(t, tt.name+" at login", text(render(t, l)), tt.want, tt.never)
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain", "Example Client", "Example Client"},
		{"accents", "Éditeur façade", "Éditeur façade"},
		{"decomposed accents", "Cafe\u0301", "Cafe\u0301"},
		{"right-to-left script", "שלום", "שלום"},
		{"emoji", "Notes ✅🦊", "Notes ✅🦊"},
		{"override", "Bank\u202egnp.exe", "Bankgnp.exe"},
		{"isolates and marks", "a\u2066b\u2069c\u200fd\u061ce", "abcde"},
		{"control characters", "a\x00b\x1b[31mc\x7f\u0085d", "ab[31mc d"},
		{"lines", "one\r\ntwo\u2028three\u2029four\tfive", "one two three four five"},
		{"spaces", "  a\u00a0\u2003  b\u3000", "a b"},
		{"zero width", "a\u200bb\ufeffc\u00add", "abcd"},
		{"private use", "a\ue000b\U000f0000c", "abc"},
		{"tags", "a\U000e0041b", "ab"},
		{"tower of marks", "Z" + strings.Repeat("\u0335", 500) + "o", "Z\u0335\u0335o"},
		{"invalid UTF-8", "a\xffb\xc3", "ab"},
		{"markup", `<b>"x"&'y'</b>`, `<b>"x"&'y'</b>`},
		{"entities", "&lt;b&gt;", "&lt;b&gt;"},
		{"template", "{{.CSRF}}", "{{.CSRF}}"},
		{"exactly long enough", strings.Repeat("ж", 80), strings.Repeat("ж", 80)},
		{"one too long", strings.Repeat("ж", 81), strings.Repeat("ж", 79) + "…"},
		{"far too long", strings.Repeat("W", 10_000), strings.Repeat("W", 79) + "…"},
		{"a little text after much nothing", strings.Repeat("\u200b", 10_000) + "x", "…"},
	} {
		p := consent()
		p.Client.Name = tt.in
		name := regexp.MustCompile(`<dt>Application</dt><dd><p class="line"><bdi class="name">(.*?)</bdi>`).FindStringSubmatch(render(t, p))
		if name == nil || html.UnescapeString(name[1]) != tt.want {
			t.Errorf("%s: %q is shown as %q, want %q", tt.name, tt.in, name, tt.want)
		}
	}
}

// TestEscaping puts hostile text into every member and looks for it in the page.
func TestEscaping(t *testing.T) {
	for _, evil := range []string{
		`<script>alert(1)</script>`, `"><script>alert(1)</script>`, `' onmouseover='alert(1)`, `" onfocus="alert(1)" x="`,
		`</title><script>`, `</bdi><img src=x onerror=alert(1)>`, `--><svg onload=alert(1)>`, `</style><script>`,
	} {
		l := templates.Login{
			Transaction: evil, CSRF: evil, Client: templates.Client{Name: evil, Host: evil}, RedirectHost: evil,
			Resources: []templates.Resource{{URI: evil, Name: evil}}, UserName: evil, Problem: evil,
		}
		c := templates.Consent{
			Transaction: evil, CSRF: evil, Client: l.Client, RedirectHost: evil,
			Groups:   []templates.Group{{Resource: tasks}, {Resource: l.Resources[0], Boxes: []templates.Box{{Value: evil, Name: evil, Description: evil}}}},
			UserName: evil, Problem: evil,
		}
		e := templates.Error{Title: evil, Message: evil, Code: evil, Steps: []string{evil, evil}, Link: &templates.Link{URL: "https://example.org/?" + evil, Host: "example.org"}}
		h := templates.Home{Issuer: evil, Catalogue: evil, Enclosed: true, Pinned: []string{evil, evil}}
		for _, page := range []any{l, c, e, h} {
			got := render(t, page)
			if strings.Contains(got, evil) {
				t.Errorf("%T carries %q as it is", page, evil)
			}
			if strings.ContainsAny(evil, "<>") && strings.Count(got, "<script")+strings.Count(got, "<img")+strings.Count(got, "<svg ") > 1 {
				t.Errorf("%T: %q became an element", page, evil)
			}
		}
		// What comes back with the form is exact, whatever it is.
		if !strings.Contains(html.UnescapeString(render(t, c)), `name="scope" value="`+evil+`"`) {
			t.Errorf("the value of scope %q is not exact", evil)
		}
	}
}

func TestAction(t *testing.T) {
	for _, tt := range []struct{ action, want string }{
		{"/tenant/login", `action="/tenant/login"`},
		{"https://auth.example.com/login?a=1&b=2", `action="https://auth.example.com/login?a=1&amp;b=2"`},
		{"javascript:alert(1)", `action="#ZgotmplZ"`},
		{"data:text/html,x", `action="#ZgotmplZ"`},
		{`/login"><script>`, `action="/login%22%3e%3cscript%3e"`},
	} {
		l, c := login(), consent()
		l.Action, c.Action = tt.action, tt.action
		check(t, tt.action, render(t, l), []string{tt.want}, nil)
		check(t, tt.action, render(t, c), []string{tt.want}, nil)
	}
}

func TestError(t *testing.T) {
	check(t, "full", render(t, problem()), []string{
		"<h1>Unknown program</h1>", `role="alert">It is not known here.</p>`, "<ol><li>Remove the connection.</li><li>Add it again.</li></ol>",
		"<code>invalid_client</code>, status 400", `<title>Unknown program – Gatehouse</title>`,
		`href="https://app.example.org/cb?error=invalid_scope&amp;state=a" rel="noopener noreferrer nofollow" referrerpolicy="no-referrer"`,
		`The link leads to <bdi class="host">app.example.org</bdi>`,
	}, nil)
	check(t, "empty", render(t, templates.Error{}), []string{"<h1>That did not work</h1>"}, []string{"<a ", "What you can do", "For support"})
	check(t, "one step", render(t, templates.Error{Steps: []string{"Try again."}}), []string{"<p>Try again.</p>"}, []string{"<ol>"})
}

func TestLinkThatIsNotWhatItSays(t *testing.T) {
	for _, link := range []templates.Link{
		{URL: "javascript:alert(1)", Host: ""},
		{URL: "javascript://app.example.org/%0aalert(1)", Host: "app.example.org"},
		{URL: "JaVaScRiPt:alert(1)", Host: "app.example.org"},
		{URL: "data:text/html,<script>alert(1)</script>", Host: ""},
		{URL: "http://app.example.org/cb", Host: "app.example.org"},
		{URL: "cursor://anysphere.cursor-mcp/cb", Host: "anysphere.cursor-mcp"},
		{URL: "//app.example.org/cb", Host: "app.example.org"},
		{URL: "/cb", Host: ""},
		{URL: "", Host: ""},
		{URL: "https:app.example.org", Host: "app.example.org"},
		{URL: "https:///cb", Host: ""},
		{URL: "https://app.example.org@evil.example/cb", Host: "app.example.org"},
		{URL: "https://user@app.example.org/cb", Host: "app.example.org"},
		{URL: "https://evil.example/cb", Host: "app.example.org"},
		{URL: "https://app.example.org:8443/cb", Host: "app.example.org"},
		{URL: "https://app.example.org/cb", Host: ""},
		{URL: "https://app.example.org\\@evil.example/", Host: "app.example.org"},
		{URL: "https://app.example.org/\x00", Host: "app.example.org"},
		{URL: " https://app.example.org/cb", Host: "app.example.org"},
		{URL: "javascript:alert(1)", Host: "javascript:"},
		{URL: "javascript://app.example.org/%0aalert(1)", Host: "javascript://app.example.org"},
		{URL: "JavaScript:alert(1)", Host: "javascript:"},
		{URL: "data:text/html,x", Host: "data:"},
		{URL: "ms-settings:x", Host: "ms-settings:"},
		{URL: "http://127.0.0.1/cb", Host: "127.0.0.1"},
		{URL: "myapp://one/cb", Host: "myapp://two"},
		{URL: "myapp:/cb", Host: "other:"},
		{URL: "myapp:/cb", Host: "myapp:/cb"},
	} {
		p := problem()
		p.Link = &link
		check(t, link.URL, render(t, p), []string{"<h1>Unknown program</h1>"}, []string{"<a ", "href", "Leaving this site"})
	}
}

// TestGroups: with several resources each has a group of its own, a scope that two share
// has a box under each, and a name that two share is told apart by the URI.
func TestGroups(t *testing.T) {
	p := consent()
	other := templates.Resource{URI: "https://other.example.com/mcp", Name: "Tasks"}
	p.Groups = []templates.Group{
		{Resource: notes, Boxes: []templates.Box{
			{Value: "n read", Name: "read", Description: "Read notes", Checked: true}, {Value: "n profile", Name: "profile", Description: "See your name"},
		}},
		{Resource: tasks, Boxes: []templates.Box{{Value: "t profile", Name: "profile", Description: "See your name"}}},
		{Resource: other, Boxes: []templates.Box{{Value: "other", Description: "Whatever you may do there", Checked: true}}},
	}
	got := render(t, p)
	var legends []string
	for _, part := range strings.Split(got, "<fieldset>")[1:] {
		legends = append(legends, text("<"+part[:strings.Index(part, "</legend>")]))
	}
	if want := []string{"Notes", "Tasks " + tasks.URI, "Tasks " + other.URI}; !slices.Equal(legends, want) {
		t.Errorf("groups %q, want %q", legends, want)
	}
	ids := map[string]bool{}
	for _, id := range regexp.MustCompile(`<input type="checkbox" id="([^"]*)"`).FindAllStringSubmatch(got, -1) {
		ids[id[1]] = true
	}
	if len(ids) != 4 {
		t.Errorf("four boxes have the ids %v", ids)
	}
	check(t, "boxes", got, []string{
		`name="scope" value="n read" checked>`, `name="scope" value="n profile">`, `name="scope" value="t profile">`, `name="scope" value="other" checked>`,
	}, []string{"no single permissions"})
	check(t, "lead", text(got), []string{"asks to use Notes and Tasks and Tasks on your behalf", "Where nothing is ticked, nothing is allowed.", "Whatever you may do there"}, nil)
	check(t, "one group", text(render(t, consent())), nil, []string{"Where nothing is ticked"})
}

func TestPagesStayBounded(t *testing.T) {
	huge := strings.Repeat("\U0001f98a\u0301", 100_000)
	l := templates.Login{Client: templates.Client{Name: huge, Host: huge}, RedirectHost: huge, Resources: []templates.Resource{{URI: huge, Name: huge}}, UserName: huge, Problem: huge}
	e := templates.Error{Title: huge, Message: huge, Code: huge}
	for _, page := range []any{l, e} {
		if n := len(render(t, page)); n > 64<<10 {
			t.Errorf("%T has %d bytes", page, n)
		}
	}
}

// failing accepts n bytes.
type failing struct{ n int }

func (f *failing) Write(p []byte) (int, error) {
	if len(p) > f.n {
		return f.n, io.ErrShortWrite
	}
	f.n -= len(p)
	return len(p), nil
}

func TestWriteErrorIsReported(t *testing.T) {
	set := pages(t)
	for name, err := range map[string]error{
		"login":   set.Login(&failing{10}, login()),
		"consent": set.Consent(&failing{10}, consent()),
		"error":   set.Error(&failing{10}, problem()),
	} {
		if !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%s: %v, want the writer's error", name, err)
		}
	}
}

func FuzzName(f *testing.F) {
	for _, seed := range []string{"Example", "\u202ex", `"><script>`, "\xff", "e\u0301\u0301\u0301\u0301", strings.Repeat("a", 5000)} {
		f.Add(seed)
	}
	set := pages(f)
	element := regexp.MustCompile(`<[a-z!/]`)
	var empty strings.Builder
	if err := set.Consent(&empty, templates.Consent{Client: templates.Client{Name: "x"}}); err != nil {
		f.Fatal(err)
	}
	want := element.FindAllString(empty.String(), -1)
	f.Fuzz(func(t *testing.T, name string) {
		var b strings.Builder
		if err := set.Consent(&b, templates.Consent{Client: templates.Client{Name: name}}); err != nil {
			t.Fatal(err)
		}
		if got := element.FindAllString(b.String(), -1); !slices.Equal(got, want) {
			t.Errorf("name %q changes the structure of the page", name)
		}
		if strings.ContainsAny(b.String(), "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\x00") {
			t.Errorf("name %q smuggles a direction or a NUL", name)
		}
	})
}

func check(t *testing.T, name, got string, want, never []string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: %q is missing in:\n%s", name, w, text(got))
		}
	}
	for _, n := range never {
		if strings.Contains(got, n) {
			t.Errorf("%s: %q is there", name, n)
		}
	}
}

func ExampleSet_Error() {
	pages, err := templates.New()
	if err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Security-Policy", pages.ContentSecurityPolicy())
	w.WriteHeader(http.StatusBadRequest)
	err = pages.Error(w, templates.Error{
		Status: http.StatusBadRequest, Title: "Unknown program",
		Message: "The program that sent you here is not known.",
		Steps:   []string{"Remove the connection in the program and add it again."},
	})
	fmt.Println(w.Code, err, strings.Contains(w.Body.String(), "<h1>Unknown program</h1>"))
	// Output: 400 <nil> true
}

// TestLogo: a logo is a picture of this origin, or there is none.
func TestLogo(t *testing.T) {
	page := consent()
	for logo, want := range map[string]string{
		"/logo?transaction=a&b=c":    `<img class="logo" src="/logo?transaction=a&amp;b=c" alt="" width="40" height="40">`,
		"":                           "",
		"https://app.example.org/l":  "",
		"//app.example.org/l":        "",
		"javascript:alert(1)":        "",
		"data:image/png;base64,AAAA": "",
		"logo":                       "",
	} {
		page.Client.Logo = logo
		got := render(t, page)
		if want != "" && !strings.Contains(got, want) || want == "" && strings.Contains(got, "<img") {
			t.Errorf("the logo %q: want %q in\n%s", logo, want, got)
		}
	}
}
