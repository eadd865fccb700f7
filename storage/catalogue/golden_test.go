package catalogue_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
)

// goldenCatalogue is a catalogue as two writers of the first release left it: one ended before it
// had removed the stale entries of its last page, the other one while it wrote the next page. The
// file never changes.
type goldenCatalogue struct {
	Items   map[string][]byte   `json:"items"` // by key
	Indexes map[string][]string `json:"indexes"`
	// Committed is the number of the last committed page.
	Committed uint64 `json:"committed"`
}

func goldenCatalogues(t *testing.T) (catalogues map[string]goldenCatalogue) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "catalogue-v1.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &catalogues); err != nil {
		t.Fatal(err)
	}
	return catalogues
}

// TestGoldenCatalogue: this release reads the catalogue of an earlier one, takes over from its
// writer and continues.
func TestGoldenCatalogue(t *testing.T) {
	catalogues := goldenCatalogues(t)
	for _, left := range []string{"not swept", "not committed"} {
		t.Run(left, func(t *testing.T) { readGoldenCatalogue(t, catalogues[left], left == "not committed") })
	}
}

func readGoldenCatalogue(t *testing.T, golden goldenCatalogue, begun bool) {
	b := newPlain()
	for key, data := range golden.Items {
		b.items[key] = storage.Item{Data: data, Version: storage.Version{byte(len(b.items) + 1)}}
	}
	b.indexes = golden.Indexes
	clock := now().Add(4 * time.Second)
	s := catalogueWith(t, b, storage.Options{
		Issuer: issuer, MasterKeys: [][]byte{[]byte("0123456789abcdef0123456789abcdef")}, Now: func() time.Time { return clock },
	})
	st, err := s.State(t.Context())
	if err != nil || st.Committed != golden.Committed || string(st.Progress) != `{"cursor":"second"}` || len(st.CursorKey) != 32 || st.CursorKey[31] == 0 ||
		!st.Leased || st.Owner != "first release" || st.Servers != 1 || st.Live != 2 || st.Deleted != 1 || !st.Changed.Equal(now()) {
		t.Errorf("the state is %+v, %v", st, err)
	}
	want := func(what string) {
		t.Helper()
		for q, want := range map[*catalogue.Query]string{
			{}:                                `com.example/a 1.0.0={ "name":"a", "n":2 }, com.example/a 1.1.0={ "name":"a", "n":2 }`,
			{Deleted: true, Version: "1.0.0"}: `com.example/a 1.0.0={ "name":"a", "n":2 }, com.example/b 1.0.0={"<b>":"\u2028"}`,
			{Latest: true}:                    `com.example/a 1.1.0={ "name":"a", "n":2 }`,
			{Since: now(), Deleted: true}:     `com.example/a 1.0.0={ "name":"a", "n":2 }, com.example/a 1.1.0={ "name":"a", "n":2 }`,
		} {
			page, err := s.Page(t.Context(), *q, "", 10)
			if got := view(page); err != nil || got != want {
				t.Errorf("%s: query %+v chooses %s, %v; want %s", what, *q, got, err, want)
			}
		}
		e, err := s.Entry(t.Context(), "com.example/b", "1.0.0")
		if err != nil || e.Status != catalogue.StatusDeleted || e.StatusMessage != "spam" || e.Origin != "https://registry.example.com" ||
			string(e.Meta) != ` {"x":1}` || fmt.Sprint(e.Flags) != "[mismatch]" || !e.Published.Equal(now().Add(-time.Hour)) || !e.StatusChanged.Equal(now().Add(-time.Nanosecond)) {
			t.Errorf("%s: the deleted row is %+v, %v", what, e, err)
		}
	}
	want("as it was left")
	clock = clock.Add(time.Second)
	w := openCatalogue(t, s)
	defer w.Close(t.Context())
	want("when it was taken over")
	entries := 0
	for index, list := range b.indexes {
		entries += len(list)
		if !strings.HasPrefix(index, "gatehouse:catalogue-") {
			t.Errorf("there is an index %s", index)
		}
	}
	if entries != 3*3+1 {
		t.Errorf("the lists have %d entries; want those of three rows, one of them the latest", entries)
	}
	if err := w.Commit(t.Context(), []catalogue.Entry{server("com.example/c", "1.0.0", "third", "latest")}, nil); err != nil {
		t.Error(err)
	}
	next := golden.Committed + 1
	if begun {
		next++ // the number of the unfinished page
	}
	if st := w.State(); st.Committed != next || st.Servers != 2 {
		t.Errorf("the next page is %d; want %d", st.Committed, next)
	}
}
