package doctor_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/doctor"
)

var update = flag.Bool("update", false, "write docs/doctor.md anew")

const (
	page  = "../docs/doctor.md"
	begin = "<!-- The rest is made from the catalogue: go test ./doctor -run TestPage -update -->\n"
)

// TestPage expects docs/doctor.md to be what the catalogue says.
func TestPage(t *testing.T) {
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(got), begin)
	if !found {
		t.Fatalf("%s has no line %q", page, begin)
	}
	want := head + begin + sections()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(got) != want {
		t.Errorf("%s differs from the catalogue: go test ./doctor -run TestPage -update", page)
	}
}

// sections writes the index of symptoms, and a section for each check.
func sections() string {
	var out strings.Builder
	out.WriteString("\n## What people see\n\n| symptom | finding |\n|---|---|\n")
	symptoms := map[string][]string{}
	for _, e := range doctor.Catalogue() {
		for _, s := range e.Symptoms {
			symptoms[s] = append(symptoms[s], fmt.Sprintf("[`%s`](#%s)", e.ID, e.ID))
		}
	}
	for _, s := range slices.SortedFunc(maps.Keys(symptoms), func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }) {
		fmt.Fprintf(&out, "| %s | %s |\n", cell(s), strings.Join(symptoms[s], ", "))
	}
	out.WriteString("\n## Findings\n")
	for _, e := range doctor.Catalogue() {
		fmt.Fprintf(&out, "\n### %s\n\n%s. (%s; %s)\n\n%s\n", e.ID, cell(e.Title), e.Severity, e.Rule, cell(e.Mend))
		for _, name := range slices.Sorted(maps.Keys(e.Mends)) {
			fmt.Fprintf(&out, "\n- *%s*: %s\n", name, cell(e.Mends[name]))
		}
		if len(e.Clients) > 0 {
			fmt.Fprintf(&out, "\nCan stop %s.\n", strings.Join(e.Clients, ", "))
		}
	}
	return out.String()
}

// cell escapes what has a meaning in Markdown.
func cell(text string) string {
	return strings.NewReplacer("<", "&lt;", "|", "\\|", "*", "\\*", "_", "\\_").Replace(text)
}

// TestCatalogue expects complete entries with ids of their own, and clients that exist.
func TestCatalogue(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range doctor.Catalogue() {
		if seen[e.ID] {
			t.Errorf("%s exists twice", e.ID)
		}
		seen[e.ID] = true
		if e.Rule == "" || e.Title == "" || e.Mend == "" || len(e.Symptoms) == 0 {
			t.Errorf("%s is not complete", e.ID)
		}
		if strings.Trim(e.ID, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Errorf("%s is not a name for a link", e.ID)
		}
		for _, c := range e.Clients {
			if !slices.Contains(doctor.Clients(), c) {
				t.Errorf("%s stops %s, which is not a client", e.ID, c)
			}
		}
	}
}
