package main

import (
	"slices"
	"testing"

	"gatehouse.example/storage"
)

// TestGrantRevokeAll: --all ends every grant of everybody.
func TestGrantRevokeAll(t *testing.T) {
	r := newRecords(t, testKey(1))
	amy, ben := r.person("amy"), r.person("ben")
	r.client("editor", "Editor")
	want := []string{r.active(amy, "editor", nil).ID, r.code(amy, "other", nil).ID, r.active(ben, "other", nil).ID}
	got := idsOf(r.listed("revoke", "--all"))
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("printed %v, want %v", got, want)
	}
	for _, id := range want {
		if g, err := r.store.Grant(t.Context(), id); err != nil || g.State != storage.GrantRevoked {
			t.Errorf("the grant is %s, %v", g.State, err)
		}
	}
}
