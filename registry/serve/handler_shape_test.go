package serve_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/registry"
	"gatehouse.example/registry/serve"
	"gatehouse.example/storage/catalogue"
)

const (
	rating = `"com.example.registry/rating"`
	ourKey = "org.example.catalogue/review"
)

// spoken returns a row with _meta of the publisher, the upstream and this registry.
func spoken() catalogue.Entry {
	return rowOf("com.example/a", "1.0.0", isDeprecated, updatedAt(day(3).Add(250*time.Millisecond)),
		recordIs(`{ "name" : "com.example/a","description":"d", "version":"1.0.0", "x": [1.0e+2,  "\u0041</script>"], "_meta": {`+publisher+`: {"n": 1.0}, `+rating+`:3} ,"title":"T" }`),
		func(e *catalogue.Entry) { e.Meta = json.RawMessage(`{` + rating + `:{"stars": 4.50}}`) })
}

func TestForms(t *testing.T) {
	d := newDesk(t, serve.Config{}, spoken())
	const (
		server = `{ "name" : "com.example/a","description":"d", "version":"1.0.0", "x": [1.0e+2,  "\u0041</script>"], "_meta": {` + publisher + `: {"n": 1.0}, ` + rating + `:3} ,"title":"T" }`
		flat   = `"name" : "com.example/a","description":"d","version":"1.0.0","x": [1.0e+2,  "\u0041</script>"],"title":"T","status":"deprecated"`
		said   = official + `:{"status":"deprecated","statusMessage":"Use another one.","statusChangedAt":"2025-10-01T12:30:00Z",` +
			`"publishedAt":"2025-10-01T12:30:00Z","updatedAt":"2025-10-03T12:30:00.25Z","isLatest":true}`
		beside = said + `,` + rating + `:{"stars": 4.50}`
		merged = beside + `,` + publisher + `: {"n": 1.0}`
	)
	for form, want := range map[string]string{
		"":        `{"server":` + server + `,` + flat + `,"_meta":{` + merged + `}}`,
		"wrapped": `{"server":` + server + `,"_meta":{` + beside + `}}`,
		"record":  `{` + flat + `,"_meta":{` + merged + `}}`,
	} {
		for path, wrap := range map[string]string{
			"/v0.1/servers/com.example%2Fa/versions/1.0.0": "%s",
			"/v0.1/servers/com.example%2Fa/versions":       `{"servers":[%s],"metadata":{"count":1}}`,
			"/v0.1/servers":                                `{"servers":[%s],"metadata":{"count":1}}`,
		} {
			if got := d.get(path + "?shape=" + form).Body.String(); got != fmt.Sprintf(wrap, want) {
				t.Errorf("%s, shape %q:\n%s, want\n%s", path, form, got, fmt.Sprintf(wrap, want))
			}
		}
	}
	w := d.get("/v0.1/servers")
	if got := w.Header().Get("Content-Type") + " " + w.Header().Get("X-Content-Type-Options"); got != "application/json nosniff" {
		t.Error(got)
	}
}

// TestUnknownTimes: unknown times are left out of the answer.
func TestUnknownTimes(t *testing.T) {
	never := func(e *catalogue.Entry) {
		e.Published, e.Updated, e.StatusChanged, e.Status = time.Time{}, time.Time{}, time.Time{}, ""
	}
	d := newDesk(t, serve.Config{}, rowOf("com.example/a", "1.0.0", isOlder, never))
	want := `"status":"active","_meta":{` + official + `:{"status":"active","isLatest":false}}`
	if got := d.get("/v0.1/servers?shape=record").Body.String(); !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestOddMembers: members of a record whose names have a meaning in an item are not changed.
func TestOddMembers(t *testing.T) {
	odd := `{` + required + `,"status":"odd","server":{"name":"odd"}}`
	d := newDesk(t, serve.Config{}, rowOf("com.example/a", "1.0.0", recordIs(odd)))
	for form, want := range map[string]string{
		"": `{"server":` + odd + `,` + required + `,"status":"active","_meta":{`, "wrapped": `{"server":` + odd + `,"_meta":{`,
		"record": `{` + required + `,"server":{"name":"odd"},"status":"active","_meta":{`,
	} {
		got := d.get("/v0.1/servers/com.example%2Fa/versions/latest?shape=" + form).Body.String()
		if !strings.HasPrefix(got, want) || strictjson.Valid([]byte(got), strictjson.Options{}) != nil {
			t.Errorf("shape %q: %s, want %s", form, got, want)
		}
	}
}

// TestReadBothWays decodes one answer in the current form of the interface and in the
// older one.
func TestReadBothWays(t *testing.T) {
	remote := readFile(t, "../testdata/records/remote.json")
	packages := readFile(t, "../testdata/records/packages.json")
	rows := []catalogue.Entry{
		rowOf("com.example/notes", "1.4.0-rc.1+build.7", recordIs(remote)),
		rowOf("org.example.tools/file_reader.v2", "2.0.1", recordIs(packages), isDeprecated),
		rowOf("org.example.tools/x", "1.0.0"),
	}
	d := newDesk(t, serve.Config{}, rows...)
	body := d.get("/v0.1/servers?limit=2").Body.Bytes()

	// The older form: requirements R-REC-1 to R-REC-7.
	var older struct {
		Servers []struct {
			Schema   string `json:"$schema"`
			Name     string `json:"name"`
			Title    string `json:"title"`
			Version  string `json:"version"`
			Packages []struct {
				RegistryType string `json:"registryType"`
				Identifier   string `json:"identifier"`
				Version      string `json:"version"`
				Transport    struct {
					Type string `json:"type"`
				} `json:"transport"`
			} `json:"packages"`
			Status string                     `json:"status"`
			Meta   map[string]json.RawMessage `json:"_meta"`
		} `json:"servers"`
		Metadata struct {
			Count      int    `json:"count"`
			NextCursor string `json:"nextCursor"`
		} `json:"metadata"`
	}
	if err := strictjson.Unmarshal(body, &older, strictjson.Options{}); err != nil {
		t.Fatal(err)
	}
	first, second := older.Servers[0], older.Servers[1]
	if older.Metadata.Count != 2 || older.Metadata.NextCursor == "" || first.Schema != registry.CurrentSchema || first.Name != "com.example/notes" ||
		first.Title != "Notes" || first.Version != "1.4.0-rc.1+build.7" || first.Status != "active" || second.Status != "deprecated" ||
		len(second.Packages) != 3 || second.Packages[0].Identifier != "@example/file-reader" || second.Packages[0].Transport.Type != "stdio" {
		t.Errorf("%+v", older)
	}
	for _, key := range []string{registry.MetaPublisher, registry.MetaOfficial, "com.example.ci/run"} {
		if first.Meta[key] == nil {
			t.Errorf("_meta has no %s: %s", key, first.Meta)
		}
	}

	// The current form.
	var wire struct {
		Servers []struct {
			Server json.RawMessage
			Meta   map[string]json.RawMessage `json:"_meta"`
		}
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		t.Fatal(err)
	}
	for i, s := range wire.Servers {
		if string(s.Server) != string(bytes.TrimSpace(rows[i].Server)) {
			t.Errorf("the record is not as it came:\n%s", s.Server)
		}
		var said registry.Official
		if err := json.Unmarshal(s.Meta[registry.MetaOfficial], &said); err != nil || said.Status != registry.Status(rows[i].Status) || !said.IsLatest {
			t.Errorf("%s, %v", s.Meta, err)
		}
	}
}

// TestAnswersFollowTheDescription validates answers of every endpoint, in each form, against
// the schema of the interface.
func TestAnswersFollowTheDescription(t *testing.T) {
	rows := append(small(), spoken(),
		rowOf("com.example/remote", "1.4.0-rc.1+build.7", recordIs(strings.Replace(readFile(t, "../testdata/records/remote.json"), "com.example/notes", "com.example/remote", 1))),
		rowOf("org.example.tools/file_reader.v2", "2.0.1", recordIs(readFile(t, "../testdata/records/packages.json"))),
		rowOf("org.example.tools/z", "1.0.0", publishedAt(time.Time{}), updatedAt(time.Time{})),
	)
	d := newDesk(t, serve.Config{
		MetaKey: ourKey, Revision: func() string { return "" },
		Enrich: func(registry.Item) (json.RawMessage, error) { return json.RawMessage(`{"scanned":true}`), nil },
	}, rows...)
	for path, component := range map[string]string{
		"/v0.1/servers": "list", "/v0.1/servers?limit=3": "list", "/v0.1/servers?limit=2&cursor=next": "list",
		"/v0.1/servers?include_deleted=true": "list", "/v0.1/servers?updated_since=2025-10-03T00:00:00Z": "list",
		"/v0.1/servers?version=latest&search=files": "list", "/v0.1/servers?search=nowhere": "list",
		"/v0.1/servers/com.example%2Fnotes/versions":                            "list",
		"/v0.1/servers/com.example%2Fgone/versions?include_deleted=true":        "list",
		"/v0.1/servers/com.example%2Fnotes/versions/latest":                     "item",
		"/v0.1/servers/com.example%2Fa/versions/1.0.0":                          "item",
		"/v0.1/servers/com.example%2Fremote/versions/1.4.0-rc.1+build.7":        "item",
		"/v0.1/servers/org.example.tools%2Ffile_reader.v2/versions/2.0.1":       "item",
		"/v0.1/servers/com.example%2Fgone/versions/latest?include_deleted=true": "item",
		"/v0.1/servers/org.example.tools%2Fz/versions/1.0.0":                    "item",
	} {
		for _, form := range []string{"", "shape=wrapped"} {
			target := path + "?" + form
			if strings.Contains(path, "?") {
				target = path + "&" + form
			}
			if strings.Contains(target, "cursor=next") {
				first := d.list(strings.Replace(target, "cursor=next", "", 1))
				target = strings.Replace(target, "next", *first.Metadata.NextCursor, 1)
			}
			w := d.get(target)
			if err := described(t, component).Validate(t.Context(), w.Body.Bytes()); w.Code != 200 || err != nil {
				t.Errorf("%s: %d %v\n%s", target, w.Code, err, w.Body)
			}
		}
	}
	// Flat items are records by the schema, with a status.
	for _, s := range readRaw(t, d.get("/v0.1/servers?shape=record").Body.Bytes()) {
		if err := described(t, "record").Validate(t.Context(), s); err != nil {
			t.Errorf("%v\n%s", err, s)
		}
	}
}

func readRaw(t *testing.T, body []byte) []json.RawMessage {
	t.Helper()
	var l struct{ Servers []json.RawMessage }
	if err := json.Unmarshal(body, &l); err != nil {
		t.Fatal(err)
	}
	return l.Servers
}

// TestOurKey: only Enrich supplies values for the registry's own key of _meta.
func TestOurKey(t *testing.T) {
	const theirs = `"org.example.catalogue/review":{"stars":5,"by":"them"}`
	member := func(meta string) string { return `{` + required + `,"_meta":{` + meta + `}}` }
	row := func(recordMeta, meta string) catalogue.Entry {
		return rowOf("com.example/a", "1.0.0", recordIs(member(recordMeta)), func(e *catalogue.Entry) { e.Meta = json.RawMessage(meta) })
	}
	escaped := strings.Replace(theirs, "org", `\u006frg`, 1)
	says := func(value string, err error) serve.Config {
		return serve.Config{MetaKey: ourKey, Revision: func() string { return "" }, Enrich: func(registry.Item) (json.RawMessage, error) {
			if value == "" {
				return nil, err
			}
			return json.RawMessage(value), err
		}}
	}
	silent := serve.Config{MetaKey: ourKey}
	for name, test := range map[string]struct {
		config serve.Config
		row    catalogue.Entry
		server string // its _meta
		value  string // of the registry's own key, "" for none
	}{
		"in the record":                {silent, row(theirs, ""), ``, ""},
		"in the record, beside others": {silent, row(rating+`: 1 , `+theirs+`, `+publisher+`:{}`, ""), rating + `: 1,` + publisher + `:{}`, ""},
		"in the record, escaped":       {silent, row(escaped, ""), ``, ""},
		"beside the record":            {silent, row(rating+`:1`, `{`+theirs+`}`), rating + `:1`, ""},
		"beside the record, escaped":   {silent, row(rating+`:1`, `{`+escaped+`,`+rating+`:2}`), rating + `:1`, ""},
		"in both, in another case":     {silent, row(strings.ToUpper(theirs[:29])+theirs[29:], `{`+strings.Replace(theirs, "review", "Review", 1)+`}`), ``, ""},
		"in both":                      {silent, row(theirs, `{`+theirs+`}`), ``, ""},
		"in both, and we speak":        {says(`{"stars": 1.0}`, nil), row(theirs, `{`+theirs+`}`), ``, `{"stars": 1.0}`},
		"only we speak":                {says(`"x"`, nil), row(rating+`:1`, ""), rating + `:1`, `"x"`},
		"we have nothing to say":       {says("", nil), row(theirs, ""), ``, ""},
		"we fail":                      {says(`{"stars":1}`, errors.New("broken")), row(theirs, ""), ``, ""},
		"we stutter":                   {says(`{"stars":`, nil), row(theirs, ""), ``, ""},
	} {
		d := newDesk(t, test.config, test.row)
		for _, form := range []string{"", "wrapped", "record"} {
			body := d.get("/v0.1/servers/com.example%2Fa/versions/latest?shape=" + form).Body.Bytes()
			var item struct {
				Server *struct {
					Meta json.RawMessage `json:"_meta"`
				} `json:"server"`
				Meta map[string]json.RawMessage `json:"_meta"`
			}
			if err := strictjson.Unmarshal(body, &item, strictjson.Options{}); err != nil {
				t.Fatalf("%s, %s: %v\n%s", name, form, err, body)
			}
			if got := string(item.Meta[ourKey]); got != test.value || bytes.Contains(body, []byte("them")) {
				t.Errorf("%s, %q: we say %q, want %q\n%s", name, form, got, test.value, body)
			}
			if item.Server != nil && string(item.Server.Meta) != `{`+test.server+`}` {
				t.Errorf("%s, %q: _meta of the record is %s, want {%s}", name, form, item.Server.Meta, test.server)
			}
		}
		if name == "we fail" && !strings.Contains(d.log.String(), "broken") {
			t.Error("the failure is not logged")
		}
	}
}

// TestWhatEnrichSees: Enrich gets the record and _meta of the upstream, without the registry's
// own key.
func TestWhatEnrichSees(t *testing.T) {
	var seen []registry.Item
	row := spoken()
	row.Meta = json.RawMessage(`{` + rating + `:1,"` + ourKey + `":2,` + official + `:3}`)
	d := newDesk(t, serve.Config{MetaKey: ourKey, Revision: func() string { return "" }, Enrich: func(i registry.Item) (json.RawMessage, error) {
		seen = append(seen, i)
		return nil, nil
	}}, row)
	d.get("/v0.1/servers")
	if len(seen) != 1 {
		t.Fatalf("asked %d times", len(seen))
	}
	want := registry.Official{
		Status: "deprecated", StatusMessage: "Use another one.", StatusChangedAt: day(1), PublishedAt: day(1), UpdatedAt: day(3).Add(250 * time.Millisecond), IsLatest: true,
	}
	i := seen[0]
	if i.Official != want || string(i.Record.Raw()) != string(row.Server) || i.Record.Title() != "T" || len(i.Meta) != 1 || string(i.Meta["com.example.registry/rating"]) != "1" {
		t.Errorf("%+v", i)
	}
}

// FuzzServed: for every record in the catalogue, each form of the answer is JSON with the same
// content.
func FuzzServed(f *testing.F) {
	for _, name := range []string{"remote", "packages", "older"} {
		f.Add(readFile(f, "../testdata/records/"+name+".json"), `{`+rating+`:1}`)
	}
	f.Add(`{`+required+`,"server":{"name":"x"},"_meta":{}}`, "")
	f.Add(` {`+required+`,"a\"b":["}",{"]":"\\"}],"\u005fmeta":{"`+ourKey+`":1}}`+"\n", `{"`+ourKey+`":1}`)
	handler := newDesk(f, serve.Config{MetaKey: ourKey}).handler
	f.Fuzz(func(t *testing.T, text, meta string) {
		record, err := registry.ParseRecord([]byte(text))
		if err != nil {
			return
		}
		row := rowOf(record.Name(), record.Version(), isDeprecated, recordIs(text), func(e *catalogue.Entry) { e.Meta = json.RawMessage(meta) })
		for _, form := range []string{"", "wrapped", "record"} {
			body, err := handler.AppendItem(row, form)
			if err != nil {
				if json.Valid([]byte(meta)) && strings.HasPrefix(meta, "{") {
					t.Fatal(err)
				}
				return
			}
			if bytes.Contains(body, []byte(`"`+ourKey+`"`)) && !bytes.Contains([]byte(text+meta), []byte(ourKey+"\\")) && !elsewhere(record, ourKey) && !strings.Contains(meta, ourKey) {
				t.Fatalf("the own key is still there:\n%s", body)
			}
			if strictjson.Valid([]byte(meta), strictjson.Options{}) != nil || !validKeys(meta) {
				if !json.Valid(body) {
					t.Fatalf("no JSON:\n%s", body)
				}
				continue
			}
			again, err := registry.ParseItem(body)
			if form == "record" && record.Name() != again.Record.Name() && strings.Contains(text, "server") {
				continue // a flat record that looks like a wrapped one
			}
			if err != nil {
				t.Fatalf("%q: %v\n%s", form, err, body)
			}
			if again.Official.Status != "deprecated" || again.Official.StatusMessage != "Use another one." || !again.Official.UpdatedAt.Equal(row.Updated) {
				t.Fatalf("%+v", again.Official)
			}
			if diff := slices.DeleteFunc(again.Record.Differs(record), func(name string) bool { return name == "_meta" }); len(diff) > 0 {
				t.Fatalf("%q: it differs in %q\n%s", form, diff, body)
			}
		}
	})
}

// elsewhere reports whether a record contains a text outside of the keys of its _meta.
func elsewhere(r registry.Record, text string) bool {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(r.Raw(), &members)
	delete(members, "_meta")
	for _, value := range r.Meta() {
		if bytes.Contains(value, []byte(text)) {
			return true
		}
	}
	return bytes.Contains(encode(members), []byte(text))
}

// validKeys reports whether meta is empty, or an object with valid keys of _meta.
func validKeys(meta string) bool {
	if meta == "" {
		return true
	}
	_, err := registry.ParseItem([]byte(`{"server":{` + required + `},"_meta":` + meta + `}`))
	return err == nil && !strings.Contains(meta, "status") && !strings.Contains(meta, "official")
}

// TestStatusOnRecord: a stored row with an unknown status is not served.
func TestStatusOnRecord(t *testing.T) {
	d := newDesk(t, serve.Config{}, rowOf("com.example/a", "1.0.0"), rowOf("com.example/b", "1.0.0", func(e *catalogue.Entry) { e.Status = "archived" }))
	for _, target := range []string{"/v0.1/servers", "/v0.1/servers?shape=record", "/", "/v0.1/servers/com.example%2Fb/versions/1.0.0", "/v0.1/servers/com.example%2Fb/versions", "/servers/com.example/b"} {
		if w := d.get(target); strings.Contains(w.Body.String(), `"com.example/b"`) || strings.Contains(w.Body.String(), `>com.example/b<`) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

// TestSchemaIsServed: /v0.1/schema serves the schema against which records are validated.
func TestSchemaIsServed(t *testing.T) {
	d := newDesk(t, serve.Config{}, rowOf("com.example/a", "1.0.0"))
	served := d.get("/v0.1/schema")
	if served.Code != 200 || served.Body.String() != string(registry.Schema()) || served.Header().Get("Content-Type") != "application/schema+json" {
		t.Fatalf("%d %v", served.Code, served.Header())
	}
	packed := d.get("/v0/schema", "Accept-Encoding: gzip")
	if packed.Header().Get("Content-Encoding") != "gzip" || unzip(t, packed) != string(registry.Schema()) {
		t.Errorf("compressed: %v", packed.Header())
	}
	for _, held := range []string{served.Header().Get("ETag"), packed.Header().Get("ETag"), "*"} {
		if w := d.get("/v0/schema", "If-None-Match: "+held); w.Code != 304 || held == "*" && w.Header().Get("ETag") != served.Header().Get("ETag") {
			t.Errorf("%s again: %d %v", held, w.Code, w.Header())
		}
	}
}
