package storage

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// TestEveryFieldOfAClient: a new field of a client is one for appendJSON too.
func TestEveryFieldOfAClient(t *testing.T) {
	var full Client
	fillAll(t, reflect.ValueOf(&full).Elem())
	full.Metadata.JWKS = json.RawMessage(`{"keys": []}`)
	sameClient(t, full)
	for i := range reflect.TypeOf(full).NumField() { // each without the others
		var c Client
		if field := reflect.ValueOf(&c).Elem().Field(i); field.CanSet() {
			field.Set(reflect.ValueOf(full).Field(i))
		}
		sameClient(t, c)
	}
	full.Created = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	if body, err := encodeIn(formSealed, full); err == nil {
		t.Errorf("a year of five digits: %q", body)
	}
}

func sameClient(t *testing.T, c Client) {
	t.Helper()
	want, wrong := json.Marshal(c)
	got, err := c.appendJSON(nil)
	if (err == nil) != (wrong == nil) || err == nil && string(got) != string(want) {
		t.Errorf("%v, %v:\n%s\n%s", err, wrong, got, want)
	}
}

// FuzzClient: whatever a record of a client says, it is written as encoding/json does.
func FuzzClient(f *testing.F) {
	files, err := filepath.Glob("testdata/records-*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds: ", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var records []struct {
			Kind string `json:"kind"`
			Data []byte `json:"data"`
		}
		if err := json.Unmarshal(raw, &records); err != nil {
			f.Fatal(err)
		}
		for _, r := range records {
			header := headerLen
			if r.Data[0] == sealedForm {
				header = sealedLen
			}
			if r.Kind == kindClient {
				f.Add(string(r.Data[header:]))
			}
		}
	}
	f.Fuzz(func(t *testing.T, body string) {
		var c Client
		if json.Unmarshal([]byte(body), &c) == nil {
			sameClient(t, c)
		}
	})
}
