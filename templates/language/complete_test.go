package language_test

import (
	"slices"
	"strings"
	"testing"

	"gatehouse.example/templates/language"
)

// TestEveryLanguageIsComplete: each language has each English sentence, in the forms that it
// distinguishes, with the same places for values.
func TestEveryLanguageIsComplete(t *testing.T) {
	en := language.English()
	for _, l := range language.Languages() {
		for _, id := range en.IDs() {
			if !slices.Contains(l.IDs(), id) {
				t.Errorf("sentences/%s.txt lacks %s", l.Tag, id)
				continue
			}
			if want, got := en.Forms(id), l.Forms(id); (len(want) > 1) != (len(got) > 1 || got[0] != "") {
				t.Errorf("sentences/%s.txt: %s has the forms %q, and in English %q", l.Tag, id, got, want)
			} else if len(want) > 1 && !slices.Equal(got, l.Counts()) {
				t.Errorf("sentences/%s.txt: %s has the forms %q, and the language distinguishes %q", l.Tag, id, got, l.Counts())
			}
			// A sentence for one thing need not show the number.
			if want, got := without(en.Places(id), "count"), without(l.Places(id), "count"); !slices.Equal(got, want) {
				t.Errorf("sentences/%s.txt: %s has places for %q, and in English for %q", l.Tag, id, got, want)
			}
		}
		for _, id := range l.IDs() {
			if !slices.Contains(en.IDs(), id) {
				t.Errorf("sentences/%s.txt has %s, which English has not", l.Tag, id)
			}
		}
	}
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// TestCounts checks the plural rules with the examples of the Unicode CLDR.
func TestCounts(t *testing.T) {
	for tag, want := range map[string]string{"en": "other one other", "de": "other one other", "fr": "one one other", "es": "other one other", "ja": "other other other", "zh-Hans": "other other other"} {
		l := language.Tagged(tag)
		if l == nil {
			t.Errorf("there is no %s", tag)
			continue
		}
		var got []string
		for n := range 3 {
			got = append(got, l.Form(n))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: 0, 1, 2 have the forms %q, want %s", tag, got, want)
		}
	}
}
