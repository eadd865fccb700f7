package conformance

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile(`^(Test|Fuzz)[A-Z0-9]\w+$`)
	filePath = regexp.MustCompile(`^\.?[a-z]+(/[A-Za-z0-9_.-]+)*(/|\.(go|txt|md|yml))$`)
	symbol   = regexp.MustCompile(`^([a-z]+(?:/[a-z]+)*)\.\w+(\.\w+)*$`)
	unplaced = regexp.MustCompile(`^[a-z]+[A-Z]\w*|^[A-Z]\w+\.\w+`)
	link     = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
)

// TestContributing wants each file, test and symbol that the pages for contributors name to exist.
// They name a symbol with its folder, as in the pages of rules.
func TestContributing(t *testing.T) {
	module := readModule(t)
	tests := map[string]bool{}
	for name := range module.tests {
		tests[path.Base(name)] = true
	}
	checked := 0
	for _, page := range []string{"CONTRIBUTING.md", "SECURITY.md"} {
		text := read(t, page)
		var files []string
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			files = append(files, match[1])
		}
		for _, name := range names(text) {
			switch {
			case testName.MatchString(name) && !tests[name]:
				t.Errorf("%s: there is no test %s", page, name)
			case testName.MatchString(name):
			case unplaced.MatchString(name):
				t.Errorf("%s: %s: write it as folder.Name or folder.Type.method", page, name)
			case symbol.MatchString(name) && isFolder(symbol.FindStringSubmatch(name)[1]) && !module.symbols[name]:
				t.Errorf("%s: there is no symbol %s", page, name)
			case filePath.MatchString(name), strings.HasPrefix(name, "scripts/") && !strings.Contains(name, " "):
				files = append(files, name)
			}
		}
		for _, name := range files {
			if _, err := os.Stat(path.Join(root, name)); err != nil && strings.Contains(name, "/") {
				t.Errorf("%s: there is no %s", page, name)
			}
		}
		checked += len(files)
	}
	if checked < 30 {
		t.Errorf("only %d names of files were found", checked)
	}
}

// isFolder reports whether the module has a folder.
func isFolder(name string) bool {
	info, err := os.Stat(path.Join(root, name))
	return err == nil && info.IsDir()
}

// placedTest is a test with its folder, as pages for operators name one beside a promise.
var placedTest = regexp.MustCompile(`^[a-z]+(/[a-z]+)*/(Test|Fuzz)[A-Z0-9]\w+$`)

// TestPromisesOfPeople wants each test that the page about people names to exist.
func TestPromisesOfPeople(t *testing.T) {
	module := readModule(t)
	checked := 0
	for _, name := range names(read(t, "docs/people.md")) {
		if !placedTest.MatchString(name) {
			continue
		}
		checked++
		if !module.tests[name] {
			t.Errorf("docs/people.md: there is no test %s", name)
		}
	}
	if checked < 20 {
		t.Errorf("docs/people.md names only %d tests", checked)
	}
}
