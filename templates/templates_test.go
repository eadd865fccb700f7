package templates_test

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

func TestEveryPageIsWholeAndPassive(t *testing.T) {
	forbidden := regexp.MustCompile(`(?i)<script|<iframe|<object|<embed|<base|<link|<img|<[^>]+\sstyle\s*=|<[^>]+\son[a-z]+\s*=|javascript:|@import|url\(|http-equiv`)
	value := regexp.MustCompile(`="[^"<>]*"`)
	for name, page := range everyPage() {
		got := render(t, page)
		if found := forbidden.FindString(value.ReplaceAllString(got, `=""`)); found != "" {
			t.Errorf("%s: contains %q", name, found)
		}
		for _, once := range []string{"<!doctype html>", `<html lang="en" dir="ltr">`, `<meta charset="utf-8">`, `<meta name="viewport"`, "<title>", "<style>", "<header", "<main>", "</main>", "<footer>", "<h1>", "</html>"} {
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
	wrong.Problem, wrong.UserName = language.Detail("That did not match."), "reader"
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

// TestEscaping puts hostile text into every member and searches the page for it.
func TestEscaping(t *testing.T) {
	for _, evil := range []string{
		`<script>alert(1)</script>`, `"><script>alert(1)</script>`, `' onmouseover='alert(1)`, `" onfocus="alert(1)" x="`,
		`</title><script>`, `</bdi><img src=x onerror=alert(1)>`, `--><svg onload=alert(1)>`, `</style><script>`,
	} {
		l := templates.Login{
			Transaction: evil, CSRF: evil, Client: templates.Client{Name: evil, Host: evil}, RedirectHost: evil,
			Resources: []templates.Resource{{URI: evil, Name: evil}}, UserName: evil, Problem: language.Detail(evil),
		}
		c := templates.Consent{
			Transaction: evil, CSRF: evil, Client: l.Client, RedirectHost: evil,
			Groups:   []templates.Group{{Resource: tasks}, {Resource: l.Resources[0], Boxes: []templates.Box{{Value: evil, Name: evil, Description: evil}}}},
			UserName: evil, Problem: language.Detail(evil),
		}
		e := templates.Error{Title: language.Detail(evil), Message: language.Detail(evil), Code: evil, Steps: []language.Text{language.Detail(evil), language.Detail(evil)}, Link: &templates.Link{URL: "https://example.org/?" + evil, Host: "example.org"}}
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
		// Values that the form sends back are unchanged.
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

func TestPagesStayBounded(t *testing.T) {
	huge := strings.Repeat("\U0001f98a\u0301", 100_000)
	l := templates.Login{Client: templates.Client{Name: huge, Host: huge}, RedirectHost: huge, Resources: []templates.Resource{{URI: huge, Name: huge}}, UserName: huge, Problem: language.Detail(huge)}
	e := templates.Error{Title: language.Detail(huge), Message: language.Detail(huge), Code: huge}
	for _, page := range []any{l, e} {
		if n := len(render(t, page)); n > 64<<10 {
			t.Errorf("%T has %d bytes", page, n)
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

// TestLogo: a logo is a picture of this origin or left out.
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
