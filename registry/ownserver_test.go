package registry_test

import (
	"encoding/json"
	"strings"
	"testing"

	"gatehouse.example/message"
	"gatehouse.example/registry"
)

func TestNameFor(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"https://notes.example.com/mcp", "com.example.notes/mcp"},
		{"https://Notes.Example.COM./mcp/", "com.example.notes/mcp"},
		{"https://example.com", "com.example/server"},
		{"https://example.com/", "com.example/server"},
		{"https://example.com:8443/a/b c", "com.example/8443-a-b-c"},
		{"http://127.0.0.1:8081/mcp", "ip.127-0-0-1/8081-mcp"},
		{"http://[::1]:8081/mcp", "ip.--1/8081-mcp"},
		{"http://localhost:8081/mcp", "localhost/8081-mcp"},
		{"https://example.com/%E2%82%AC", ""},
		{"https://example.com/" + strings.Repeat("a", 200), ""},
		{"notes", ""},
		{"", ""},
		{"https://", ""},
	} {
		got, err := registry.NameFor(tt.url)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s: %q %v, want %q", tt.url, got, err, tt.want)
		}
	}
}

func TestOwnServer(t *testing.T) {
	whole := json.RawMessage(`{"$schema":"` + registry.CurrentSchema + `","name":"com.example/notes","description":"Notes.","version":"3.0.0"}`)
	for _, tt := range []struct {
		name   string
		server registry.OwnServer
		want   string // parts of the record, separated by bars
		err    string
	}{
		{"an address alone", registry.OwnServer{URL: "https://notes.example.com/mcp"},
			`"$schema":"` + registry.CurrentSchema + `"|"name":"com.example.notes/mcp"|"version":"1.0.0"|"description":"at notes.example.com"|"remotes":[{"type":"streamable-http","url":"https://notes.example.com/mcp"}]`, ""},
		{"everything", registry.OwnServer{
			Name: "com.example/notes", Version: "2.1.0", Title: "Notes", Description: "Your notes.", Website: "https://notes.example.com", URL: "https://notes.example.com/sse", Transport: "sse",
			Scopes: []registry.OwnScope{{Name: "notes:read", Description: "Read your notes"}, {Name: "notes:write"}},
			Icons:  []message.Icon{{Src: "https://notes.example.com/icon.png", MIMEType: "image/png", Sizes: []string{"48x48"}}}, Status: registry.StatusDeprecated, StatusMessage: "moved",
		}, `"title":"Notes"|"websiteUrl":"https://notes.example.com"|"type":"sse"|"icons":[{"src":"https://notes.example.com/icon.png","mimeType":"image/png","sizes":["48x48"]}]|` +
			`"_meta":{"io.modelcontextprotocol.registry/publisher-provided":{"resource":"https://notes.example.com/sse","scopes":[{"name":"notes:read","description":"Read your notes"},{"name":"notes:write"}]}}`, ""},
		{"a title", registry.OwnServer{Title: "Notes", URL: "https://notes.example.com/mcp"}, `"description":"Notes at notes.example.com"`, ""},
		{"a long title", registry.OwnServer{Title: strings.Repeat("n", 100), URL: "https://notes.example.com/mcp"}, `"description":"` + strings.Repeat("n", 100) + `"`, ""},
		{"a whole record", registry.OwnServer{Record: whole}, string(whole), ""},
		{"a whole record and more", registry.OwnServer{Record: whole, Title: "Notes"}, "", "allows nothing beside it"},
		{"a whole record that is none", registry.OwnServer{Record: json.RawMessage(`{}`)}, "", "name"},
		{"nothing", registry.OwnServer{}, "", "not the URL"},
		{"another transport", registry.OwnServer{URL: "https://notes.example.com/mcp", Transport: "stdio"}, "", "remotes"},
		{"a version that is none", registry.OwnServer{URL: "https://notes.example.com/mcp", Version: "latest"}, "", "latest"},
		{"an icon over http", registry.OwnServer{URL: "https://notes.example.com/mcp", Icons: []message.Icon{{Src: "http://notes.example.com/i.png"}}}, "", "icons[0]"},
		{"a status that is none", registry.OwnServer{URL: "https://notes.example.com/mcp", Status: "gone"}, "", "status"},
		{"a status with a book", registry.OwnServer{URL: "https://notes.example.com/mcp", StatusMessage: strings.Repeat("a", 501)}, "", "500"},
		{"a version of many bytes", registry.OwnServer{URL: "https://notes.example.com/mcp", Version: strings.Repeat("𝟙", 200)}, "", "512 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			item, err := tt.server.Item()
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("%v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for part := range strings.SplitSeq(tt.want, "|") {
				if !strings.Contains(string(item.Record.Raw()), part) {
					t.Errorf("%s lacks %s", item.Record.Raw(), part)
				}
			}
			if item.Official.Status == "" || tt.server.Status != "" && item.Official.Status != tt.server.Status {
				t.Errorf("%+v", item.Official)
			}
		})
	}
}

func ownItems(t *testing.T, servers ...registry.OwnServer) []registry.Item {
	t.Helper()
	var items []registry.Item
	for _, s := range servers {
		item, err := s.Item()
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	return items
}

func TestCheckOwn(t *testing.T) {
	notes := registry.OwnServer{URL: "https://notes.example.com/mcp"}
	newer := notes
	newer.Version = "1.1.0"
	if err := registry.CheckOwn(ownItems(t, notes, newer)); err != nil {
		t.Error(err)
	}
	if err := registry.CheckOwn(ownItems(t, notes, newer, notes)); err == nil || !strings.Contains(err.Error(), "two of com.example.notes/mcp 1.0.0") {
		t.Error(err)
	}
	if err := registry.CheckOwn(make([]registry.Item, registry.MaxOwn+1)); err == nil {
		t.Error("too many are accepted")
	}
}
