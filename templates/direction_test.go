package templates_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// mirrored is a language that is written from right to left: English in Hebrew letters.
func mirrored(t testing.TB) *language.Language {
	t.Helper()
	b, err := os.ReadFile("language/sentences/en.txt")
	if err != nil {
		t.Fatal(err)
	}
	const from, to = "abcdefghijklmnopqrstuvwxyz", "אבצדעפגהיכקלמנוםףרסתטץחךזש"
	letters := map[rune]rune{}
	for i, r := range []rune(to) {
		letters[rune(from[i])] = r
	}
	var out []string
	for _, line := range strings.Split(string(b), "\n") {
		id, said, _ := strings.Cut(line, " = ")
		inside := false
		said = strings.Map(func(r rune) rune {
			inside = r == '{' || inside && r != '}'
			if h, ok := letters[r|0x20]; ok && !inside {
				return h
			}
			return r
		}, said)
		if said != "" && !strings.HasPrefix(line, "#") {
			out = append(out, id+" = "+said)
		}
	}
	l, err := language.New("he", "Mirrored", language.RightToLeft, strings.Join(out, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestRightToLeft: the direction of the language is that of the page, and all values are
// isolated from it.
func TestRightToLeft(t *testing.T) {
	set := pages(t).For(templates.Reader{Language: mirrored(t), Action: "/language", Return: "/"})
	b := &strings.Builder{}
	if err := set.Consent(b, consent()); err != nil {
		t.Fatal(err)
	}
	check(t, "consent", b.String(), []string{`<html lang="he" dir="rtl">`, `<bdi class="name">Example Client</bdi> `}, []string{"Allow", "Untick"})
}

// TestStyleHasNoSides: the style names no left or right, so that it fits both directions.
func TestStyleHasNoSides(t *testing.T) {
	for name, text := range templates.EmbeddedFiles() {
		if filepath.Ext(name) != ".css" {
			continue
		}
		text = regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(text, "")
		if found := regexp.MustCompile(`[^{};]*\b(left|right)\b[^{};]*`).FindString(text); found != "" {
			t.Errorf("%s: %q: write inline-start or inline-end", name, strings.TrimSpace(found))
		}
		// Four values of which the second and the fourth differ are sides too.
		for _, m := range regexp.MustCompile(`(?:margin|padding|inset|border-radius):\s*([^\s;]+) ([^\s;]+) ([^\s;]+) ([^\s;]+);`).FindAllStringSubmatch(text, -1) {
			if m[2] != m[4] {
				t.Errorf("%s: %q differs between left and right", name, m[0])
			}
		}
	}
}

// TestStyleDefinesItsVariables: a variable without a value is no error in a browser, which then takes
// the colour of what is around.
func TestStyleDefinesItsVariables(t *testing.T) {
	files := templates.EmbeddedFiles()
	defined := files["style.css"]
	for name, text := range files {
		for _, m := range regexp.MustCompile(`var\((--[a-z-]+)`).FindAllStringSubmatch(text, -1) {
			if !strings.Contains(defined, m[1]+":") {
				t.Errorf("%s uses %s, which style.css does not define", name, m[1])
			}
		}
	}
}
