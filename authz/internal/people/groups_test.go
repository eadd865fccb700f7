package people

import (
	"fmt"
	"testing"
	"time"
)

// TestLaterAnswersStay: an answer that was asked for earlier, and comes later, changes nothing. One from
// the future counts for nothing: the clock was set back.
func TestLaterAnswersStay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	g := newGroups(func() time.Time { return now })
	for _, step := range []struct {
		what  string
		asked time.Duration
		id    string
		want  string
	}{
		{"the first answer", -2 * time.Second, "1", "1"}, {"an earlier one", -3 * time.Second, "2", "1"}, {"a later one", -time.Second, "3", "3"},
		{"one of a group that is gone", 0, "", ""}, {"an earlier one", -time.Second, "4", ""},
	} {
		g.learn(now.Add(step.asked), map[string]string{"g": step.id})
		if ids, unknown := g.look([]string{"g"}); ids["g"] != step.want || len(unknown) != 0 {
			t.Errorf("%s: %q, %d unknown, want %q", step.what, ids["g"], len(unknown), step.want)
		}
	}
	now = now.Add(-time.Hour)
	g.learn(now, map[string]string{"g": "5"})
	if ids, unknown := g.look([]string{"g"}); ids["g"] != "5" || len(unknown) != 0 {
		t.Errorf("after the clock was set back: %q, %d unknown", ids["g"], len(unknown))
	}
}

// TestKnownGroupsAreBounded: any number of names leaves a bounded number known.
func TestKnownGroupsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	g := newGroups(func() time.Time { return now })
	for i := range 2*maxKnown + 1 {
		name := fmt.Sprint(i)
		g.learn(now, map[string]string{name: "id"})
		if ids, _ := g.look([]string{name}); ids[name] != "id" || len(g.known) > maxKnown {
			t.Fatalf("after %d names: %q, and %d are known", i, ids[name], len(g.known))
		}
	}
}
