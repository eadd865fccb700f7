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
	link     = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
)

// TestContributing wants each file and test that the pages for contributors name to exist.
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
