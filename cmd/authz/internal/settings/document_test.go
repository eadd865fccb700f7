package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file is read the same however an editor saves it.
func TestReadDocumentOfOtherEditors(t *testing.T) {
	for name, text := range map[string]string{
		"plain":                 "issuer: https://auth.example.com\n",
		"byte order mark":       "\ufeffissuer: https://auth.example.com\n",
		"line ends of Windows":  "\ufeffissuer: https://auth.example.com\r\n",
		"no line end":           "issuer: https://auth.example.com",
		"with a document start": "\ufeff---\nissuer: https://auth.example.com\n",
	} {
		d, err := ReadDocument("file.yaml", []byte(text), []string{"issuer"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := d.Text(d.Values["issuer"], "issuer"); got != "https://auth.example.com" {
			t.Errorf("%s: issuer is %q", name, got)
		}
	}
	if _, err := ReadDocument("file.yaml", []byte("\ufeff\ufeffissuer: x\n"), []string{"issuer"}); err == nil {
		t.Error("two byte order marks are read")
	}
}

// TestSyntaxErrors: a syntax error has the line and the sentence of the parser, whole where it quotes
// single characters, and without quotations that may be a secret.
func TestSyntaxErrors(t *testing.T) {
	for text, want := range map[string]string{
		"a: x\nb: [1\n":               "f.yaml:2: this is not YAML: sequence end token ']' not found",
		"a: [1, 2\nb: c\n":            "f.yaml:2: this is not YAML: ',' or ']' must be specified",
		"a: {b: c\n":                  "f.yaml:1: this is not YAML: could not find flow mapping end token '}'",
		"a: x\n\tb: c\n":              `f.yaml:2: this is not YAML: found character '\t' that cannot start any token`,
		"a: \"hunter22\n":             "f.yaml:1: this is not YAML: could not find end character of double-quoted text",
		"%YAML hunter22\n---\na: x\n": "f.yaml:1: this is not YAML: unknown YAML version",
	} {
		_, err := ReadDocument("f.yaml", []byte(text), []string{"a", "b"})
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v\n want %s", text, err, want)
		}
	}
}

// TestLengthOfSecrets: one that is too short is a mistake, one that is shorter than recommended a doubt,
// and none is neither.
func TestLengthOfSecrets(t *testing.T) {
	for n, want := range map[int][2]int{0: {0, 0}, 15: {1, 0}, 16: {0, 1}, 31: {0, 1}, 32: {0, 0}} {
		d := &Document{}
		secret := strings.Repeat("\u20ac", n)
		if got := d.checkSecret(1, "client_secret", secret); got != secret || d.Failures() != want[0] || len(d.Doubts) != want[1] {
			t.Errorf("%d characters: %d mistakes, %q", n, d.Failures(), d.Doubts)
		}
	}
}

// TestReadJSON: a YAML file has the values of its JSON, and what JSON cannot express is a mistake with
// its line, not another value.
func TestReadJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, want := range map[string]string{
		"":                                   "{}",
		"# nothing\n":                        "{}",
		"a: [1, 2.5, true, no, null, '1']\n": `{"a":[1,2.5,true,"no",null,"1"]}`,
		"a:\n  b: x\n  c: {}\nd: |\n  two\n  lines\n": `{"a":{"b":"x","c":{}},"d":"two\nlines\n"}`,
		"a: " + deep(32):     `{"a":` + deep(32) + `}`,
		"a: " + deep(33):     "f.yaml:1: values are nested more than 32 deep",
		"a:\nb: .inf\n":      "f.yaml:2: ",
		"a: .nan\n":          "f.yaml:1: ",
		"a: &x 1\nb: *x\n":   "f.yaml:1: anchors, aliases and tags are not supported",
		"a: 1\nb: 2\na: 3\n": "f.yaml:3: a is set twice, the first time in line 1",
		"a: [\n":             "f.yaml:",
	} {
		got, err := ReadJSON("f.yaml", []byte(text))
		if strings.HasPrefix(want, "f.yaml") {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q: %v, want %s", text, err, want)
			}
			continue
		}
		if err != nil || string(got) != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestJSONFile: the file that a key names is JSON, or a mistake at the line of the key.
func TestJSONFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"good": `{"keys":[]}`, "bad": "keys: []", "large": `"` + strings.Repeat("x", 1<<16) + `"`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"good": "", "bad": "bad is not JSON", "none": "none: no such file", "large": "large"} {
		d, err := ReadDocument("f.yaml", []byte("\njwks-file: "+filepath.Join(dir, name)+"\n"), []string{"jwks-file"})
		if err != nil {
			t.Fatal(err)
		}
		text := d.JSONFile(d.Values["jwks-file"], "jwks-file")
		switch err := d.Mistakes(); {
		case want == "":
			if err != nil || string(text) != `{"keys":[]}` {
				t.Errorf("%s: %s, %v", name, text, err)
			}
		case err == nil || !strings.HasPrefix(err.Error(), "f.yaml:2: jwks-file: ") || !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v", name, err)
		}
	}
}
