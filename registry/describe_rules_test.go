package registry_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/registry"
)

// TestOneDescription: ParseRecord and the served schema agree on each of these records, the
// valid ones and those that break a rule.
func TestOneDescription(t *testing.T) {
	input := func(members object) object {
		in := object{"name": "KEY"}
		for name, value := range members {
			in[name] = value
		}
		return object{"remotes": []any{object{"type": "sse", "url": "https://example.com", "headers": []any{in}}}}
	}
	pack := func(members object) object {
		p := object{"registryType": "example", "identifier": "notes", "transport": object{"type": "stdio"}}
		for name, value := range members {
			if p[name] = value; value == nil {
				delete(p, name)
			}
		}
		return object{"packages": []any{p}}
	}
	argument := func(members object) object { return pack(object{"packageArguments": []any{members}}) }
	remote := func(members object) object { return object{"remotes": []any{members}} }
	icon := func(members object) object { return object{"icons": []any{members}} }
	long := strings.Repeat("x", 101)
	for what, test := range map[string]struct {
		in    object
		valid bool
	}{
		"least":                           {nil, true},
		"no name":                         {object{"name": nil}, false},
		"no description":                  {object{"description": nil}, false},
		"no version":                      {object{"version": nil}, false},
		"a short name":                    {object{"name": "a/"}, false},
		"a name without a slash":          {object{"name": "notes"}, false},
		"a name of 201":                   {object{"name": "a/" + strings.Repeat("b", 199)}, false},
		"a long description":              {object{"description": long}, false},
		"an empty title":                  {object{"title": ""}, false},
		"a long title":                    {object{"title": long}, false},
		"a version of 256":                {object{"version": strings.Repeat("1", 256)}, false},
		"a repository without a source":   {object{"repository": object{"url": "https://example.com/r"}}, false},
		"a repository":                    {object{"repository": object{"url": "https://example.com/r", "source": "example", "id": "1", "subfolder": "a"}}, true},
		"_meta":                           {object{"_meta": object{registry.MetaPublisher: object{}}}, true},
		"_meta, no object":                {object{"_meta": 1}, false},
		"a publisher's word, no object":   {object{"_meta": object{registry.MetaPublisher: 1}}, false},
		"an icon":                         {icon(object{"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": []any{"48x48", "any"}, "theme": "dark"}), true},
		"an icon without a source":        {icon(object{"theme": "dark"}), false},
		"an icon in another theme":        {icon(object{"src": "https://example.com/i.png", "theme": "blue"}), false},
		"an icon of another type":         {icon(object{"src": "https://example.com/i.gif", "mimeType": "image/gif"}), false},
		"an icon of a size":               {icon(object{"src": "https://example.com/i.png", "sizes": []any{"48"}}), false},
		"an icon far away":                {icon(object{"src": "https://example.com/" + strings.Repeat("i", 240)}), false},
		"a remote":                        {remote(object{"type": "streamable-http", "url": "https://{tenant}.example.com/mcp", "variables": object{"tenant": object{"isRequired": true}}}), true},
		"a remote over stdio":             {remote(object{"type": "stdio"}), false},
		"a remote without a place":        {remote(object{"type": "sse"}), false},
		"a remote at a variable":          {remote(object{"type": "sse", "url": "{base}/sse"}), false},
		"a remote over ftp":               {remote(object{"type": "sse", "url": "ftp://example.com"}), false},
		"a variable that is no object":    {remote(object{"type": "sse", "url": "https://{a}.example.com", "variables": object{"a": 1}}), false},
		"an input":                        {input(object{"description": "d", "isRequired": true, "isSecret": false, "format": "filepath", "value": "v", "default": "d", "placeholder": "p", "choices": []any{"a"}, "variables": object{"v": object{}}}), true},
		"an input of another format":      {input(object{"format": "date"}), false},
		"an input with a choice":          {input(object{"choices": "a"}), false},
		"an input that is yes":            {input(object{"isSecret": "yes"}), false},
		"an input without a name":         {input(object{"name": 1}), false},
		"a package":                       {pack(object{"version": "1.0.0", "fileSha256": strings.Repeat("0a", 32), "runtimeHint": "example"}), true},
		"a package, latest":               {pack(object{"version": "latest"}), false},
		"a package without a version":     {pack(object{"version": ""}), false},
		"a package without a type":        {pack(object{"registryType": nil}), false},
		"a package without an identifier": {pack(object{"identifier": nil}), false},
		"a package without a transport":   {pack(object{"transport": nil}), false},
		"a package by sse":                {pack(object{"transport": object{"type": "sse", "url": "http://127.0.0.1:8080/sse"}}), true},
		"a package by mail":               {pack(object{"transport": object{"type": "mail"}}), false},
		"a package with a wrong digest":   {pack(object{"fileSha256": strings.Repeat("0A", 32)}), false},
		"a positional argument":           {argument(object{"type": "positional", "valueHint": "file", "isRepeated": true}), true},
		"a positional argument, a value":  {argument(object{"type": "positional", "value": "x"}), true},
		"a positional argument, nothing":  {argument(object{"type": "positional"}), false},
		"a named argument":                {argument(object{"type": "named", "name": "--file"}), true},
		"a named argument without a name": {argument(object{"type": "named", "value": "x"}), false},
		"an argument of another type":     {argument(object{"type": "flag", "name": "--x"}), false},
	} {
		record := minimal(test.in)
		_, err := registry.ParseRecord(record)
		valid := described(t, "record").Validate(t.Context(), record)
		if (err == nil) != test.valid || (valid == nil) != test.valid {
			t.Errorf("%s: read with %v, described as %v; want %t", what, err, valid, test.valid)
		}
	}
	official := func(text string) []byte {
		return []byte(`{"server":` + string(minimal(nil)) + `,"_meta":{"` + registry.MetaOfficial + `":` + text + `}}`)
	}
	for text, want := range map[string]bool{
		`{"status":"active","statusMessage":"x","publishedAt":"2025-10-01T12:30:00Z","updatedAt":"2025-10-01T12:30:00Z","statusChangedAt":"2025-10-01T12:30:00Z","isLatest":true}`: true,
		`{}`: true, `{"status":"archived"}`: false, `{"isLatest":"yes"}`: false, `{"more":1}`: false, `{"statusMessage":"` + strings.Repeat("x", 501) + `"}`: false,
	} {
		if err := described(t, "item").Validate(t.Context(), official(text)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestEveryMemberIsDescribed: the served schema describes every member of a record that this
// package reads.
func TestEveryMemberIsDescribed(t *testing.T) {
	var is struct {
		Defs struct {
			Record struct{ Properties map[string]json.RawMessage }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(registry.Schema(), &is); err != nil {
		t.Fatal(err)
	}
	for _, name := range registry.KnownMembers() {
		if _, ok := is.Defs.Record.Properties[name]; !ok && name != "status" { // status is not a member of a record
			t.Errorf("%s is read and not described", name)
		}
	}
}

// TestNothingIsCopied: this directory contains no file of a third party, with or without its
// licence, and no example names the host of a package registry.
func TestNothingIsCopied(t *testing.T) {
	hosts := regexp.MustCompile(`(?i)\b(npmjs|pypi|nuget|crates|rubygems|ghcr|quay|docker)\.(com|org|io)\b`)
	own := []string{"schemas/any.json", "schemas/README.md", "testdata/README.md"}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		path = filepath.ToSlash(path)
		data, err := os.ReadFile(path)
		if host := hosts.Find(data); host != nil && path != "describe_rules_test.go" {
			t.Errorf("%s names %s", path, host)
		}
		of := strings.HasPrefix(path, "schemas/") || strings.HasPrefix(path, "testdata/") && !strings.HasPrefix(path, "testdata/records/") && !strings.HasPrefix(path, "testdata/fuzz/")
		if of && !slices.Contains(own, path) || strings.Contains(strings.ToUpper(path), "LICEN") {
			t.Errorf("%s may be a file of a third party", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
