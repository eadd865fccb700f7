package language_test

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

// sources returns the files of the module that may say sentences: pages, and Go files without
// tests.
func sources(t *testing.T) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("../.."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "testdata"):
			return fs.SkipDir
		case path.Ext(name) == ".html" && strings.HasPrefix(name, "templates/pages/"),
			path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go"):
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func readFile(root fs.FS, name string) (string, error) {
	b, err := fs.ReadFile(root, name)
	return string(b), err
}
