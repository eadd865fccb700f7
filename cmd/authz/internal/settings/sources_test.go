package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// testSettings are the settings of a command.
type testSettings struct {
	Config    string
	Name      string `default:"default"`
	Hosts     []string
	Token     Secret
	TokenFile string
}

// filled returns the settings from a command line, an environment and a file, with their
// origins.
func filled(t *testing.T, args, environ []string, file string) (testSettings, map[string]Origin, error) {
	t.Helper()
	var s testSettings
	parser, err := kong.New(&s)
	if err != nil {
		t.Fatal(err)
	}
	if file != "" {
		args = append(args, "--config", saved(t, "settings.yaml", file))
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		t.Fatal(err)
	}
	sources, err := FindSources(parsed.Path, parser.Model.Flags, NewEnvironment(environ), FileKeys(parser.Model.Flags))
	if sources == nil {
		return s, nil, err
	}
	origins, also := sources.Fill(parser.Model.Flags)
	if err == nil {
		err = also
	}
	return s, origins, err
}

func saved(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPrecedence: a flag beats the environment, the environment beats the file, the file beats
// the default, and the origin of each value is right.
func TestPrecedence(t *testing.T) {
	flag, environ, file := []string{"--name", "flag"}, []string{"AUTHZ_NAME=environment", "NAME=other"}, "name: file\n"
	for _, tt := range []struct {
		args, environ []string
		file          string
		want          string
		from          Rank
	}{
		{flag, environ, file, "flag", ByFlag},
		{nil, environ, file, "environment", ByEnvironment},
		{nil, []string{"AUTHZ_NAME="}, file, "file", ByFile}, // set to nothing is not set
		{nil, nil, "hosts: a\n", "default", ByDefault},
		{nil, nil, "", "default", ByDefault},
	} {
		s, origins, err := filled(t, tt.args, tt.environ, tt.file)
		if err != nil || s.Name != tt.want || origins["name"].Rank != tt.from {
			t.Errorf("%v %v %q: %q from %+v, %v", tt.args, tt.environ, tt.file, s.Name, origins["name"], err)
		}
	}
}

// TestLists: several values are a list in the file, and separated by commas in the environment.
func TestLists(t *testing.T) {
	for _, tt := range []struct {
		environ []string
		file    string
	}{{[]string{"AUTHZ_HOSTS=a, b"}, ""}, {nil, "hosts: [a, b]\n"}, {nil, "hosts:\n  - a\n  - b\n"}} {
		if s, _, err := filled(t, nil, tt.environ, tt.file); err != nil || fmt.Sprint(s.Hosts) != "[a b]" {
			t.Errorf("%v %q: %q, %v", tt.environ, tt.file, s.Hosts, err)
		}
	}
}

// TestSecretFiles: a secret is read from the file that its twin names, unless a stronger source
// has the secret itself; both in one source contradict each other.
func TestSecretFiles(t *testing.T) {
	file := saved(t, "token", "from a file\n")
	for _, tt := range []struct {
		args, environ []string
		want          Secret
		mistake       string
	}{
		{nil, []string{"AUTHZ_TOKEN_FILE=" + file}, "from a file", ""},
		{[]string{"--token", "itself"}, []string{"AUTHZ_TOKEN_FILE=" + file}, "itself", ""},
		{[]string{"--token-file", file}, []string{"AUTHZ_TOKEN=itself"}, "from a file", ""},
		{nil, []string{"AUTHZ_TOKEN=itself", "AUTHZ_TOKEN_FILE=" + file}, "itself", "keep one"},
		{nil, []string{"AUTHZ_TOKEN_FILE=" + saved(t, "empty", "\n")}, "", "is empty"},
	} {
		s, _, err := filled(t, tt.args, tt.environ, "")
		if s.Token != tt.want || (err != nil) != (tt.mistake != "") || err != nil && !strings.Contains(err.Error(), tt.mistake) {
			t.Errorf("%v %v: %q, %v", tt.args, tt.environ, string(s.Token), err)
		}
	}
}

// TestUnder: a section is a document of its own, and its mistakes name the line of the file.
func TestUnder(t *testing.T) {
	d, err := ReadDocument("settings.yaml", []byte("name: x\nregistry:\n  title: Servers\n  titel: x\n"), []string{"name", "registry"})
	if err != nil {
		t.Fatal(err)
	}
	section := d.Under("registry", []string{"title"})
	if got := section.Text(section.Values["title"], "title"); got != "Servers" || len(section.Values) != 1 {
		t.Errorf("title is %q in %v", got, section.Values)
	}
	if err := section.Mistakes(); err == nil || !strings.Contains(err.Error(), `settings.yaml:4: unknown key "titel"`) {
		t.Errorf("the mistake is %v", err)
	}
	for _, empty := range []*Document{d.Under("name of nothing", nil), (*Document)(nil).Under("registry", nil)} {
		if len(empty.Values) != 0 || empty.Mistakes() != nil {
			t.Errorf("%+v is not empty", empty)
		}
	}
}

// TestFields: fields without a value, in braces, and with keys that are not strings.
func TestFields(t *testing.T) {
	d, err := ReadDocument("settings.yaml", []byte("a:\nb: {}\nc: {x: y}\nd:\n  x: y\n  1: z\n"), []string{"a", "b", "c", "d"})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"a": "true false false []", "b": "false true false []", "c": "false true true [x]", "d": "false false true [x]"} {
		f := d.Values[key]
		keys := []string{}
		for _, entry := range f.Entries() {
			keys = append(keys, entry.Key)
		}
		braced, isFilled := f.Braced()
		if got := fmt.Sprint(f.Null(), braced, isFilled, keys); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}
