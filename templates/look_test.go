package templates_test

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

func fullLook() templates.Look {
	return templates.Look{
		Name: "Example Company", Logo: []byte("\x89PNG\r\n\x1a\n"), LogoPath: "/pages/logo?v=1", Colour: "#ffcc00", Footer: "Run by the platform team.",
		Support: "help@example.com", Links: []templates.FooterLink{{Name: "Privacy", URL: "https://example.com/privacy?a=1&b=2"}},
	}
}

func withLook(t *testing.T, l templates.Look, page templates.Login) (*templates.Set, string) {
	t.Helper()
	set, err := l.Pages()
	if err != nil {
		t.Fatal(err)
	}
	b := &strings.Builder{}
	if err := set.Login(b, page); err != nil {
		t.Fatal(err)
	}
	return set, b.String()
}

func TestLook(t *testing.T) {
	_, got := withLook(t, fullLook(), login())
	check(t, "full", got, []string{
		"<title>Sign in – Example Company</title>", `<img class="brand-logo" src="/pages/logo?v=1" alt="" width="32" height="32">`,
		"<span><bdi>Example Company</bdi></span>", "<p><bdi>Run by the platform team.</bdi></p>",
		`<p>Help: <a href="mailto:help@example.com"><bdi>help@example.com</bdi></a></p>`,
		`<a href="https://example.com/privacy?a=1&amp;b=2" rel="noopener noreferrer"><bdi>Privacy</bdi></a>`,
	}, []string{"Gatehouse", "<svg"})
	_, got = withLook(t, templates.Look{}, login())
	check(t, "none", got, []string{"Gatehouse", "<svg"}, []string{"<img", "Help:", `class="links"`})
}

func TestLookRefuses(t *testing.T) {
	for want, change := range map[string]func(*templates.Look){
		"the name": func(l *templates.Look) { l.Name = strings.Repeat("x", 81) }, "visible": func(l *templates.Look) { l.Name = "a\u202eb" },
		"PNG": func(l *templates.Look) { l.Logo = []byte("<svg/>") }, "the colour": func(l *templates.Look) { l.Colour = "red" },
		"six hexadecimal": func(l *templates.Look) { l.Colour = "#+cc000" }, "the footer": func(l *templates.Look) { l.Footer = "a\nb" },
		"at most 10": func(l *templates.Look) { l.Links = make([]templates.FooterLink, 11) },
		"the link":   func(l *templates.Look) { l.Links[0].URL = "http://example.com" }, "https://": func(l *templates.Look) { l.Links[0].URL = "javascript:alert(1)" },
		"begins with": func(l *templates.Look) { l.Links[0].URL = "https://user@example.com" }, "the name of the link": func(l *templates.Look) { l.Links[0].Name = "" },
		"support": func(l *templates.Look) { l.Support = "mailto:x" }, "e-mail": func(l *templates.Look) { l.Support = "help@example.com?cc=x@example.com" },
		"an e-mail": func(l *templates.Look) { l.Support = "Help <help@example.com>" },
	} {
		l := fullLook()
		change(&l)
		if err := l.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if _, err := l.Pages(); err == nil {
			t.Errorf("%s: the pages are made", want)
		}
	}
}

// TestAnyColourIsLegible: with any colour the text of the main button, and links on both
// grounds, have a contrast of 4.5 to 1 (WCAG 2.2, 1.4.3), in light and in dark.
func TestAnyColourIsLegible(t *testing.T) {
	grounds := [][]string{{"#ffffff", "#f3f5f4"}, {"#191f1d", "#101514"}}
	for n := 0; n < 1<<24; n += 1<<19 + 7919 {
		l := templates.Look{Colour: fmt.Sprintf("#%06x", n)}
		_, page := withLook(t, l, login())
		roots := regexp.MustCompile(`:root\{(--accent:#[^}]*)\}`).FindAllStringSubmatch(page, -1)
		if len(roots) != 2 {
			t.Fatalf("%s: %d palettes", l.Colour, len(roots))
		}
		for i, root := range roots {
			has := map[string]string{}
			for _, pair := range strings.Split(root[1], ";") {
				name, value, _ := strings.Cut(pair, ":")
				has[name] = value
			}
			if has["--fill"] != l.Colour {
				t.Errorf("%s: the button is %s", l.Colour, has["--fill"])
			}
			pairs := [][2]string{{has["--on-fill"], has["--fill"]}, {has["--on-fill"], has["--fill-hover"]}}
			for _, ground := range grounds[i] {
				pairs = append(pairs, [2]string{has["--accent"], ground}, [2]string{has["--accent-hover"], ground})
			}
			for _, p := range pairs {
				if c := contrastOf(t, p[0], p[1]); c < 4.5 {
					t.Errorf("%s: %s on %s has a contrast of %.2f", l.Colour, p[0], p[1], c)
				}
			}
		}
	}
	if c := contrastOf(t, "#ffffff", "#767676"); math.Abs(c-4.54) > 0.01 {
		t.Errorf("the test measures %.2f, want 4.54", c)
	}
}

func contrastOf(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(s string) (sum float64) {
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(s[1+2*i:3+2*i], 16, 8)
			if err != nil {
				t.Fatal(s, err)
			}
			v := float64(n) / 255
			if v > 0.04045 {
				v = math.Pow((v+0.055)/1.055, 2.4)
			} else {
				v /= 12.92
			}
			sum += weight * v
		}
		return sum
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + .05) / (min(x, y) + .05)
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

const ownLogin = `{{define "page"}}<h1>Welcome</h1><form method="post" action="{{.Action}}">
<input type="hidden" name="transaction" value="{{.Transaction}}"><input type="hidden" name="csrf" value="{{.CSRF}}">
<input name="username"><input name="password" type="password">{{with .Passkey}}{{template "passkeyprompt" .}}{{end}}{{template "providers" .Providers}}{{template "account" .Account}}</form>{{end}}{{define "aside"}}{{end}}`

func TestOwnTemplates(t *testing.T) {
	set, got := withLook(t, templates.Look{Files: fstest.MapFS{"login.html": file(ownLogin), "style.css": file("body{color:red}")}}, login())
	check(t, "own", got, []string{"<h1>Welcome</h1>", "<style>body{color:red}</style>", `<input type="hidden" name="csrf" value="csrf-1">`}, []string{"Who asks"})
	if policy := set.ContentSecurityPolicy(); policy == pages(t).ContentSecurityPolicy() || !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") {
		t.Errorf("policy %q", policy)
	}
	// A page in another language is the operator's too, with our sentences.
	b := &strings.Builder{}
	if err := set.For(templates.Reader{Language: language.Tagged("de")}).Consent(b, consent()); err != nil || !strings.Contains(b.String(), "Zugriff erlauben?") {
		t.Errorf("%v: %s", err, text(b.String()))
	}
}

// TestBrokenTemplatesAreNamed: what is wrong with a file of the operator's is found when the
// pages are made, and its name and line are told.
func TestBrokenTemplatesAreNamed(t *testing.T) {
	without := func(old string) *fstest.MapFile { return file(strings.Replace(ownLogin, old, "", 1)) }
	for want, files := range map[string]fstest.MapFS{
		"login.html:2:":                          {"login.html": file("{{define \"page\"}}\n{{if}}{{end}}{{end}}")},
		"login.html:2:2":                         {"login.html": file("{{define \"page\"}}\n{{.Nothing}}{{end}}{{define \"aside\"}}{{end}}")},
		`"login.titel"`:                          {"login.html": file(`{{define "page"}}{{say "login.titel"}}{{end}}{{define "aside"}}{{end}}`)},
		`no such template "aside"`:               {"login.html": file(`{{define "page"}}{{end}}`)},
		`lacks <input name="csrf" value="csrf">`: {"login.html": without(`<input type="hidden" name="csrf" value="{{.CSRF}}">`)},
		`lacks <input name="password">`:          {"login.html": without(`<input name="password" type="password">`)},
		`lacks <button name="provider"`:          {"login.html": without(`{{template "providers" .Providers}}`)},
		`lacks <button name="not-you"`:           {"login.html": without(`{{template "account" .Account}}`)},
		`lacks a form with action="/login"`:      {"login.html": without(`action="{{.Action}}"`)},
		`lacks <input name="transaction"`:        {"consent.html": file(`{{define "page"}}<form method="post" action="{{.Action}}"></form>{{end}}{{define "aside"}}{{end}}`)},
		"signin.html replaces nothing":           {"signin.html": file("x")},
		"contains </style":                       {"style.css": file("a{} </STYLE><script>")},
		"more than":                              {"style.css": file(strings.Repeat("x", 1<<20+1))},
		"in attribute name":                      {"error.html": file(`{{define "page"}}<a href="{{.Title}}{{end}}{{define "aside"}}{{end}}`)},
	} {
		_, err := templates.Look{Files: files}.Pages()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if _, err := (templates.Look{Files: fstest.MapFS{"registry-list.html": file(`{{define "page"}}<form method="get" action="{{.Home}}"></form>{{end}}{{define "aside"}}{{end}}`)}}).Registry(); err == nil || !strings.Contains(err.Error(), `lacks <input name="search">`) {
		t.Errorf("the registry: %v", err)
	}
}

// TestEmbeddedPagesPassTheirRehearsal: each page has a sample, and every embedded file may be
// replaced by itself.
func TestEmbeddedPagesPassTheirRehearsal(t *testing.T) {
	own := fstest.MapFS{}
	for name, text := range templates.EmbeddedFiles() {
		own[name] = file(text)
	}
	l := templates.Look{Files: own}
	if _, err := l.Pages(); err != nil {
		t.Error(err)
	}
	if _, err := l.Registry(); err != nil {
		t.Error(err)
	}
	for _, name := range templates.PageNames() {
		if !templates.HasSample(name) {
			t.Errorf("the page %q has no sample in samples.go", name)
		}
	}
}

func TestChoiceOfALanguage(t *testing.T) {
	b := &strings.Builder{}
	if err := pages(t).For(templates.Reader{Language: language.Tagged("ja"), Action: "/language", Return: "/login?transaction=a&b"}).Login(b, login()); err != nil {
		t.Fatal(err)
	}
	check(t, "choice", b.String(), []string{
		`<html lang="ja" dir="ltr">`, `href="/language?language=de&amp;return=%2Flogin%3Ftransaction%3Da%26b" rel="nofollow" lang="de"`,
		`lang="de" hreflang="de" dir="ltr">Deutsch</a>`, `lang="ja" hreflang="ja" dir="ltr" aria-current="true">日本語</a>`,
	}, nil)
	check(t, "no choice", render(t, login()), nil, []string{"/language"})
}
