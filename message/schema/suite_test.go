package schema_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.example/message/schema"
)

// suite is the part of the official test suite of JSON Schema that is in a module on which the
// official SDK depends.
const suite = "github.com/google/jsonschema-go"

// group is one schema of the suite with its values.
type group struct {
	Description string
	Schema      json.RawMessage
	Tests       []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

// TestSuite runs the official suite. Schemas with references to other documents must be refused;
// all others must have the results of the suite.
func TestSuite(t *testing.T) {
	dir := filepath.Join(module(t, suite), "jsonschema", "testdata")
	for folder, dialect := range map[string]string{"draft2020-12": schema.DefaultDialect, "draft7": "http://json-schema.org/draft-07/schema#"} {
		files, err := filepath.Glob(filepath.Join(dir, folder, "*.json"))
		if err != nil || len(files) < 30 {
			t.Fatalf("%d files in %s: %v", len(files), folder, err)
		}
		ran := 0
		for _, file := range files {
			ran += runFile(t, file, dialect)
		}
		t.Logf("%s: %d tests", folder, ran)
		if ran < 850 {
			t.Errorf("%s: %d tests only", folder, ran)
		}
	}
}

// module returns the source directory of a module in go.mod.
func module(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", name).Output()
	if err != nil {
		t.Fatalf("go mod download %s: %v", name, err)
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(out, &m); err != nil || m.Dir == "" {
		t.Fatalf("go mod download %s: %s, %v", name, out, err)
	}
	return m.Dir
}

func runFile(t *testing.T, file, dialect string) (ran int) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var groups []group
	if err := json.Unmarshal(raw, &groups); err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		name := filepath.Base(file) + ": " + g.Description
		s, err := schema.Compile(declare(t, g.Schema, dialect), schema.Options{})
		if reason := refusedInSuite(filepath.Base(file), g.Schema); reason != nil {
			if !errors.Is(err, reason) {
				t.Errorf("%s: %v, want %v", name, err, reason)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, test := range g.Tests {
			ran++
			err := s.Validate(t.Context(), test.Data)
			var invalid *schema.InvalidError
			if test.Valid != (err == nil) || !test.Valid && !errors.As(err, &invalid) {
				t.Errorf("%s: %s: %v, want valid %t", name, test.Description, err, test.Valid)
			}
		}
	}
	return ran
}

// declare adds the dialect to a schema without one: the suite has a folder for each dialect.
func declare(t *testing.T, raw json.RawMessage, dialect string) []byte {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members["$schema"] != nil {
		return raw // true, false, or declared
	}
	members["$schema"], _ = json.Marshal(dialect)
	out, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// refusedInSuite returns why this package refuses a schema of the suite, or nil.
func refusedInSuite(file string, raw json.RawMessage) error {
	outside := strings.Contains(string(raw), `"http://localhost:1234/draft`)
	if file == "refRemote.json" || file == "dynamicRef.json" && outside {
		return schema.ErrReference
	}
	return nil
}
