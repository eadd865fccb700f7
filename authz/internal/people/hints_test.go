package people

import (
	"fmt"
	"slices"
	"testing"
)

// TestHintsAreBounded: the hints that were used last stay, and no more than the bound.
func TestHintsAreBounded(t *testing.T) {
	t.Parallel()
	h := newHints(3)
	for i := range 3 {
		h.put(fmt.Sprint(i), hint{user: "u"})
	}
	h.of("0")
	h.put("1", hint{user: "u", groups: []string{"g"}})
	h.put("3", hint{user: "u"})
	var left []string
	for _, id := range []string{"0", "1", "2", "3"} {
		if _, ok := h.of(id); ok {
			left = append(left, id)
		}
	}
	if !slices.Equal(left, []string{"0", "1", "3"}) || len(h.byID) != h.used.Len() {
		t.Errorf("left %v, %d and %d", left, len(h.byID), h.used.Len())
	}
	if got, _ := h.of("1"); !slices.Equal(got.groups, []string{"g"}) {
		t.Errorf("a hint that changed: %+v", got)
	}
	h.remove("1")
	h.remove("1")
	if _, ok := h.of("1"); ok || len(h.byID) != 2 {
		t.Error("a hint that was removed is there")
	}
}
