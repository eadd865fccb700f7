package conformance

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root         = "../.."
	folder       = "docs/conformance"
	index        = folder + "/README.md"
	deviations   = folder + "/deviations.md"
	requirements = "docs/requirements.md"
)

// row is one line of a table.
type row struct {
	page  string
	line  int
	cells []string
}

func (r row) id() string { return r.cells[0] }

// built reports whether the row is about an existing part: its table has the columns where
// and shown by.
func (r row) built() bool { return len(r.cells) == 5 }

// errorf reports a fault of the row with its place.
func (r row) errorf(t *testing.T, format string, arguments ...any) {
	t.Helper()
	t.Errorf("%s:%d: %s: "+format, append([]any{r.page, r.line, r.id()}, arguments...)...)
}

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(path.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var pageLink = regexp.MustCompile(`^\| \[[^]]+\]\(([a-z-]+\.md)\) \|`)

// pages returns the pages in the order of the index.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	for line := range strings.Lines(read(t, index)) {
		if match := pageLink.FindStringSubmatch(line); match != nil {
			found = append(found, folder+"/"+match[1])
		}
	}
	return found
}

// TestIndex refuses pages that the index does not list. A page that it lists and that does
// not exist fails the other tests.
func TestIndex(t *testing.T) {
	listed := append(pages(t), index)
	entries, err := os.ReadDir(path.Join(root, folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if name := folder + "/" + entry.Name(); !slices.Contains(listed, name) {
			t.Errorf("%s does not list %s", index, name)
		}
	}
}

// rows returns the lines of every table of every page without their heads.
func rows(t *testing.T) []row {
	t.Helper()
	var found []row
	for _, page := range pages(t) {
		found = append(found, rowsOf(page, read(t, page))...)
	}
	if len(found) == 0 {
		t.Fatalf("%s lists no page with rows", index)
	}
	return found
}

var separatorLine = regexp.MustCompile(`^\|(\s*:?-+:?\s*\|)+$`)

func rowsOf(page, text string) []row {
	var found []row
	head := true
	for i, line := range strings.Split(text, "\n") {
		switch {
		case !strings.HasPrefix(line, "|"):
			head = true
		case separatorLine.MatchString(line):
			head = false
		case !head:
			found = append(found, row{page: page, line: i + 1, cells: cells(line)})
		}
	}
	return found
}

func cells(line string) []string {
	parts := strings.Split(strings.Trim(line, "|"), "|")
	for i, part := range parts {
		parts[i] = strings.TrimSpace(part)
	}
	return parts
}

var quoted = regexp.MustCompile("`([^`]*)`")

// names returns what stands between backquotes in a cell.
func names(cell string) []string {
	var found []string
	for _, match := range quoted.FindAllStringSubmatch(cell, -1) {
		found = append(found, match[1])
	}
	return found
}
