package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutside makes a module of this program and its test in another folder, and runs it there:
// another module cannot import internal packages. It needs only the modules that this module
// needs, and no network.
func TestOutside(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	module := t.TempDir()
	copyTo := func(name, from string, change func(string) string) {
		t.Helper()
		content, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(module, name), []byte(change(string(content))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	same := func(s string) string { return s }
	copyTo("main.go", "main.go", same)
	copyTo("main_test.go", "main_test.go", same)
	copyTo("go.sum", filepath.Join(root, "go.sum"), same)
	copyTo("go.mod", filepath.Join(root, "go.mod"), func(module string) string { // the same versions of what we import
		return strings.Replace(module, "module gatehouse.example\n", "module embedder.example\n", 1) +
			"\nrequire gatehouse.example v0.0.0\n\nreplace gatehouse.example => " + root + "\n"
	})
	command := exec.CommandContext(t.Context(), "go", "test", "-count=1", ".")
	command.Dir = module
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "GOTOOLCHAIN=local")
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("a module outside cannot embed the server: %v\n%s", err, out)
	}
}
