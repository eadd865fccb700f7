package registry_test

import (
	"strings"
	"testing"

	"gatehouse.example/registry"
)

// TestMembersWithoutWorth: _meta that is null, and unknown members that are nested too
// deeply, are dropped instead of the record. All other members keep their bytes.
func TestMembersWithoutWorth(t *testing.T) {
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
