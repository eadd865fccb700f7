package deptest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.example/internal/deptest"
)

// complaints is a test that writes down what it is told.
type complaints struct {
	testing.TB
	told []string
}

func (c *complaints) Helper() {}
func (c *complaints) Errorf(format string, args ...any) {
	c.told = append(c.told, fmt.Sprintf(format, args...))
}

func TestCheck(t *testing.T) {
	const ours, theirs = "gatehouse.example/metadata", "github.com/example/library"
	for name, test := range map[string]struct {
		file, path string
		rule       deptest.Rule
		want       bool
	}{
		"the standard library":       {"a.go", "net/http", deptest.Rule{}, true},
		"testing":                    {"a.go", "testing", deptest.Rule{}, false},
		"httptest":                   {"a.go", "net/http/httptest", deptest.Rule{}, false},
		"testing, for tests":         {"a.go", "testing", deptest.Rule{ForTests: true}, true},
		"testing in a test":          {"a_test.go", "testing", deptest.Rule{}, true},
		"ours":                       {"a.go", ours, deptest.Rule{}, false},
		"ours, allowed":              {"a.go", ours, deptest.Rule{Allowed: []string{ours}}, true},
		"below one that is allowed":  {"a.go", theirs + "/v4", deptest.Rule{Allowed: []string{theirs}}, false},
		"below, allowed":             {"a.go", theirs + "/v4", deptest.Rule{Allowed: []string{theirs + "/..."}}, true},
		"itself, with what is below": {"a.go", theirs, deptest.Rule{Allowed: []string{theirs + "/..."}}, true},
		"one with that beginning":    {"a.go", theirs + "-fork", deptest.Rule{Allowed: []string{theirs + "/..."}}, false},
		"in the one file":            {"a.go", theirs, deptest.Rule{OnlyIn: map[string]string{theirs: "a.go"}}, true},
		"in another file":            {"b.go", theirs, deptest.Rule{OnlyIn: map[string]string{theirs: "a.go"}}, false},
		"in a test that is free":     {"a_test.go", theirs, deptest.Rule{}, true},
		"in a test that is not":      {"a_test.go", theirs, deptest.Rule{InTests: []string{}}, false},
		"in a test, allowed":         {"a_test.go", theirs, deptest.Rule{InTests: []string{theirs}}, true},
		"allowed in tests only":      {"a.go", theirs, deptest.Rule{InTests: []string{theirs}}, false},
		"the check itself":           {"a_test.go", "gatehouse.example/internal/deptest", deptest.Rule{InTests: []string{}}, true},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, test.file), []byte("package a\n\nimport _ \""+test.path+"\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c := &complaints{TB: t}
		deptest.Check(c, dir, test.rule)
		if (len(c.told) == 0) != test.want || len(c.told) > 0 && !strings.Contains(c.told[0], test.path) {
			t.Errorf("%s: %q, want it allowed: %t", name, c.told, test.want)
		}
	}
}
