package registry_test

import (
	"strings"
	"testing"

	"gatehouse.example/registry"
)

// TestA9VersionsAreVisible: no version, and nothing that is copied out of a record, has a
// character in it that nobody sees.
func TestA9VersionsAreVisible(t *testing.T) {
	for _, c := range "\u200b\u200d\u200e\u202e\u2066\u00ad\ufeff\u2060\u034f\u115f\u1160\u17b4\u180e\u2800\u3164\uffa0\ufe0f\U000e0041\U000e0101\u2028\u00a0\u3000\u0085\u007f\ue000\u0378" {
		for _, version := range []string{"1.0.0" + string(c), "1." + string(c) + "0.0", string(c) + "1.0.0"} {
			if _, err := registry.ParseRecord(minimal(object{"version": version})); err == nil {
				t.Errorf("%+q is a version", version)
			}
			in := object{"packages": []any{object{"registryType": "example", "identifier": "notes", "version": version, "transport": object{"type": "stdio"}}}}
			if _, err := registry.ParseRecord(minimal(in)); err == nil {
				t.Errorf("%+q is the version of a package", version)
			}
		}
		in := object{"packages": []any{object{"registryType": "example", "identifier": "no" + string(c) + "tes", "version": "1.0.0", "transport": object{"type": "stdio"}}}}
		if _, err := registry.ParseRecord(minimal(in)); err == nil {
			t.Errorf("an identifier has %+q in it", c)
		}
		if _, err := registry.ParseRecord(minimal(object{"websiteUrl": "https://example.com/" + string(c)})); err == nil {
			t.Errorf("a link has %+q in it", c)
		}
	}
	for _, version := range []string{"1.0.0", "2025 edition", "1.0.0-β", "versión-é", "第1版", "v1+build.7"} {
		if _, err := registry.ParseRecord(minimal(object{"version": version})); err != nil {
			t.Errorf("%+q: %v", version, err)
		}
	}
}

// TestA9MembersWithoutWorth: _meta that is null, and members that nobody knows and that are
// nested too deep, are lost, and not the record. All else keeps its bytes.
func TestA9MembersWithoutWorth(t *testing.T) {
	deep := strings.Repeat(`[`, 60) + strings.Repeat(`]`, 60)
	const known = `"name" : "com.example/notes","description":"N[{\"}","version":"1.0.0"`
	for what, test := range map[string]struct{ item, record, meta string }{
		"null beside":       {`{"server":{` + known + `},"_meta":null}`, `{` + known + `}`, ""},
		"null inside":       {`{"server":{` + known + `,"_meta": null}}`, `{` + known + `}`, ""},
		"null, flat":        {`{` + known + `,"_meta":null}`, `{` + known + `}`, ""},
		"null in both":      {`{"_meta":null,"server":{"_meta":null,` + known + `}}`, `{` + known + `}`, ""},
		"deep, flat":        {`{` + known + `,"x":` + deep + `,"y":1}`, `{` + known + `,"y":1}`, ""},
		"deep in it":        {`{"server":{"x":` + deep + `,` + known + `}}`, `{` + known + `}`, ""},
		"deep beside":       {`{"server":{` + known + `},"x":{"a":` + deep + `}}`, `{` + known + `}`, ""},
		"deep under a key":  {`{"server":{` + known + `},"_meta":{"com.example/a":` + deep + `,"com.example/b":2}}`, `{` + known + `}`, "2"},
		"deep in a package": {`{"server":{` + known + `,"packages":[{"registryType":"a","identifier":"b","x":` + deep + `,"transport":{"type":"stdio"}}]}}`, `{` + known + `,"packages":[{"registryType":"a","identifier":"b","transport":{"type":"stdio"}}]}`, ""},
	} {
		item, err := registry.ParseItem([]byte(test.item))
		if err != nil || string(item.Record.Raw()) != test.record || string(item.Meta["com.example/b"]) != test.meta {
			t.Errorf("%s: %v\n%s\n%s", what, err, item.Record.Raw(), item.Meta)
		}
	}
	for what, item := range map[string]string{
		"a known member that is deep":  `{` + known + `,"icons":` + deep + `}`,
		"_meta twice":                  `{` + known + `,"_meta":null,"_meta":{"com.example/a":1}}`,
		"_meta that is something else": `{"server":{` + known + `},"_meta":7}`,
	} {
		if _, err := registry.ParseItem([]byte(item)); err == nil {
			t.Errorf("%s is an item", what)
		}
	}
}
