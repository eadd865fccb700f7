package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exampleFolders are the folders with the sources of the snippets in docs/languages.md, by the
// language of the block.
var exampleFolders = map[string]string{"ts": "typescript", "python": "python", "java": "java"}

// TestPageShowsTheExamples: every snippet in docs/languages.md is in the files that the e2e
// tests run, line by line, and the page links each of those files.
func TestPageShowsTheExamples(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	raw, err := os.ReadFile(filepath.Join(docs, "languages.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	blocks := regexp.MustCompile("(?s)\n```([a-z]*)\n(.*?)\n```\n").FindAllStringSubmatch(page, -1)
	if len(blocks) < len(exampleFolders) {
		t.Errorf("the page shows %d snippets, want one of each language", len(blocks))
	}
	files := map[string]string{}
	for mark, folder := range exampleFolders {
		files[mark] = readExamples(t, page, docs, folder)
		if !slices.ContainsFunc(blocks, func(block []string) bool { return block[1] == mark }) {
			t.Errorf("the page shows nothing of %s", folder)
		}
	}
	for _, block := range blocks {
		if !strings.Contains(files[block[1]], "\n"+flat(block[2])+"\n") {
			t.Errorf("no file of %q has this snippet:\n%s", exampleFolders[block[1]], block[2])
		}
	}
}

// readExamples returns the files of a language without indentation, and checks that the page links
// each.
func readExamples(t *testing.T, page, docs, language string) string {
	t.Helper()
	folder := filepath.Join("examples", language)
	entries, err := os.ReadDir(filepath.Join(docs, folder))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, entry := range entries {
		if entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(docs, folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("\n" + flat(string(text)) + "\n")
		if link := "(" + filepath.ToSlash(folder) + "/" + entry.Name() + ")"; !strings.Contains(page, link) {
			t.Errorf("the page does not link %s", link)
		}
	}
	return all.String()
}
