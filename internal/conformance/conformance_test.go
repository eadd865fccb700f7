// Package conformance checks docs/conformance.md against the code. The page says which
// rule of which specification is kept where and what shows it. A name that is wrong there
// is worse than none, so this test refuses
//
//   - a symbol, test or transcript that does not exist;
//   - a rule of a built part without a test, unless the row says so in so many words;
//   - an id that is used twice, out of order, or pointed at and not there;
//   - a folder of transcripts, or a rule of the seed, that no row names.
//
// A row is "| id | rule | source | where | shown by |". Symbols are written as
// directory.Name or directory.Type.Name, tests as directory/TestName, transcripts as
// paths, all of them between backquotes and from the root of the module.
package conformance

import (
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root     = "../.."
	document = "docs/conformance.md"
	// unshown stands where a test should.
	unshown = "not shown by a test"
	// unshownAtMost keeps the rows without a test few. Lower it when you can.
	unshownAtMost = 0
)

// row is one line of a table.
type row struct {
	line    int
	section string
	cells   []string
}

func (r row) id() string { return r.cells[0] }

// built says whether the row is about something that stands: its table has the columns
// where and shown by.
func (r row) built() bool { return len(r.cells) == 5 }

var separatorLine = regexp.MustCompile(`^\|(\s*:?-+:?\s*\|)+$`)

// rows returns the lines of every table without their heads.
func rows(t *testing.T) []row {
	t.Helper()
	raw, err := os.ReadFile(path.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	var found []row
	section, head := "", true
	for i, line := range strings.Split(string(raw), "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			section = strings.TrimPrefix(line, "## ")
		case !strings.HasPrefix(line, "|"):
			head = true
		case separatorLine.MatchString(line):
			head = false
		case !head:
			found = append(found, row{line: i + 1, section: section, cells: cells(line)})
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s has no rows", document)
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

func names(cell string) []string {
	var found []string
	for _, match := range quoted.FindAllStringSubmatch(cell, -1) {
		found = append(found, match[1])
	}
	return found
}

// TestNames refuses rows that name what does not exist.
func TestNames(t *testing.T) {
	module := readModule(t)
	for _, r := range rows(t) {
		if !r.built() {
			continue
		}
		for _, symbol := range names(r.cells[3]) {
			if !module.symbols[symbol] {
				t.Errorf("%s:%d: %s: there is no symbol %s", document, r.line, r.id(), symbol)
			}
		}
		for _, test := range names(r.cells[4]) {
			if !module.tests[test] && !module.transcript(test) {
				t.Errorf("%s:%d: %s: there is no test or transcript %s", document, r.line, r.id(), test)
			}
		}
	}
}

// TestRows refuses rows that are not complete.
func TestRows(t *testing.T) {
	without := 0
	for _, r := range rows(t) {
		complain := func(what string) { t.Errorf("%s:%d: %s: %s", document, r.line, r.id(), what) }
		if slices.Contains(r.cells, "") {
			complain("a cell is empty")
		}
		if !r.built() {
			continue
		}
		if len(names(r.cells[3])) == 0 {
			complain("no symbol keeps the rule")
		}
		switch tests := names(r.cells[4]); {
		case r.cells[4] == unshown:
			without++
		case len(tests) == 0:
			complain(`no test shows it; name one or write "` + unshown + `"`)
		}
	}
	if without > unshownAtMost {
		t.Errorf("%d rows are %s; at most %d may be", without, unshown, unshownAtMost)
	}
}

var (
	idForm    = regexp.MustCompile(`^([A-Z]+[0-9]*)-([1-9][0-9]*)$`)
	reference = regexp.MustCompile(`\b(AS|RS|REG|DOC|PG|ST|MSG|DEV|NEXT|CL)-[0-9]+\b`)
)

// TestIDs wants ids such as AS-12 or B4-1: unique, and counted up within their letters.
func TestIDs(t *testing.T) {
	last := map[string]int{}
	for _, r := range rows(t) {
		parts := idForm.FindStringSubmatch(r.id())
		if parts == nil {
			t.Errorf("%s:%d: %q is not an id such as AS-12", document, r.line, r.id())
			continue
		}
		var number int
		if _, err := fmt.Sscan(parts[2], &number); err != nil {
			t.Fatal(err)
		}
		if number != last[parts[1]]+1 {
			t.Errorf("%s:%d: %s follows %s-%d", document, r.line, r.id(), parts[1], last[parts[1]])
		}
		last[parts[1]] = number
	}
}

// TestReferences refuses a row that points at another one that is not there.
func TestReferences(t *testing.T) {
	known := map[string]bool{}
	for _, r := range rows(t) {
		known[r.id()] = true
	}
	for _, r := range rows(t) {
		for _, id := range reference.FindAllString(strings.Join(r.cells, " "), -1) {
			if !known[id] {
				t.Errorf("%s:%d: %s: there is no %s", document, r.line, r.id(), id)
			}
		}
	}
}

// TestTranscriptsNamed wants every folder of transcripts to be the proof of something.
func TestTranscriptsNamed(t *testing.T) {
	named := map[string]bool{}
	for _, r := range rows(t) {
		if r.built() {
			for _, test := range names(r.cells[4]) {
				named[path.Dir(test)] = true
			}
		}
	}
	for _, folder := range readModule(t).flowFolders() {
		if !named[folder] {
			t.Errorf("%s: no row names a transcript in %s", document, folder)
		}
	}
}

// seedRules counts the rules in each numbered list of the seed's chapter Authentication,
// in the one about HTTP and in the one about _meta.
var seedRules = map[string]int{
	"Applicability": 3, "Required standards": 4, "Discovery": 4, "Client registration": 2,
	"Resource parameter": 5, "Access token use": 7, "Security requirements": 6, "Protocol over HTTP transports": 3, "The `_meta` property": 5,
}

// TestSeedCovered wants every rule of these lists of the seed in some row.
func TestSeedCovered(t *testing.T) {
	var sources []string
	for _, r := range rows(t) {
		sources = append(sources, r.cells[2]+";")
	}
	all := strings.Join(sources, "\n")
	for _, list := range slices.Sorted(maps.Keys(seedRules)) {
		for n := range seedRules[list] {
			if source := fmt.Sprintf("seed %s %d;", list, n+1); !strings.Contains(all, source) {
				t.Errorf("%s: no row has the source %q", document, strings.TrimSuffix(source, ";"))
			}
		}
	}
	for _, status := range []string{"401", "403", "400"} {
		if source := "seed Errors " + status + ";"; !strings.Contains(all, source) {
			t.Errorf("%s: no row has the source %q", document, strings.TrimSuffix(source, ";"))
		}
	}
}
