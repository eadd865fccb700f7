// Package conformance checks the pages in docs/conformance against the code and against
// docs/requirements.md. The pages state for each rule of a specification the code that
// fulfils it and the tests that show it. The tests of this package refuse
//
//   - a symbol, test or transcript that does not exist;
//   - a rule of an existing part without a test, unless the row states that;
//   - a rule that is too long, and a deviation without a reason;
//   - an id that is used twice, out of order, or referred to without a row;
//   - a folder of transcripts that no row names;
//   - a requirement that no row names, and an id of a requirement that does not exist.
//
// A row is "| id | rule | source | where | shown by |". Symbols are written as
// directory.Name or directory.Type.Name, tests as directory/TestName, transcripts as
// paths, all of them between backquotes and from the root of the module.
package conformance

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// unshown stands in place of a test.
	unshown = "not shown by a test"
	// unshownAtMost bounds the number of rows without a test. Lower it when you can.
	unshownAtMost = 0
	// ruleAtMost is the length of a rule in characters.
	ruleAtMost = 225
)

// TestNames refuses rows that name what does not exist.
func TestNames(t *testing.T) {
	module := readModule(t)
	for _, r := range rows(t) {
		if !r.built() {
			continue
		}
		for _, symbol := range names(r.cells[3]) {
			if !module.symbols[symbol] {
				r.errorf(t, "there is no symbol %s", symbol)
			}
		}
		for _, test := range names(r.cells[4]) {
			if !module.tests[test] && !module.transcript(test) {
				r.errorf(t, "there is no test or transcript %s", test)
			}
		}
	}
}

// TestRows refuses rows that are incomplete or too long.
func TestRows(t *testing.T) {
	without := 0
	for _, r := range rows(t) {
		if slices.Contains(r.cells, "") {
			r.errorf(t, "a cell is empty")
		}
		if length := utf8.RuneCountInString(r.cells[1]); length > ruleAtMost {
			r.errorf(t, "the rule has %d characters, at most %d are allowed", length, ruleAtMost)
		}
		if !r.built() {
			continue
		}
		if len(names(r.cells[3])) == 0 {
			r.errorf(t, "it names no symbol")
		}
		switch tests := names(r.cells[4]); {
		case r.cells[4] == unshown:
			without++
		case len(tests) == 0:
			r.errorf(t, "it names no test; name one or write %q", unshown)
		}
	}
	if without > unshownAtMost {
		t.Errorf("%d rows are %s; at most %d may be", without, unshown, unshownAtMost)
	}
}

var idForm = regexp.MustCompile(`^([A-Z]+[0-9]*)-([1-9][0-9]*)$`)

// TestIDs requires ids such as AS-12 or B4-1 that are unique and count up within their letters,
// over all pages in the order of the index.
func TestIDs(t *testing.T) {
	last := map[string]int{}
	for _, r := range rows(t) {
		parts := idForm.FindStringSubmatch(r.id())
		if parts == nil {
			r.errorf(t, "it is not an id such as AS-12")
			continue
		}
		countUp(t, r, last, parts[1], parts[2])
	}
}

// countUp refuses a row whose number does not follow the last one of its letters.
func countUp(t *testing.T, r row, last map[string]int, letters, digits string) {
	t.Helper()
	var number int
	if _, err := fmt.Sscan(digits, &number); err != nil {
		t.Fatal(err)
	}
	if number != last[letters]+1 {
		r.errorf(t, "it follows %s-%d", letters, last[letters])
	}
	last[letters] = number
}

var reference = regexp.MustCompile(`\b(R-)?([A-Z]+[0-9]*)-[0-9]+\b`)

// TestReferences refuses references to rows that do not exist.
func TestReferences(t *testing.T) {
	known, letters := map[string]bool{}, map[string]bool{}
	for _, r := range rows(t) {
		known[r.id()] = true
		letters[idForm.ReplaceAllString(r.id(), "$1")] = true
	}
	for _, page := range append(pages(t), index, requirements) {
		for _, match := range reference.FindAllStringSubmatch(read(t, page), -1) {
			if match[1] == "" && letters[match[2]] && !known[match[0]] {
				t.Errorf("%s: there is no row %s", page, match[0])
			}
		}
	}
}

var reasonLine = regexp.MustCompile(`(?m)^- \*\*([^*]+)\*\* \S`)

// TestReasons requires one reason for each deviation, in the order of the rows.
func TestReasons(t *testing.T) {
	text := read(t, deviations)
	var reasons, wanted []string
	for _, match := range reasonLine.FindAllStringSubmatch(text, -1) {
		reasons = append(reasons, match[1])
	}
	for _, r := range rowsOf(deviations, text) {
		wanted = append(wanted, r.id())
	}
	if !slices.Equal(reasons, wanted) {
		t.Errorf("%s has reasons for\n%s\nand rows\n%s", deviations, strings.Join(reasons, " "), strings.Join(wanted, " "))
	}
}

// TestTranscriptsNamed requires that some row names a transcript of every folder.
func TestTranscriptsNamed(t *testing.T) {
	named := map[string]bool{}
	for _, r := range rows(t) {
		if r.built() {
			for _, test := range names(r.cells[4]) {
				named[path.Dir(test)] = true
			}
		}
	}
	for _, flows := range readModule(t).flowFolders() {
		if !named[flows] {
			t.Errorf("%s: no row names a transcript in %s", folder, flows)
		}
	}
}
