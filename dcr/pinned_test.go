package dcr_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/internal/webtest"
	"gatehouse.example/storage"
)

// TestPinnedDocuments: a pinned document follows the rules of fetched ones, takes precedence
// over the published one, never expires, and causes no request.
func TestPinnedDocuments(t *testing.T) {
	for _, trust := range []dcr.Trust{dcr.TrustAsk, dcr.TrustAllow, dcr.TrustDeny} {
		var id, other string
		r := newReader(t, func(c *dcr.Config) {
			id, other = "https://client.example.com/client.json", "https://other.example.com/client.json"
			c.Documents = dcr.Documents{Trust: trust, Pinned: map[string][]byte{id: []byte(published(id, map[string]any{"client_name": "Pinned"}))}}
		})
		for range 2 {
			c := r.resolve(t, id)
			if c.Metadata.ClientName != "Pinned" || c.Source != storage.ClientDocument || !r.Vouched(c) || dcr.DocumentHost(c) != "client.example.com" {
				t.Errorf("%s: %+v", trust, c)
			}
			if current, err := r.Current(t.Context(), id); err != nil || dcr.Digest(current) != dcr.Digest(c) {
				t.Errorf("%s: %+v, %v", trust, current, err)
			}
			r.clock.advance(400 * 24 * time.Hour)
		}
		if n := r.web.Connections.Load() + r.backend.gets.Load(); n != 0 {
			t.Errorf("%s: %d connections or trips to the store", trust, n)
		}
		if trust == dcr.TrustDeny {
			r.refuses(t, other, "not accepted here")
		} else {
			r.unreachable(t, other)
		}
		if got := r.Pinned(); len(got) != 1 || got[0].ID != id || r.FetchesDocuments() != (trust != dcr.TrustDeny) {
			t.Errorf("%s: pinned %+v, fetches %v", trust, got, r.FetchesDocuments())
		}
	}
}

// TestRealDocumentsCanBePinned pins the published documents of real clients.
func TestRealDocumentsCanBePinned(t *testing.T) {
	files, err := filepath.Glob("testdata/documents/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	pinned := map[string][]byte{}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(body), `"client_id"`)
		pinned[strings.Split(rest, `"`)[1]] = body
	}
	r := newReader(t, func(c *dcr.Config) { c.Documents = dcr.Documents{Trust: dcr.TrustDeny, Pinned: pinned} })
	if len(r.Pinned()) != len(files) {
		t.Fatalf("%d of %d", len(r.Pinned()), len(files))
	}
	for id := range pinned {
		r.resolve(t, id)
	}
}

// TestPinnedDocumentRules: a document that would not be accepted from its host cannot be
// pinned, and the error names it.
func TestPinnedDocumentRules(t *testing.T) {
	const id = "https://client.example.com/client.json"
	good := published(id, nil)
	for name, tt := range map[string]struct {
		id, body, want string
		change         func(*dcr.Documents)
	}{
		"another address":       {id: "https://client.example.com/other.json", body: good, want: "it is not the address of the document"},
		"an address by case":    {id: id, body: published("https://client.example.com/Client.json", nil), want: "it is not the address"},
		"no web address":        {id: "client.json", body: good, want: "not an https URL"},
		"plain HTTP":            {id: "http://client.example.com/client.json", body: published("http://client.example.com/client.json", nil), want: "https"},
		"an address as host":    {id: "https://203.0.113.5/client.json", body: published("https://203.0.113.5/client.json", nil), want: "a name, not an address"},
		"the root of a host":    {id: "https://client.example.com/", body: published("https://client.example.com/", nil), want: "path"},
		"no JSON":               {id: id, body: "{", want: id},
		"nothing":               {id: id, body: "", want: id},
		"a secret":              {id: id, body: published(id, map[string]any{"client_secret": "x"}), want: "must not have one"},
		"no name":               {id: id, body: published(id, map[string]any{"client_name": nil}), want: "client_name"},
		"no redirect":           {id: id, body: published(id, map[string]any{"redirect_uris": nil}), want: "redirect_uris"},
		"too large":             {id: id, body: published(id, map[string]any{"x": strings.Repeat("x", 10<<10)}), want: id},
		"a host that is denied": {id: id, body: good, want: "denied", change: func(d *dcr.Documents) { d.Deny = []string{"*.example.com"} }},
		"documents are off":     {id: id, body: good, want: "there is a policy and no trust", change: func(d *dcr.Documents) { d.Trust = "" }},
	} {
		f := newFixture(t, nil)
		d := dcr.Documents{Trust: dcr.TrustDeny, Pinned: map[string][]byte{tt.id: []byte(tt.body)}}
		if tt.change != nil {
			tt.change(&d)
		}
		_, err := dcr.New(dcr.Config{Store: f.store, Endpoint: "https://auth.example.com/register", Documents: d, Fetcher: webtest.New(t).Fetcher(nil)})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
}
