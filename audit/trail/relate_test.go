package trail_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/audit/trail"
)

// begins opens the place after its file is gone, writes a line and keeps the head.
func (p *place) begins() *trail.Trail {
	p.t.Helper()
	tr := p.open()
	tr.Record(signedIn(1))
	if err := tr.Keep(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	return tr
}

// TestChainsThatWereNotGiven: a chain that follows the one of a process that was killed says so when
// that is not among the files; one that the store knows to be later is a fault, and one that a store
// from a backup knows is not.
func TestChainsThatWereNotGiven(t *testing.T) {
	p := newPlace(t)
	p.begins()
	p.kill()
	backup := p.heads.copy()
	p.rename(".1")
	p.begins()
	p.kill()
	p.rename(".2")
	p.begins()
	note := func(v trail.Verified, want string) {
		t.Helper()
		if !strings.Contains(strings.Join(v.Chains[0].Notes, "; "), want) {
			t.Errorf("the notes are %q, want %q", v.Chains[0].Notes, want)
		}
	}
	p.want("all", nil, p.path, p.path+".1", p.path+".2")
	note(p.want("the last", nil, p.path), "it follows the chain "+p.verify(p.path + ".2").Chains[0].Chain+", which had 2 lines or more and whose files were not given")
	v := p.want("the first", []string{"missing 0"}, p.path+".1")
	if !strings.Contains(v.Faults[0].Said, "is in none of the files") {
		t.Errorf("it says %q", v.Faults[0].Said)
	}
	p.want("without the second", nil, p.path, p.path+".1")
	p.heads.kept = backup
	note(p.want("with the store of a backup", nil, p.path), "the store keeps the head of an earlier chain")
}

// TestLostChainIsNamed: what a process that was killed wrote is named by the process that follows, and
// that its end is missing shows, also if the file has a part of a first line or another chain by then.
func TestLostChainIsNamed(t *testing.T) {
	for name, left := range map[string]func(older, lost []byte) []byte{
		"nothing":                func([]byte, []byte) []byte { return nil },
		"a part of a first line": func(_, lost []byte) []byte { return lost[:40] },
		"an older chain":         func(older, _ []byte) []byte { return older },
	} {
		p := newPlace(t)
		p.begins()
		p.kill()
		older := p.read()
		p.rename(".0")
		p.begins().Record(signedIn(2))
		if err := p.last.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.kill()
		lost := p.read()
		chain := p.verify().Chains[0].Chain
		p.rename(".1")
		p.write(left(older, lost))
		for range 2 { // the head of the lost chain is gone after the first
			p.begins()
			p.kill()
		}
		v := p.want(name, nil, p.path)
		if notes := strings.Join(v.Chains[0].Notes, "; "); !strings.Contains(notes, "it follows the chain "+chain+", which had 3 lines or more") {
			t.Errorf("%s: the notes are %q", name, notes)
		}
		p.want(name+" and what was lost", nil, p.path, p.path+".1")
		if err := os.WriteFile(p.path+".1", lost[:bytes.LastIndexByte(lost[:len(lost)-1], '\n')+1], 0o600); err != nil {
			t.Fatal(err)
		}
		p.want(name+" and what was lost, cut off", []string{"cut-off 0"}, p.path, p.path+".1")
	}
}

// TestTrailsThatWereNotGiven: of the trails that the store knows, those of which no file is there are
// named, and are faults if all are wanted.
func TestTrailsThatWereNotGiven(t *testing.T) {
	p := newPlace(t)
	p.whole()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	gone := trail.Head{Chain: "c", Seq: 7, MAC: "00", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	p.heads.kept["gone.example.com "+p.path] = gone
	p.heads.kept[host+" /elsewhere.jsonl"] = gone
	v := p.want("one of three", nil)
	want := []trail.PlacedHead{{Host: "gone.example.com", Path: p.path, Head: gone}, {Host: host, Path: "/elsewhere.jsonl", Head: gone}}
	slices.SortFunc(v.NotGiven, func(a, b trail.PlacedHead) int { return strings.Compare(b.Path, a.Path) })
	slices.SortFunc(want, func(a, b trail.PlacedHead) int { return strings.Compare(b.Path, a.Path) })
	if !slices.Equal(v.NotGiven, want) {
		t.Errorf("not given are %+v", v.NotGiven)
	}
	v, err = trail.Verify(t.Context(), trail.Verifying{Keys: []trail.Key{p.key}, Heads: p.heads, All: true}, p.path)
	if err != nil || !slices.Equal(whats(v), []string{"missing 0", "missing 0"}) || !strings.Contains(v.Faults[0].Said+v.Faults[1].Said, "gone.example.com") {
		t.Errorf("all are wanted: %+v, %v", v, err)
	}
}
