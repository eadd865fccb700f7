package conformance

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notOurs stands before the reason why no row names a requirement. Cells are trimmed, so a
// text follows.
const notOurs = "Not ours: "

var (
	requirementForm = regexp.MustCompile(`^(R-[A-Z]+)-([1-9][0-9]*)$`)
	requirementName = regexp.MustCompile(`\bR-[A-Z]+-[0-9]+\b`)
)

// requirementRows returns the rows of docs/requirements.md that have the id of a requirement.
func requirementRows(t *testing.T) []row {
	t.Helper()
	all := rowsOf(requirements, read(t, requirements))
	found := slices.DeleteFunc(all, func(r row) bool { return !strings.HasPrefix(r.id(), "R-") })
	if len(found) == 0 {
		t.Fatalf("%s has no requirements", requirements)
	}
	return found
}

// TestRequirements requires ids such as R-SEC-3 that are unique and count up within their
// letters, with a rule each.
func TestRequirements(t *testing.T) {
	last := map[string]int{}
	for _, r := range requirementRows(t) {
		parts := requirementForm.FindStringSubmatch(r.id())
		if parts == nil || len(r.cells) != 2 || r.cells[1] == "" {
			r.errorf(t, "it is not an id such as R-SEC-3 with a rule")
			continue
		}
		countUp(t, r, last, parts[1], parts[2])
	}
}

// TestRequirementsNamed requires that some row has each requirement as its source, unless the
// requirement is not ours.
func TestRequirementsNamed(t *testing.T) {
	named := map[string]bool{}
	for _, r := range rows(t) {
		for _, id := range requirementName.FindAllString(r.cells[2], -1) {
			named[id] = true
		}
	}
	for _, r := range requirementRows(t) {
		if exempt := strings.Contains(r.cells[1], notOurs); exempt == named[r.id()] {
			r.errorf(t, "either some row has it as source, or it has %q and a reason", notOurs)
		}
	}
}

// TestRequirementsExist refuses ids of requirements that do not exist, in every text file of
// the module.
func TestRequirementsExist(t *testing.T) {
	known := map[string]bool{}
	for _, r := range requirementRows(t) {
		known[r.id()] = true
	}
	for _, name := range readModule(t).texts {
		for _, id := range requirementName.FindAllString(read(t, name), -1) {
			if !known[id] {
				t.Errorf("%s: %s has no %s", name, requirements, id)
			}
		}
	}
}
