package catalogue_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"gatehouse.example/storage/catalogue"
)

// TestStateIsDecodedAgain: a reader that has read a state before reads every later one, and whoever
// changes the bytes of a state that was returned changes it for nobody else.
func TestStateIsDecodedAgain(t *testing.T) {
	b := newPlain()
	w, reader := openCatalogue(t, catalogueOn(t, b)), catalogueOn(t, b)
	defer w.Close(t.Context())
	key := bytes.Clone(w.State().CursorKey)
	for n := range 10 {
		progress := fmt.Sprint(n)
		page := []catalogue.Entry{server("a", "1", progress, "latest")}
		if err := w.Commit(t.Context(), page, json.RawMessage(progress)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			st, err := reader.State(t.Context())
			if err != nil || string(st.Progress) != progress || !bytes.Equal(st.CursorKey, key) || st.Committed != w.State().Committed {
				t.Fatalf("after %d commits the state is %+v, %v; want %+v", n+1, st, err, w.State())
			}
			clear(st.Progress)
			clear(st.CursorKey)
		}
	}
}
