package main

import (
	"strings"
	"testing"
)

// Whatever is in a file, it is read or refused with sentences that name the file and
// the line. What is not YAML is not quoted: it may be a secret.
func FuzzReadDocument(f *testing.F) {
	for _, seed := range []string{
		"", "issuer: https://auth.example.com", "issuer:\n  - a", "? a\n: b", "a: &x 1\nb: *x", "<<: {issuer: a}", "resources: [{uri: 1}]",
		"resources:\n  - uri: a\n    scopes:\n      notes:read: Read\n", "{", "- a", "issuer: !!binary aGk=", "---\n---\n", "issuer: |\n  a\n  b\n", "\"issuer\": x", "1: 2", "issuer: {}",
		"resources:\n  - introspection:\n      client_secret: hunter22\n      client-secret: hunter22\n",
		"master-keys: \"hunter22", "master-keys: 'hunter22", "- hunter22\nhunter22: *hunter22", "a: {hunter22", "hunter22: hunter22: hunter22", "\thunter22: &",
		"a:\n    > hunter22: hunter22\n", "a: >hunter22\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := readDocument("file.yaml", []byte(text), []string{"issuer", "resources", "dev-resource"})
		var also error
		if d != nil {
			_, also = d.resources()
		} else if err == nil {
			t.Fatal("neither a document nor a mistake")
		}
		for _, err := range []error{err, also} {
			if err == nil {
				continue
			}
			if !strings.HasPrefix(err.Error(), "file.yaml") {
				t.Errorf("%v does not name the file", err)
			}
			if strings.Contains(err.Error(), "not YAML") && strings.Contains(err.Error(), "hunter22") {
				t.Errorf("a value is repeated: %v", err)
			}
		}
	})
}

// A file is read the same however an editor saves it.
func TestReadDocumentOfOtherEditors(t *testing.T) {
	for name, text := range map[string]string{
		"plain":                 "issuer: https://auth.example.com\n",
		"byte order mark":       "\ufeffissuer: https://auth.example.com\n",
		"line ends of Windows":  "\ufeffissuer: https://auth.example.com\r\n",
		"no line end":           "issuer: https://auth.example.com",
		"with a document start": "\ufeff---\nissuer: https://auth.example.com\n",
	} {
		d, err := readDocument("file.yaml", []byte(text), []string{"issuer"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := d.text(d.values["issuer"], "issuer"); got != "https://auth.example.com" {
			t.Errorf("%s: issuer is %q", name, got)
		}
	}
	if _, err := readDocument("file.yaml", []byte("\ufeff\ufeffissuer: x\n"), []string{"issuer"}); err == nil {
		t.Error("two byte order marks are read")
	}
}
