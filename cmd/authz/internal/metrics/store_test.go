package metrics_test

import (
	"errors"
	"strings"
	"testing"

	"gatehouse.example/storage"
)

// storeCounts returns what moved between two scrapes, of the calls and lineages.
func storeCounts(before, after map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range moved(before, after) {
		if !strings.HasPrefix(name, "gatehouse_store_call_duration") {
			out[name] = value
		}
	}
	return out
}

func wantMoved(t *testing.T, what string, got map[string]string, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %s is %q, want %s", what, name, got[name], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s moves %v", what, got)
	}
}

func called(operation, outcome string) string {
	return `gatehouse_store_calls_total{operation="` + operation + `",outcome="` + outcome + `"}`
}

// Calls of the store are counted by how they end: an answer, nothing there, a conflict, a write
// whose reply was lost and that is sent again, a store that does not answer.
func TestCallsOfTheStore(t *testing.T) {
	m, backend, faults := measured(t)
	before := series(t, m)
	step := func(what string, want map[string]string) {
		t.Helper()
		after := series(t, m)
		wantMoved(t, what, storeCounts(before, after), want)
		before = after
	}
	if _, err := backend.Get(t.Context(), "gatehouse:user:nobody"); !errors.Is(err, storage.ErrNotFound) {
		t.Fatal(err)
	}
	step("a record that is not there", map[string]string{called("get", "absent"): "1"})
	put := storage.Put{Key: "gatehouse:user:ada", Data: []byte("x"), Operation: storage.Version{1}}
	if _, err := backend.Put(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	put.Operation = storage.Version{2}
	if _, err := backend.Put(t.Context(), put); !errors.Is(err, storage.ErrConflict) {
		t.Fatal(err)
	}
	step("a write and a conflict", map[string]string{called("put", "ok"): "1", called("put", "conflict"): "1"})
	store, err := storage.New(backend, storage.Options{Issuer: "https://auth.example.com", MasterKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	faults.LoseReplies(1)
	if err := store.CreateGroup(t.Context(), storage.Group{Name: "staff"}); err != nil {
		t.Fatal(err)
	}
	after := series(t, m)
	if got := storeCounts(before, after); got[called("put", "uncertain")] != "1" {
		t.Errorf("a lost reply moves %v", got)
	}
	before = after
	faults.SetDown(true)
	if _, err := backend.Get(t.Context(), "gatehouse:user:ada"); err == nil {
		t.Fatal("a store that is down answers")
	}
	faults.SetDown(false)
	step("a store that is down", map[string]string{called("get", "failed"): "1"})
	faults.SetRoom(storage.RoomTight)
	step("little room", map[string]string{"gatehouse_store_room": "1"})
}

// Another copy of the database is counted once, however often it answers.
func TestLineageChanges(t *testing.T) {
	m, backend, faults := measured(t)
	for _, lineage := range []storage.Lineage{"a", "a", "b", "b", "a"} {
		faults.SetLineage(lineage)
		if _, err := backend.Lineage(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := series(t, m)["gatehouse_store_lineage_changes_total"]; got != "2" {
		t.Errorf("%s changes, want 2", got)
	}
}
