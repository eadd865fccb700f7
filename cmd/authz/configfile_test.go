package main

import (
	"strings"
	"testing"

	"gatehouse.example/cmd/authz/internal/settings"
)

// Any file is read, or refused with errors that name the file and the line. Text that is not YAML
// is not quoted, because it may be a secret.
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
		d, err := settings.ReadDocument("file.yaml", []byte(text), []string{"issuer", "resources", "dev-resource"})
		var also error
		if d != nil {
			_, also = resourcesIn(d)
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
