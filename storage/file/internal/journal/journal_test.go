package journal_test

import (
	"strings"
	"testing"

	"gatehouse.example/internal/deptest"
	"gatehouse.example/storage"
	"gatehouse.example/storage/file/internal/journal"
	"gatehouse.example/storage/redis"
)

func TestDeps(t *testing.T) { deptest.Check(t) }

const a, b, c = "61616161616161616161616161616161", "62626262626262626262626262626262", "63636363636363636363636363636363"

const none = "00000000000000000000000000000000"

// TestJournalFinds: the journal finds what it is for.
func TestJournalFinds(t *testing.T) {
	store, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	// What is there: b, which replaced a.
	put := storage.Put{Key: "k", Data: []byte(strings.Repeat(b, 1+int('6')%16*int('2')%16)), If: storage.Always}
	copy(put.Operation[:], strings.Repeat("b", 16))
	if _, err := store.Put(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	for _, entry := range []string{a, b} {
		if err := store.IndexAdd(t.Context(), "all", entry); err != nil {
			t.Fatal(err)
		}
	}
	tries := "try k " + none + " " + a + "\ntry k " + a + " " + b + "\ntry k " + a + " " + c + "\n"
	tests := []struct{ name, lines, want string }{
		{"all is there", "did k " + none + " " + a + "\ndid k " + a + " " + b + "\n", ""},
		{"the last one is not acknowledged", "did k " + none + " " + a + "\n", ""},
		{"a lost write that was only read", "saw k " + c + "\n", "does not come after"},
		{"a lost write", "did k " + none + " " + a + "\ndid k " + a + " " + c + "\n", "does not come after"},
		{"two winners", "did k " + a + " " + b + "\ndid k " + a + " " + c + "\n", "both"},
		{"a lost item", "did other " + none + " " + a + "\n", "not found"},
	}
	for _, tt := range tests {
		j := journal.New()
		_, err := j.Read(strings.NewReader(tries + tt.lines + "did k cut o"))
		if err == nil {
			err = j.Check(t.Context(), store)
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
	}
}
