package e2e

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestClientsPageNamesWhatIsDriven: the page about clients has the versions that scripts/clients
// installs, and a row for each of the tests that it names, which exist.
func TestClientsPageNamesWhatIsDriven(t *testing.T) {
	page := read(t, "../../docs/clients.md")
	listed := regexp.MustCompile(`(?m)^\| [^|]+ \| ([0-9][0-9.]*) \| (.+?) \|`).FindAllStringSubmatch(page, -1)
	pins := read(t, "testdata/clients.txt") + strings.ReplaceAll(read(t, "../examples/mcpgo/go.mod"), "mcp-go v", "mcp-go@")
	code := read(t, "productrun_test.go") + read(t, "libraries_test.go")
	rows := 0
	for _, row := range listed {
		if !regexp.MustCompile(`@` + regexp.QuoteMeta(row[1]) + `\b`).MatchString(pins) {
			t.Errorf("version %s is not what is installed", row[1])
		}
		for _, test := range strings.Split(row[2], ", ") {
			rows++
			if !strings.Contains(code, "func "+strings.Trim(test, "`")+"(") {
				t.Errorf("there is no test %s", test)
			}
		}
	}
	if n := len(regexp.MustCompile(`(?m)^func Test\w+SignsIn\(`).FindAllString(code, -1)); n != rows {
		t.Errorf("the page names %d tests, there are %d", rows, n)
	}
	if !strings.Contains(read(t, "../../README.md"), "(docs/clients.md)") {
		t.Error("the README does not lead to the page")
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
