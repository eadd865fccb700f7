package storagetest

import (
	"iter"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// auditPlaces returns the hosts and paths of a list of heads.
func auditPlaces(list iter.Seq2[storage.AuditHeadAt, error]) (places []string, err error) {
	for h, err := range list {
		if err != nil {
			return places, err
		}
		places = append(places, h.Host+" "+h.File)
	}
	return places, nil
}

// testAuditHeads: each head is listed once, with its place, as long as it is kept; the entry of one
// that is gone goes too. A head without an entry, of an earlier release, is read, and listed when it
// is kept next.
func testAuditHeads(t *testing.T, f *fixture) {
	ctx, host := t.Context(), unique("host")
	keep := func(file string, seq uint64) string {
		t.Helper()
		err := f.KeepAuditHead(ctx, host, file, storage.AuditHead{Chain: "c", Seq: seq, MAC: "00", Writer: "w"})
		wantError(t, "KeepAuditHead", err, nil)
		return f.backend.last(t).Key
	}
	places := func(what string, want ...string) {
		t.Helper()
		got, err := auditPlaces(f.AuditHeads(ctx))
		wantError(t, "AuditHeads", err, nil)
		var mine []string
		for _, place := range got {
			if len(place) > len(host) && place[:len(host)] == host {
				mine = append(mine, place[len(host)+1:])
			}
		}
		wantEntries(t, what, mine, want...)
	}
	second := keep("/b/audit.jsonl", 1)
	keep("/a b/audit.jsonl", 1)
	keep("/a b/audit.jsonl", 2)
	places("two heads", "/a b/audit.jsonl", "/b/audit.jsonl")
	const index = "gatehouse:audit-heads:all"
	wantError(t, "IndexRemove", f.backend.IndexRemove(ctx, index, host+"\x00/a b/audit.jsonl"), nil)
	h, err := f.AuditHead(ctx, host, "/a b/audit.jsonl")
	wantError(t, "AuditHead", err, nil)
	if h.Seq != 2 || h.Writer != "w" {
		t.Errorf("the head is %+v", h)
	}
	places("one without an entry", "/b/audit.jsonl")
	keep("/a b/audit.jsonl", 3)
	places("with an entry again", "/a b/audit.jsonl", "/b/audit.jsonl")
	wantError(t, "Delete", f.backend.Delete(ctx, second), nil)
	places("one that is gone", "/a b/audit.jsonl")
	for _, entry := range page(t, f.backend, index, "", 1000) {
		if entry == host+"\x00/b/audit.jsonl" {
			t.Error("the entry of a head that is gone is still there")
		}
	}
	f.clock.advance(401 * 24 * time.Hour)
	places("one that nobody kept for 400 days")
}
