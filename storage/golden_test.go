package storage_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"gatehouse.example/storage"
)

// golden is a record as the first release of encoding version 1 wrote it.
type golden struct {
	Kind string `json:"kind"`
	ID   string `json:"id"` // what the record is read by
	Key  string `json:"key"`
	Data []byte `json:"data"`
	// Want is the record in plain JSON.
	Want json.RawMessage `json:"want"`
	// RefreshTokens of a grant, by generation, and its code.
	RefreshTokens []string `json:"refresh_tokens,omitempty"`
	Code          string   `json:"code,omitempty"`
}

// goldenFiles are files of testdata that are never written again: a record that was
// stored once must be read by every later program. A new encoding version gets a file
// of its own, and so does a record that gains fields which decide something.
var goldenFiles = []string{"records-v1.json", "keyset-v1-states.json"}

func goldens(t *testing.T, file string) []golden {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var records []golden
	if err := json.Unmarshal(data, &records); err != nil {
		t.Fatal(err)
	}
	return records
}

// readers read a record of each kind.
func readers(s *storage.Store) map[string]func(ctx context.Context, id string) (any, error) {
	return map[string]func(ctx context.Context, id string) (any, error){
		"client":      func(ctx context.Context, id string) (any, error) { return s.Client(ctx, id) },
		"user":        func(ctx context.Context, id string) (any, error) { return s.User(ctx, id) },
		"session":     func(ctx context.Context, id string) (any, error) { return s.Session(ctx, id) },
		"transaction": func(ctx context.Context, id string) (any, error) { return s.Transaction(ctx, id) },
		"keyset":      func(ctx context.Context, _ string) (any, error) { return s.KeySet(ctx) },
		"grant":       func(ctx context.Context, id string) (any, error) { return s.Grant(ctx, id) },
	}
}

func TestGolden(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range goldenFiles {
		t.Run(file, func(t *testing.T) { readGoldens(t, file, seen) })
	}
	s, _ := newStore(t)
	for kind := range readers(s) {
		if !seen[kind] {
			t.Errorf("there is no record of kind %s", kind)
		}
	}
}

// readGoldens reads the records of one file and notes their kinds in seen.
func readGoldens(t *testing.T, file string, seen map[string]bool) {
	s, backend := newStore(t)
	read := readers(s)
	for i, record := range goldens(t, file) {
		change := storage.Put{Key: record.Key, Data: record.Data, Operation: storage.Version{byte(i + 1)}}
		if _, err := backend.Put(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		got, err := read[record.Kind](t.Context(), record.ID)
		if err != nil {
			t.Errorf("%s %s: %v", record.Kind, record.ID, err)
			continue
		}
		seen[record.Kind] = true
		if got, want := plain(t, got), plain(t, record.Want); !holds(got, want) {
			t.Errorf("%s %s is\n%v; want\n%v", record.Kind, record.ID, got, want)
		}
		switch got := got.(type) {
		case storage.Grant:
			wantTokens(t, s, got, record)
		case storage.KeySet:
			for _, k := range got.Keys {
				wantKey(t, s, k)
			}
		}
	}
}

// wantKey checks the private part of a key, and that a key from before there were states
// is active.
func wantKey(t *testing.T, s *storage.Store, k storage.SigningKey) {
	t.Helper()
	if k.ID == "kid" && (k.State != storage.KeyActive || !k.Activated.Equal(k.Created)) {
		t.Errorf("key %s without a state is %s since %s", k.ID, k.State, k.Activated)
	}
	if k.State == storage.KeyRetired {
		if k.Private != nil {
			t.Errorf("key %s is retired and has a private part", k.ID)
		}
		return
	}
	if private, err := s.OpenKey(k.ID, k.Private); err != nil || string(private) != "private key" {
		t.Errorf("key %s opens to %q, %v", k.ID, private, err)
	}
}

// holds reports whether got has every member of want. It may have more: fields that
// came later.
func holds(got, want any) bool {
	if items, ok := want.([]any); ok {
		has, _ := got.([]any)
		same := len(has) == len(items)
		for i := range items {
			same = same && holds(has[i], items[i])
		}
		return same
	}
	members, ok := want.(map[string]any)
	if !ok {
		return reflect.DeepEqual(got, want)
	}
	has, ok := got.(map[string]any)
	for name, value := range members {
		ok = ok && holds(has[name], value)
	}
	return ok
}

// wantTokens checks the tokens that clients hold.
func wantTokens(t *testing.T, s *storage.Store, g storage.Grant, record golden) {
	t.Helper()
	if id, ok := storage.CodeGrant(record.Code); !ok || id != g.ID || !g.Code.Matches(record.Code) {
		t.Errorf("grant %s does not know its code", g.ID)
	}
	for generation, token := range record.RefreshTokens {
		if got, err := s.RefreshTokenOf(g, uint32(generation)); err != nil || got != token {
			t.Errorf("grant %s has refresh token %q, %v in generation %d; want %q", g.ID, got, err, generation, token)
		}
		parsed, ok := storage.ParseRefreshToken(token)
		if genuine, err := s.Genuine(g, parsed); !ok || !genuine || err != nil {
			t.Errorf("grant %s: Genuine returned %t, %v for its token", g.ID, genuine, err)
		}
	}
}

func plain(t *testing.T, v any) (out any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
