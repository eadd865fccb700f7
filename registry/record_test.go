package registry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/registry"
)

// object is a JSON object.
type object = map[string]any

// minimal returns a record with the required members, then changed. A nil value removes a
// member.
func minimal(changes object) []byte {
	record := object{"name": "com.example/notes", "description": "Notes.", "version": "1.0.0"}
	maps.Copy(record, changes)
	maps.DeleteFunc(record, func(_ string, value any) bool { return value == nil })
	return encode(record)
}

func encode(v any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

func TestRecords(t *testing.T) {
	files, err := filepath.Glob("testdata/records/*.json")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		record, err := registry.ParseRecord(data)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if !bytes.Equal(record.Raw(), data) {
			t.Errorf("%s: the bytes changed", file)
		}
		written, err := json.Marshal(record)
		var compact bytes.Buffer
		if err != nil || json.Compact(&compact, data) != nil || !bytes.Equal(written, compact.Bytes()) {
			t.Errorf("%s: %v: written as %s", file, err, written)
		}
	}
}

func TestRecordTellsWhatIsInIt(t *testing.T) {
	data, err := os.ReadFile("testdata/records/remote.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := registry.ParseRecord(data)
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		r.Name(): "com.example/notes", r.Version(): "1.4.0-rc.1+build.7", r.Title(): "Notes",
		r.Description(): "Reads and writes the notes of an organisation.", r.Schema(): registry.CurrentSchema,
		r.Website(): "https://notes.example.com/about?lang=en", r.Repository().Subfolder: "server/mcp",
		r.Icons()[1].Theme: "dark", r.Remotes()[1].URL: "https://{tenant}.notes.example.com:{port}/sse",
		r.Remotes()[1].Headers[0].Default: "eu", r.String(): "com.example/notes 1.4.0-rc.1+build.7",
		string(r.Meta()["com.example.ci/run"]): `"https://ci.example.com/1"`,
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	r.Icons()[0].Src, r.Remotes()[0].URL, r.Raw()[0] = "", "", 'x'
	delete(r.Meta(), "com.example.ci/run")
	if r.Icons()[0].Src == "" || r.Remotes()[0].URL == "" || r.Raw()[0] != '{' || len(r.Meta()) != 2 {
		t.Error("a caller can change a record through a returned value")
	}
	data[0] = 'x'
	if r.Raw()[0] != '{' {
		t.Error("a record shares memory with the parsed bytes")
	}

	data, err = os.ReadFile("testdata/records/packages.json")
	if err != nil {
		t.Fatal(err)
	}
	if r, err = registry.ParseRecord(data); err != nil {
		t.Fatal(err)
	}
	npm := r.Packages()[0]
	if npm.RegistryType != "npm" || npm.Transport.Type != "stdio" || npm.EnvironmentVariables[0].Name != "READER_KEY" || !npm.EnvironmentVariables[0].IsSecret {
		t.Errorf("%+v", npm)
	}
}

// TestRecordFetchesNothing: ParseRecord fetches neither the schema nor any other URL of a record.
func TestRecordFetchesNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	base := "https://" + listener.Addr().String()
	for _, schema := range []string{registry.CurrentSchema, base + "/2030-01-01/server.schema.json", base + "/draft/server.schema.json"} {
		record := fmt.Sprintf(`{"$schema":%q,"name":"com.example/a","description":"A.","version":"1.0.0","websiteUrl":"%[2]s/",`+
			`"icons":[{"src":"%[2]s/icon.png"}],"remotes":[{"type":"streamable-http","url":"%[2]s/mcp"}]}`, schema, base)
		if _, err := registry.ParseRecord([]byte(record)); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
	_ = listener.(*net.TCPListener).SetDeadline(time.Now().Add(50 * time.Millisecond))
	if conn, err := listener.Accept(); err == nil {
		_ = conn.Close()
		t.Error("something was fetched")
	}
}

func TestZeroRecord(t *testing.T) {
	var r registry.Record
	written, err := json.Marshal(r)
	if !r.IsZero() || r.Raw() != nil || err != nil || string(written) != "null" || r.Name()+r.Version() != "" {
		t.Errorf("%s %v", written, err)
	}
}

func TestRecordKeepsWhatItDoesNotKnow(t *testing.T) {
	const data = ` { "x-new" : {"Name":1.50, "<&>":"\u0041"} ,"version":"1.0.0",` +
		`"description":"a \u003c b","name":"com.example/a","remotes":[{"type":"sse","url":"https://example.com","extra":1e2}]} `
	record, err := registry.ParseRecord([]byte(data))
	if err != nil || string(record.Raw()) != data || record.Description() != "a < b" {
		t.Errorf("%v\n%s", err, record.Raw())
	}
}

// nested returns an object with the given number of levels.
func nested(levels int) any {
	if levels == 0 {
		return "deep"
	}
	return object{"x": nested(levels - 1)}
}

// TestRecordRefused has one record for each rule. Each record breaks that rule alone.
func TestRecordRefused(t *testing.T) {
	older := strings.Replace(registry.CurrentSchema, "2025-12-11", "2025-09-29", 1)
	remote := func(change object) object {
		r := object{"type": "streamable-http", "url": "https://example.com/mcp"}
		maps.Copy(r, change)
		maps.DeleteFunc(r, func(_ string, value any) bool { return value == nil })
		return object{"remotes": []any{object{"type": "sse", "url": "https://example.com/sse"}, r}}
	}
	pack := func(change object) object {
		p := object{"registryType": "npm", "identifier": "notes", "version": "1.0.0", "transport": object{"type": "stdio"}}
		maps.Copy(p, change)
		maps.DeleteFunc(p, func(_ string, value any) bool { return value == nil })
		return object{"packages": []any{p}}
	}
	icon := func(change object) object {
		i := object{"src": "https://example.com/icon.png"}
		maps.Copy(i, change)
		maps.DeleteFunc(i, func(_ string, value any) bool { return value == nil })
		return object{"icons": []any{i}}
	}
	for name, test := range map[string]struct {
		change        object
		place, reason string
	}{
		"no name":                          {object{"name": nil}, "", "required"},
		"name, another type":               {object{"name": 1}, "name", "string"},
		"name without a slash":             {object{"name": "com.example.notes"}, "name", "pattern"},
		"name with two slashes":            {object{"name": "com.example/notes/a"}, "name", "pattern"},
		"name with an empty part":          {object{"name": "com.example/"}, "name", "pattern"},
		"name with a space":                {object{"name": "com.example/no tes"}, "name", "pattern"},
		"name with a line end":             {object{"name": "com.example/notes\n"}, "name", "pattern"},
		"name with NUL":                    {object{"name": "com.example/notes\x00"}, "name", "pattern"},
		"name, underscore in namespace":    {object{"name": "com_example/notes"}, "name", "pattern"},
		"name that leads up":               {object{"name": "../.."}, "name", "letter or a digit"},
		"name that leads up at its end":    {object{"name": "com.example/.."}, "name", "letter or a digit"},
		"name, too short":                  {object{"name": "/a"}, "name", "minLength"},
		"name, too long":                   {object{"name": "com.example/" + strings.Repeat("a", 189)}, "name", "maxLength"},
		"no description":                   {object{"description": nil}, "", "required"},
		"description, empty":               {object{"description": ""}, "description", "minLength"},
		"description, blank":               {object{"description": " \t"}, "description", "white space"},
		"description, too long":            {object{"description": strings.Repeat("ä", 101)}, "description", "maxLength"},
		"description with NUL":             {object{"description": "a\x00"}, "description", "NUL"},
		"title, empty":                     {object{"title": ""}, "title", "minLength"},
		"title, blank":                     {object{"title": "\u00a0"}, "title", "white space"},
		"title, too long":                  {object{"title": strings.Repeat("a", 101)}, "title", "maxLength"},
		"title, another type":              {object{"title": object{}}, "title", "string"},
		"no version":                       {object{"version": nil}, "", "required"},
		"version, empty":                   {object{"version": ""}, "version", "must be a version"},
		"version, too long":                {object{"version": strings.Repeat("1", 256)}, "version", "maxLength"},
		"version latest":                   {object{"version": "latest"}, "version", "latest"},
		"version, caret":                   {object{"version": "^1.2.3"}, "version", "range"},
		"version, tilde":                   {object{"version": "~1.2"}, "version", "range"},
		"version, at least":                {object{"version": ">= 1.2.3"}, "version", "range"},
		"version, below":                   {object{"version": "<2"}, "version", "range"},
		"version, equal":                   {object{"version": "=1.0.0"}, "version", "range"},
		"version, from to":                 {object{"version": "1.2.3 - 2.0.0"}, "version", "range"},
		"version, one or the other":        {object{"version": "1.2 || 1.3"}, "version", "range"},
		"version, wildcard x":              {object{"version": "1.x"}, "version", "range"},
		"version, wildcard star":           {object{"version": "1.2.*"}, "version", "range"},
		"version, any":                     {object{"version": "*"}, "version", "range"},
		"version that leads up":            {object{"version": ".."}, "version", "must be a version"},
		"version with NUL":                 {object{"version": "1.0\x00"}, "version", "control"},
		"version with a tabulator":         {object{"version": "1.0\t2"}, "version", "control"},
		"version with a space at its end":  {object{"version": "1.0 "}, "version", "white space"},
		"$schema, another type":            {object{"$schema": 1}, "$schema", "string"},
		"$schema, http":                    {object{"$schema": strings.Replace(older, "https", "http", 1)}, "$schema", "https"},
		"$schema, no URL":                  {object{"$schema": "server.schema.json"}, "$schema", "https"},
		"$schema without a date":           {object{"$schema": "https://example.com/server.schema.json"}, "$schema", "date"},
		"$schema, something else":          {object{"$schema": "https://json-schema.org/draft/2020-12/schema"}, "$schema", "date"},
		"$schema with a query":             {object{"$schema": older + "?a=b"}, "$schema", "date"},
		"website, a script":                {object{"websiteUrl": "javascript:alert(1)"}, "websiteUrl", "https or http"},
		"website, relative":                {object{"websiteUrl": "/about"}, "websiteUrl", "https or http"},
		"website without a host":           {object{"websiteUrl": "https://:443/"}, "websiteUrl", "https or http"},
		"website with a quote":             {object{"websiteUrl": `https://example.com/" onclick="`}, "websiteUrl", "character"},
		"website with a line end":          {object{"websiteUrl": "https://example.com/\n"}, "websiteUrl", "character"},
		"website with a password":          {object{"websiteUrl": "https://user:secret@example.com/"}, "websiteUrl", "password"},
		"repository, a text":               {object{"repository": "https://example.com"}, "repository", "object"},
		"repository without url":           {object{"repository": object{"source": "github"}}, "repository", "required"},
		"repository without source":        {object{"repository": object{"url": "https://example.com/a"}}, "repository", "required"},
		"repository, a script":             {object{"repository": object{"url": "javascript:alert(1)", "source": "a"}}, "repository.url", "https or http"},
		"repository, subfolder leads up":   {object{"repository": object{"url": "https://example.com/a", "source": "a", "subfolder": "a/../.."}}, "repository.subfolder", "relative"},
		"repository, subfolder, absolute":  {object{"repository": object{"url": "https://example.com/a", "source": "a", "subfolder": "/etc"}}, "repository.subfolder", "relative"},
		"icons, no list":                   {object{"icons": object{}}, "icons", "array"},
		"icon without src":                 {icon(object{"src": nil}), "icons[0]", "required"},
		"icon, http":                       {icon(object{"src": "http://example.com/icon.png"}), "icons[0]", "https"},
		"icon, data":                       {icon(object{"src": "data:image/png;base64,AAAA"}), "icons[0]", "https"},
		"icon, too long":                   {icon(object{"src": "https://example.com/" + strings.Repeat("a", 236)}), "icons[0].src", "maxLength"},
		"icon with a password":             {icon(object{"src": "https://a:b@example.com/icon.png"}), "icons[0]", "password"},
		"icon, another kind":               {icon(object{"mimeType": "image/gif"}), "icons[0].mimeType", "enum"},
		"icon, size":                       {icon(object{"sizes": []string{"big"}}), "icons[0].sizes[0]", "pattern"},
		"icon, size of nothing":            {icon(object{"sizes": []string{"0x0"}}), "icons[0]", "size"},
		"icon, theme":                      {icon(object{"theme": "blue"}), "icons[0].theme", "enum"},
		"remotes, no list":                 {object{"remotes": object{}}, "remotes", "array"},
		"remote without type":              {remote(object{"type": nil}), "remotes[1]", "required"},
		"remote without url":               {remote(object{"url": nil}), "remotes[1]", "required"},
		"remote, another type":             {remote(object{"type": "stdio"}), "remotes[1].type", "enum"},
		"remote, another scheme":           {remote(object{"url": "ftp://example.com"}), "remotes[1].url", "pattern"},
		"remote, a script":                 {remote(object{"url": "javascript:alert(1)"}), "remotes[1].url", "pattern"},
		"remote without a host":            {remote(object{"url": "https:///mcp"}), "remotes[1].url", "https or http"},
		"remote with a password":           {remote(object{"url": "https://a:b@example.com"}), "remotes[1].url", "password"},
		"remote with a quote":              {remote(object{"url": `https://example.com/"`}), "remotes[1].url", "character"},
		"remote, header without name":      {remote(object{"headers": []any{object{"value": "a"}}}), "remotes[1].headers[0]", "required"},
		"remote, variables":                {remote(object{"variables": []any{}}), "remotes[1].variables", "object"},
		"remote, format of a variable":     {remote(object{"variables": object{"a": object{"format": "date"}}}), "remotes[1].variables.a.format", "enum"},
		"packages, no list":                {object{"packages": "npm"}, "packages", "array"},
		"package without type":             {pack(object{"registryType": nil}), "packages[0]", "required"},
		"package without identifier":       {pack(object{"identifier": nil}), "packages[0]", "required"},
		"package without transport":        {pack(object{"transport": nil}), "packages[0]", "required"},
		"package, transport":               {pack(object{"transport": object{"type": "pigeon"}}), "packages[0].transport.type", "enum"},
		"package, transport without url":   {pack(object{"transport": object{"type": "sse"}}), "packages[0].transport", "required"},
		"package, transport with password": {pack(object{"transport": object{"type": "sse", "url": "http://a:b@localhost"}}), "packages[0].transport.url", "password"},
		"package, version latest":          {pack(object{"version": "latest"}), "packages[0].version", "not"},
		"package, version, empty":          {pack(object{"version": ""}), "packages[0].version", "minLength"},
		"package, version, a range":        {pack(object{"version": "^1.0.0"}), "packages[0].version", "range"},
		"package, version, too long":       {pack(object{"version": strings.Repeat("1", 256)}), "packages[0].version", "maxLength"},
		"package, hash":                    {pack(object{"fileSha256": strings.Repeat("A", 64)}), "packages[0].fileSha256", "pattern"},
		"package, bundle without hash":     {pack(object{"registryType": "mcpb", "identifier": "https://example.com/a.mcpb"}), "packages[0].fileSha256", "must have one"},
		"package, identifier, a script":    {pack(object{"identifier": "javascript://example.com/%0aalert(1)"}), "packages[0].identifier", "https or http"},
		"package, identifier with space":   {pack(object{"identifier": "notes --evil"}), "packages[0].identifier", "white space"},
		"package, base, a script":          {pack(object{"registryBaseUrl": "javascript:alert(1)"}), "packages[0].registryBaseUrl", "https or http"},
		"package, argument":                {pack(object{"packageArguments": []any{object{"type": "odd"}}}), "packages[0].packageArguments[0].type", "enum"},
		"package, positional of nothing":   {pack(object{"packageArguments": []any{object{"type": "positional"}}}), "packages[0].packageArguments[0]", "required"},
		"package, named without name":      {pack(object{"runtimeArguments": []any{object{"type": "named"}}}), "packages[0].runtimeArguments[0]", "required"},
		"package, variable without name":   {pack(object{"environmentVariables": []any{object{}}}), "packages[0].environmentVariables[0]", "required"},
		"_meta, no object":                 {object{"_meta": []any{}}, "_meta", "object"},
		"_meta, key":                       {object{"_meta": object{"-a/b": 1}}, "_meta", "prefix"},
		"_meta, publisher, no object":      {object{"_meta": object{registry.MetaPublisher: "a"}}, "_meta." + registry.MetaPublisher, "object"},
		"_meta, a registry":                {object{"_meta": object{registry.MetaOfficial: object{}}}, "_meta", "not part of a record"},
		"status":                           {object{"status": "active"}, "status", "not part of a record"},
		"name in another case":             {object{"Name": "com.example/evil"}, "name", "only some readers"},
		"url in another case":              {remote(object{"URL": "https://evil.example.com"}), "remotes[1].url", "only some readers"},
		"src in another case":              {icon(object{"SRC": "https://evil.example.com"}), "icons[0].src", "only some readers"},
		"k of kelvin":                      {pack(object{"pac\u212aageArguments": 1}), "packages[0].packageArguments", "only some readers"},
		"too deep":                         {object{"x": nested(registry.MaxDepth)}, "x." + strings.Repeat("x.", registry.MaxDepth-2) + "x", "too deep"},
		"too large":                        {object{"x": strings.Repeat("a", registry.MaxRecord)}, "", "too large"},

		"older: name":             {object{"$schema": older, "name": "com.example"}, "name", "pattern"},
		"older: description":      {object{"$schema": older, "description": nil}, "", "required"},
		"older: version":          {object{"$schema": older, "version": "1.x"}, "version", "range"},
		"older: icon":             {object{"$schema": older, "icons": []any{object{"src": "data:,"}}}, "icons[0]", "https"},
		"older: remote, a script": {object{"$schema": older, "remotes": []any{object{"type": "sse", "url": "javascript:alert(1)"}}}, "remotes[0].url", "https or http"},
		"older: type of a member": {object{"$schema": older, "packages": []any{object{"identifier": 1}}}, "packages[0].identifier", "string"},
		"older: type of a value":  {object{"$schema": older, "packages": []any{object{"environmentVariables": []any{object{"name": "A", "value": 1}}}}}, "packages[0].environmentVariables[0].value", "string"},
		"a number out of bounds":  {object{"x": json.Number("1e9999")}, "", "number"},
		"many faults":             {object{"icons": slices.Repeat([]any{object{"src": 1}}, 12)}, "", "and 2 more faults"},
		"older: _meta":            {object{"$schema": older, "_meta": object{"/": 1}}, "_meta", "prefix"},
	} {
		_, err := registry.ParseRecord(minimal(test.change))
		invalid := (*registry.InvalidError)(nil)
		if !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.ContainsFunc(invalid.Faults, func(f registry.Fault) bool {
			return f.Place == test.place && strings.Contains(f.Reason, test.reason)
		}) {
			t.Errorf("%s: %q", name, invalid.Faults)
		}
	}
}

func TestRecordNotOneJSONObject(t *testing.T) {
	for data, want := range map[string]error{
		``:                       strictjson.ErrSyntax,
		`{"name":"a/b"`:          strictjson.ErrSyntax,
		`{"name":1,"name":2}`:    strictjson.ErrDuplicate,
		`{"\u0000":1}`:           strictjson.ErrText,
		"{\"name\":\"a/b\xff\"}": strictjson.ErrText,
		`[]`:                     nil,
		`null`:                   nil,
		`"text"`:                 nil,
	} {
		_, err := registry.ParseRecord([]byte(data))
		if invalid := (*registry.InvalidError)(nil); !errors.As(err, &invalid) || want != nil && !errors.Is(err, want) {
			t.Errorf("%q: %v", data, err)
		}
	}
}

func TestRecordAccepted(t *testing.T) {
	dated := func(date string) string { return strings.Replace(registry.CurrentSchema, "2025-12-11", date, 1) }
	for name, change := range map[string]object{
		"the least":                      {},
		"the current schema":             {"$schema": registry.CurrentSchema},
		"an earlier date":                {"$schema": dated("2025-10-17")},
		"a later date":                   {"$schema": dated("2031-01-01"), "remotes": []any{object{"type": "carrier", "url": "https://example.com"}}},
		"the one to come":                {"$schema": dated("draft"), "remotes": []any{object{"type": "sse", "url": "{base}/sse"}}},
		"a schema elsewhere":             {"$schema": "https://example.com/schemas/2025-12-11/server.schema.json"},
		"a repository that says nothing": {"repository": object{}},
		"a repository, empty":            {"repository": object{"url": "", "source": ""}},
		"version of text":                {"version": "Release of May"},
		"version with a date":            {"version": "2025.06.18-beta.1"},
		"version with x":                 {"version": "1.0.0-x.7"},
		"version with v":                 {"version": "v1.2.3"},
		"version with a slash":           {"version": "release/1"},
		"version of 255 characters":      {"version": strings.Repeat("ä", 255)},
		"the longest name":               {"name": "com.example/" + strings.Repeat("a", 188)},
		"the shortest name":              {"name": "a/b"},
		"a name with marks":              {"name": "Com.Ex-ample/.n_o-tes."},
		"texts of 100 characters":        {"title": strings.Repeat("ä", 100), "description": strings.Repeat("字", 100)},
		"a website without TLS":          {"websiteUrl": "http://intranet.example.com/it's"},
		"a website in another script":    {"websiteUrl": "https://example.com/über"},
		"the largest icon":               {"icons": []any{object{"src": "https://example.com/" + strings.Repeat("a", 235), "sizes": []string{"99999x1"}}}},
		"no icons":                       {"icons": []any{}},
		"a registry of its own kind":     {"packages": []any{object{"registryType": "deb", "identifier": "notes", "transport": object{"type": "stdio"}}}},
		"an older bundle without a hash": {"$schema": dated("2025-10-17"), "packages": []any{object{"registryType": "mcpb", "identifier": "https://example.com/a", "transport": object{"type": "stdio"}}}},
		"keys of _meta":                  {"_meta": object{"com.example": 1, "com.example/a.b-c_d": nil, "plain": "", registry.MetaPublisher: object{"a": 1}}},
		"unknown names in any case":      {"x": object{"Name": 1, "name": 2}, "_meta": object{"Name": 1, "name": 2}},
		"variables in any case":          {"remotes": []any{object{"type": "sse", "url": "https://{a}.example.com", "variables": object{"URL": object{}, "url": object{}}}}},
		"as deep as may be":              {"x": nested(registry.MaxDepth - 1)},
	} {
		data := minimal(change)
		if record, err := registry.ParseRecord(data); err != nil || !bytes.Equal(record.Raw(), data) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDiffers(t *testing.T) {
	parse := func(data string) registry.Record {
		r, err := registry.ParseRecord([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a := parse(`{"name":"a/b","version":"1","description":"x","_meta":{"n":12345678901234567890,"o":{"a":1,"b":[1,2]}}}`)
	for other, want := range map[string][]string{
		`{ "version":"1", "description":"\u0078","_meta":{"o":{"b":[1,2],"a":1},"n":12345678901234567890},"name":"a/b" }`:  nil,
		`{"name":"a/b","version":"1","description":"y","_meta":{"n":12345678901234567891,"o":{"a":1,"b":[1,2]}}}`:          {"_meta", "description"},
		`{"name":"a/b","version":"1","description":"x","title":"t"}`:                                                       {"_meta", "title"},
		`{"name":"a/b","version":"1","description":"x","_meta":{"n":12345678901234567890,"o":{"a":1,"b":[2,1]}},"z":null}`: {"_meta", "z"},
	} {
		b := parse(other)
		if got := b.Differs(a); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q", other, got)
		}
		if got := a.Differs(b); !reflect.DeepEqual(got, want) {
			t.Errorf("from %s: %q", other, got)
		}
	}
	if got := a.Differs(registry.Record{}); !reflect.DeepEqual(got, []string{"_meta", "description", "name", "version"}) {
		t.Errorf("from nothing: %q", got)
	}
}
