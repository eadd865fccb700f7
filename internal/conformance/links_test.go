package conformance

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	linkOnPage   = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	linkInRule   = regexp.MustCompile(`runbook: (\S+)$`)
	fenced       = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	inlineCode   = regexp.MustCompile("`[^`\n]*`")
	headingLine  = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	linkedInHead = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
)

// anchors returns the names by which links reach the headings of a page, as GitHub makes them: small
// letters, no punctuation, a dash for each space.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, heading := range headingLine.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := linkedInHead.ReplaceAllString(heading[1], "$1")
		found[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, name)] = true
	}
	return found
}

// markdown returns the pages of the project, without what tools put into hidden folders.
func markdown(t *testing.T) []string {
	t.Helper()
	var found []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules") {
			return fs.SkipDir
		}
		if path.Ext(name) == ".md" {
			found = append(found, name)
		}
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	return found
}

// leads reports what is wrong with a link on a page in a folder, or "".
func leads(t *testing.T, page, link string) string {
	t.Helper()
	target, anchor, _ := strings.Cut(link, "#")
	to := page
	if target != "" {
		to = path.Join(path.Dir(page), target)
	}
	if _, err := os.Stat(path.Join(root, to)); err != nil {
		return "there is no " + to
	}
	if anchor != "" && path.Ext(to) == ".md" && !anchors(read(t, to))[anchor] {
		return to + " has no heading for #" + anchor
	}
	return ""
}

// TestLinksLead follows the links of every page to files and headings of the project, and those of the
// alert rules to their runbooks.
func TestLinksLead(t *testing.T) {
	for _, page := range markdown(t) {
		text := inlineCode.ReplaceAllStringFunc(fenced.ReplaceAllString(read(t, page), ""), func(code string) string { return strings.Repeat("x", len(code)) })
		for _, link := range linkOnPage.FindAllStringSubmatch(text, -1) {
			if strings.Contains(link[1], ":") {
				continue // of another site
			}
			if fault := leads(t, page, link[1]); fault != "" {
				t.Errorf("%s links to %s: %s", page, link[1], fault)
			}
		}
	}
	const rules = "docs/examples/prometheus/alerts.yaml"
	for line := range strings.Lines(read(t, rules)) {
		if link := linkInRule.FindStringSubmatch(strings.TrimSpace(line)); link != nil {
			if fault := leads(t, "README.md", link[1]); fault != "" {
				t.Errorf("%s: %s", rules, fault)
			}
		}
	}
}

func TestAnchors(t *testing.T) {
	found := anchors("# Probes, logs, shutdown\n```\n# no heading\n```\n### `--dev`\n## See [the file](x.md#y)\n")
	for _, want := range []string{"probes-logs-shutdown", "--dev", "see-the-file"} {
		if !found[want] {
			t.Errorf("no %q in %v", want, found)
		}
	}
	if len(found) != 3 {
		t.Errorf("%v", found)
	}
}
