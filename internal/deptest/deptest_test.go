package deptest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.example/internal/deptest"
)

func TestDeps(t *testing.T) { deptest.CheckTests(t) }

// recorder is a test that keeps its errors.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper()           {}
func (r *recorder) Error(args ...any) { r.errors = append(r.errors, fmt.Sprint(args...)) }

// TestCheck writes a module of one package, with a row for it, and one file that imports one
// path.
func TestCheck(t *testing.T) {
	const ours, theirs, row = "example.com/m/metadata", "github.com/example/library", "| `a` | the package | `metadata` | %s |"
	free, held := func(t testing.TB) { deptest.Check(t) }, func(t testing.TB) { deptest.CheckTests(t, "example.com/m/kit/...") }
	for name, test := range map[string]struct {
		file, path, others string
		check              func(testing.TB)
		want               bool
	}{
		"the standard library":       {"a.go", "net/http", "none", free, true},
		"testing":                    {"a.go", "testing", "none", free, false},
		"httptest":                   {"a.go", "net/http/httptest", "`testing`", free, false},
		"testing, for tests":         {"a.go", "testing", "`testing`", free, true},
		"testing in a test":          {"a_test.go", "testing", "none", held, true},
		"ours, in the row":           {"a.go", ours, "none", free, true},
		"ours, in the wrong cell":    {"a.go", "example.com/m/storage", "`example.com/m/storage`", free, false},
		"ours, not in the row":       {"a.go", "example.com/m/storage", "none", free, false},
		"another, everything":        {"a.go", theirs, "everything", free, true},
		"below one that is allowed":  {"a.go", theirs + "/v4", "`" + theirs + "`", free, false},
		"below, allowed":             {"a.go", theirs + "/v4", "`" + theirs + "/...`", free, true},
		"itself, with what is below": {"a.go", theirs, "`" + theirs + "/...`", free, true},
		"one with that beginning":    {"a.go", theirs + "-fork", "`" + theirs + "/...`", free, false},
		"in the one file":            {"a.go", theirs, "`" + theirs + "` in `a.go`", free, true},
		"in another file":            {"b.go", theirs, "`" + theirs + "` in `a.go`", free, false},
		"in a test that is free":     {"a_test.go", theirs, "none", free, true},
		"in a test that is held":     {"a_test.go", theirs, "none", held, false},
		"in the row, in a held test": {"a_test.go", theirs, "`" + theirs + "`", held, true},
		"allowed in held tests":      {"a_test.go", "example.com/m/kit/below", "none", held, true},
		"allowed in tests only":      {"a.go", "example.com/m/kit", "none", held, false},
		"the package itself":         {"a_test.go", "example.com/m/a", "none", held, true},
		"the check itself":           {"a_test.go", "example.com/m/internal/deptest", "none", held, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(module(t, fmt.Sprintf(row, test.others), test.file, test.path))
			r := &recorder{TB: t}
			test.check(r)
			if (len(r.errors) == 0) != test.want || len(r.errors) > 0 && !strings.Contains(r.errors[0], test.path) {
				t.Errorf("%q, want it allowed: %t", r.errors, test.want)
			}
		})
	}
}

// module returns the folder of the package.
func module(t *testing.T, row, file, imported string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module example.com/m\n",
		"docs/design.md": "## The house\n\n| package | what | ours | others |\n|---|---|---|---|\n" + row + "\n",
		"a/" + file:      "package a\n\nimport _ \"" + imported + "\"\n",
	} {
		full := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(root, "a")
}
