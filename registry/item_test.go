package registry_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/registry"
)

const (
	official  = `"io.modelcontextprotocol.registry/official"`
	publisher = `"io.modelcontextprotocol.registry/publisher-provided"`
	// required are the members that every record has.
	required = `"name":"com.example/a","description":"d","version":"1.0.0"`
)

func day(n int) time.Time { return time.Date(2025, 10, n, 12, 30, 0, 0, time.UTC) }

func TestParseItem(t *testing.T) {
	whole := registry.Official{
		Status: registry.StatusDeprecated, StatusMessage: "Use b.", IsLatest: true,
		StatusChangedAt: day(3), PublishedAt: day(1), UpdatedAt: day(3).Add(250 * time.Millisecond),
	}
	said := official + `:{"status":"deprecated","statusMessage":"Use b.","statusChangedAt":"2025-10-03T12:30:00Z",` +
		`"publishedAt":"2025-10-01T14:30:00+02:00","updatedAt":"2025-10-03T12:30:00.25Z","isLatest":true}`
	type meta = map[string]json.RawMessage
	bare := "{" + required + "}"
	for name, test := range map[string]struct {
		item     string
		record   string
		official registry.Official
		meta     meta
	}{
		"the official form": {
			`{"server":` + bare + `,"_meta":{` + said + `}}`, bare, whole, meta{},
		},
		"with nothing beside it": {
			`{"server":` + bare + `}`, bare, registry.Official{Status: registry.StatusActive}, meta{},
		},
		"with what a sub-registry adds": {
			`{"_meta":{"com.example/rating":{"stars": 4.50},` + said + `},"server":{ ` + required + ` , "_meta":{"com.example.b/own":1}} }`,
			`{ ` + required + ` , "_meta":{"com.example.b/own":1}}`, whole, meta{"com.example/rating": json.RawMessage(`{"stars": 4.50}`)},
		},
		"the flat form": {
			`{ ` + required + ` , "status":"deleted", "x":[1,  2]}`, `{` + required + `,"x":[1,  2]}`, registry.Official{Status: registry.StatusDeleted}, meta{},
		},
		"the flat form, with nothing said": {
			bare, bare, registry.Official{Status: registry.StatusActive}, meta{},
		},
		"the flat form, with everything": {
			`{"status" : "deprecated",` + required + `,"_meta":{"com.example/rating":4.5,` + publisher + `:{"n": 1.0},` + said + `},"title":"T"}`,
			`{` + required + `,"_meta":{` + publisher + `:{"n": 1.0}},"title":"T"}`, whole, meta{"com.example/rating": json.RawMessage("4.5")},
		},
		"the flat form, with a registry only": {
			`{` + required + `,"_meta":{` + said + `}}`, bare, whole, meta{},
		},
		"both forms at once": {
			`{"server":{` + required + `,"_meta":{` + publisher + `:{"a":1},"com.example/own":2}},` + required + `,"status":"deprecated",` +
				`"_meta":{` + publisher + `:{"a":1},"com.example/own":2,"com.example/rating":4,` + said + `}}`,
			`{` + required + `,"_meta":{` + publisher + `:{"a":1},"com.example/own":2}}`, whole, meta{"com.example/rating": json.RawMessage("4")},
		},
		"a registry speaks over the record": {
			`{"server":{` + required + `,"_meta":{"com.example/x":1}},"_meta":{"com.example/x":2}}`,
			`{` + required + `,"_meta":{"com.example/x":1}}`, registry.Official{Status: registry.StatusActive}, meta{"com.example/x": json.RawMessage("2")},
		},
		"the status inside as well": {
			`{"server":{` + required + `,"status":"deprecated","_meta":{` + said + `}},"_meta":{` + said + `},"status":"deprecated"}`, bare, whole, meta{},
		},
		"the status inside only": {
			`{"server":{` + required + `,"status":"deleted"},"_meta":{` + official + `:{"publishedAt":"2025-10-01T12:30:00Z"}}}`,
			bare, registry.Official{Status: registry.StatusDeleted, PublishedAt: day(1)}, meta{},
		},
		"the status without its key": {
			`{"server":` + bare + `,"_meta":{"status":"deleted"}}`, bare, registry.Official{Status: registry.StatusDeleted}, meta{},
		},
		"members that are null or empty": {
			`{"server":` + bare + `,"_meta":{` + official + `:{"status":null,"statusMessage":null,"publishedAt":"","isLatest":false,"id":"x"}}}`,
			bare, registry.Official{Status: registry.StatusActive}, meta{},
		},
		"a server that is none": {
			`{` + required + `,"server":"west"}`, `{` + required + `,"server":"west"}`, registry.Official{Status: registry.StatusActive}, meta{},
		},
	} {
		item, err := registry.ParseItem([]byte(test.item))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := string(item.Record.Raw()); got != test.record {
			t.Errorf("%s: record\n%s, want\n%s", name, got, test.record)
		}
		if item.Official != test.official {
			t.Errorf("%s: %+v", name, item.Official)
		}
		if !reflect.DeepEqual(item.Meta, test.meta) {
			t.Errorf("%s: %s", name, item.Meta)
		}
	}
}

func TestItemRefused(t *testing.T) {
	bare := "{" + required + "}"
	said := func(members string) string {
		return `{"server":` + bare + `,"_meta":{` + official + `:{` + members + `}}}`
	}
	for name, test := range map[string]struct{ item, place, reason string }{
		"no object":                     {`[]`, "", "object"},
		"nothing":                       {`null`, "", "object"},
		"a record that is refused":      {`{"server":{` + required + `,"title":""}}`, "title", "minLength"},
		"a flat record that is refused": {`{` + required + `,"title":""}`, "title", "minLength"},
		"_meta, no object":              {`{"server":` + bare + `,"_meta":[]}`, "_meta", "object"},
		"_meta, key":                    {`{"server":` + bare + `,"_meta":{"a b":1}}`, "_meta", "name"},
		"_meta, prefix":                 {`{"server":` + bare + `,"_meta":{"1.example/b":1}}`, "_meta", "prefix"},
		"a registry says no object":     {`{"server":` + bare + `,"_meta":{` + official + `:"x"}}`, "_meta." + registry.MetaOfficial, "object"},
		"an unknown status":             {said(`"status":"archived"`), "_meta." + registry.MetaOfficial + ".status", "active"},
		"an empty status":               {said(`"status":""`), "_meta." + registry.MetaOfficial + ".status", "active"},
		"a status of another type":      {said(`"status":1`), "_meta." + registry.MetaOfficial + ".status", "string"},
		"a status in another case":      {said(`"status":"Deleted"`), "_meta." + registry.MetaOfficial + ".status", "active"},
		"an unknown status, flat":       {`{` + required + `,"status":"archived"}`, "status", "active"},
		"a status, flat, another type":  {`{` + required + `,"status":[]}`, "status", "string"},
		"a long message":                {said(`"statusMessage":"` + strings.Repeat("ä", 501) + `"`), "_meta." + registry.MetaOfficial + ".statusMessage", "500"},
		"no time":                       {said(`"updatedAt":"yesterday"`), "_meta." + registry.MetaOfficial + ".updatedAt", "RFC 3339"},
		"a year of five digits":         {said(`"updatedAt":"9999-12-31T23:59:59-10:00"`), "_meta." + registry.MetaOfficial + ".updatedAt", "RFC 3339"},
		"a time as a number":            {said(`"publishedAt":1`), "_meta." + registry.MetaOfficial + ".publishedAt", "string"},
		"a change without a zone":       {said(`"statusChangedAt":"2025-10-01T12:30:00"`), "_meta." + registry.MetaOfficial + ".statusChangedAt", "RFC 3339"},
		"the latest, another type":      {said(`"isLatest":"yes"`), "_meta." + registry.MetaOfficial + ".isLatest", "true or false"},
		"two statuses, beside": {
			`{"server":` + bare + `,"status":"active","_meta":{` + official + `:{"status":"deleted"}}}`, "status", "deleted in one place and active in another",
		},
		"two statuses, inside": {
			`{"server":{` + required + `,"status":"deprecated"},"_meta":{` + official + `:{"status":"deleted"}}}`, "status", "deleted in one place",
		},
		"two statuses, flat": {
			`{` + required + `,"status":"deprecated","_meta":{` + official + `:{"status":"active"}}}`, "status", "active in one place",
		},
		"two opinions": {
			`{"server":{` + required + `,"_meta":{` + official + `:{"isLatest":true}}},"_meta":{` + official + `:{}}}`, "_meta", "two different values",
		},
		"another name beside":    {`{"server":` + bare + `,"name":"com.example/b"}`, "name", "differs from the one"},
		"another version beside": {`{"server":` + bare + `,"version":"1.0.1"}`, "version", "differs from the one"},
		"no name beside":         {`{"server":` + bare + `,"name":1}`, "name", "differs from the one"},
	} {
		_, err := registry.ParseItem([]byte(test.item))
		invalid := (*registry.InvalidError)(nil)
		if !errors.As(err, &invalid) || invalid.Faults[0].Place != test.place || !strings.Contains(invalid.Faults[0].Reason, test.reason) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInvalidItem: of an item that cannot be used what can be read is kept, so that its deletion counts
// and a row with an unknown status is hidden.
func TestInvalidItem(t *testing.T) {
	const official = `"` + registry.MetaOfficial + `"`
	said := func(inside string) string {
		return `{"server":{` + required + `},"_meta":{` + official + `:{` + inside + `}}}`
	}
	for item, want := range map[string]registry.Status{
		`{"server":{` + required + `,"remotes":1},"_meta":{` + official + `:{"status":"deleted"}}}`: registry.StatusDeleted,
		`{"server":{` + required + `,"remotes":1}}`:                                                 registry.StatusActive,
		said(`"status":"archived"`):                                                                 "",
		said(`"status":"archived","isLatest":"yes"`):                                                "",
		said(`"status":1`): "",
		said(`"status":"deprecated","isLatest":"yes"`):                                registry.StatusDeprecated,
		said(`"status":"deleted","updatedAt":"yesterday"`):                            registry.StatusDeleted,
		said(`"isLatest":"yes"`):                                                      "",
		`{"server":{` + required + `},"status":"archived"}`:                           "",
		said(`"status":"deleted","statusMessage":"` + strings.Repeat("ä", 501) + `"`): registry.StatusDeleted,
	} {
		_, invalid := registry.ReadItem([]byte(item))
		if invalid == nil || invalid.Name == "" || invalid.Version == "" || invalid.Official.Status != want || invalid.Official.StatusMessage != "" {
			t.Errorf("%.200s: %+v, want the status %q", item, invalid, want)
		}
	}
	if item, invalid := registry.ReadItem([]byte(said(`"status":"deleted","statusMessage":"` + strings.Repeat("ä", 500) + `"`))); invalid != nil || len(item.Official.StatusMessage) != 1000 {
		t.Errorf("the longest message: %+v", invalid)
	}
}

func TestItemNotStrict(t *testing.T) {
	for item, want := range map[string]error{
		`{"server":{` + required + `},"server":{` + required + `}}`:                             strictjson.ErrDuplicate,
		`{"server":{` + required + `},"_meta":{"a":{"b":1,"b":2}}}`:                             strictjson.ErrDuplicate,
		`{"server":{` + required + `},"x":"` + strings.Repeat("a", 2*registry.MaxRecord) + `"}`: strictjson.ErrTooLarge,
		`{"server":{` + required: strictjson.ErrSyntax,
	} {
		if _, err := registry.ParseItem([]byte(item)); !errors.Is(err, want) {
			t.Errorf("%.80s: %v", item, err)
		}
	}
}

// FuzzRecord checks that accepted records keep their bytes, are valid under the schema if it
// is applied in another way, and have a name and a version that can be path segments.
func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		"{" + required + "}", `{` + required + `,"repository":{"url":""},"icons":[{"src":"https://example.com/a.png","sizes":["1x1"]}]}`,
		`{` + required + `,"remotes":[{"type":"sse","url":"https://{a}.example.com","variables":{"a":{}}}],"_meta":{"a":{}}}`,
		`{` + required + `,"$schema":"https://example.com/draft/server.schema.json","packages":[{"fileSha256":"x"}]}`,
		`{` + required + `,"packages":[{"registryType":"npm","identifier":"a","version":"1","transport":{"type":"stdio"}}]}`,
		`{"Name":1}`, `{"version":"latest"}`, `[]`, `{"server":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		record, err := registry.ParseRecord(data)
		if err != nil {
			if !record.IsZero() {
				t.Fatal("a record with an error")
			}
			return
		}
		if string(record.Raw()) != string(data) {
			t.Fatalf("the bytes changed to %s", record.Raw())
		}
		sound(t, record)
		// Parsers that ignore case, such as encoding/json, must read the same.
		var loose struct{ Name, Version, Title, Description, WebsiteURL string }
		if json.Unmarshal(data, &loose) != nil || loose.Name != record.Name() || loose.Version != record.Version() ||
			loose.Title != record.Title() || loose.Description != record.Description() || loose.WebsiteURL != record.Website() {
			t.Fatalf("others read %+v", loose)
		}
	})
}

// sound checks the properties of every accepted record.
func sound(t *testing.T, r registry.Record) {
	t.Helper()
	if strings.Count(r.Name(), "/") != 1 || strings.ContainsAny(r.Name()+r.Version(), "\x00\n") || r.Version() == "" || r.Version() == "latest" || r.Description() == "" {
		t.Fatalf("%q %q %q", r.Name(), r.Version(), r.Description())
	}
	for _, link := range append([]string{r.Website(), r.Repository().URL}, iconsOf(r)...) {
		if link != "" && !strings.HasPrefix(link, "http") && !strings.HasPrefix(strings.ToLower(link), "http") {
			t.Fatalf("a link to %q", link)
		}
	}
	again, err := registry.ParseRecord(r.Raw())
	if err != nil || len(again.Differs(r)) > 0 {
		t.Fatalf("refused the second time: %v", err)
	}
	if err := registry.ValidateSchema(r); err != nil {
		t.Fatal(err)
	}
}

func iconsOf(r registry.Record) (sources []string) {
	for _, icon := range r.Icons() {
		sources = append(sources, icon.Src)
	}
	return sources
}

// FuzzItem checks that an accepted item can be written in the official form and is read back
// unchanged, and that its record is valid on its own.
func FuzzItem(f *testing.F) {
	for _, seed := range []string{
		`{"server":{` + required + `},"_meta":{` + official + `:{"status":"deleted","updatedAt":"2025-10-01T12:30:00.5+02:00"}}}`,
		`{` + required + `,"status":"deprecated","_meta":{"a/b":1,` + publisher + `:{}}}`,
		`{"server":{` + required + `,"_meta":{"a":1,` + official + `:{}},"status":"active"},"_meta":{"a":1,"b":2},"status":"active"}`,
		`{"server":{` + required + `,"_meta":{}},"_meta":{"status":"deleted"}}`, `{"server":1}`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		item, err := registry.ParseItem(data)
		if err != nil {
			return
		}
		sound(t, item.Record)
		if item.Official.Status.Validate() != nil {
			t.Fatalf("the status %q", item.Official.Status)
		}
		again, err := registry.ParseItem(rewritten(item))
		if err != nil || string(again.Record.Raw()) != string(item.Record.Raw()) || again.Official != item.Official {
			t.Fatalf("%v: %+v, and then %+v", err, item, again)
		}
	})
}

// rewritten writes an item in the official form.
func rewritten(item registry.Item) []byte {
	o := item.Official
	meta := object{registry.MetaOfficial: object{
		"status": o.Status, "statusMessage": o.StatusMessage, "isLatest": o.IsLatest,
		"statusChangedAt": o.StatusChangedAt, "publishedAt": o.PublishedAt, "updatedAt": o.UpdatedAt,
	}}
	for key, value := range item.Meta {
		meta[key] = value
	}
	head := encode(meta)
	return []byte(`{"server":` + string(item.Record.Raw()) + `,"_meta":` + string(head) + `}`)
}
