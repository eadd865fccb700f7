package trail_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/audit"
	"gatehouse.example/audit/trail"
)

// TestTampering changes a file in each way, and wants it named with its line.
func TestTampering(t *testing.T) {
	p := newPlace(t)
	whole := p.whole()
	whole[len(whole)-1] = append(whole[len(whole)-1], '\n')
	p.write(bytes.Join(whole, nil))
	if v := p.want("nothing", nil); v.Chains[0].End != "head" || v.Chains[0].Lines != 8 || v.Chains[0].Last != 8 {
		t.Errorf("a whole file is %+v", v.Chains)
	}
	foreign := newPlace(t)
	foreign.key = keyOf(t, "x")
	other := foreign.whole()
	for what, test := range map[string]struct {
		change func(lines [][]byte) [][]byte
		want   []string
	}{
		"a changed text": {func(l [][]byte) [][]byte {
			l[3] = bytes.Replace(l[3], []byte(`"person":"sub"`), []byte(`"person":"bus"`), 1)
			return l
		}, []string{"changed 4"}},
		"a changed number": {func(l [][]byte) [][]byte {
			l[3] = bytes.Replace(l[3], []byte(`"seq":4`), []byte(`"seq":9`), 1)
			return l
		}, []string{"changed 4"}},
		"a changed MAC": {func(l [][]byte) [][]byte {
			at := len(l[3]) - 5
			l[3][at] = map[bool]byte{true: '1', false: '0'}[l[3][at] == '0']
			return l
		}, []string{"changed 4"}},
		"a missing line":       {func(l [][]byte) [][]byte { return slices.Delete(l, 3, 4) }, []string{"missing 4"}},
		"missing lines":        {func(l [][]byte) [][]byte { return slices.Delete(l, 2, 5) }, []string{"missing 3"}},
		"a missing first line": {func(l [][]byte) [][]byte { return l[1:] }, []string{"missing 1"}},
		"a cut-off end":        {func(l [][]byte) [][]byte { return l[:6] }, []string{"cut-off 0"}},
		"a cut-off line":       {func(l [][]byte) [][]byte { l[7] = l[7][:30]; return l }, []string{"unreadable 8", "cut-off 0"}},
		"a repeated line":      {func(l [][]byte) [][]byte { return slices.Insert(l, 5, l[3]) }, []string{"repeated 6"}},
		"reordered lines":      {func(l [][]byte) [][]byte { l[3], l[4] = l[4], l[3]; return l }, []string{"reordered 5"}},
		"a line in addition":   {func(l [][]byte) [][]byte { return slices.Insert(l, 3, []byte("{}\n")) }, []string{"unreadable 4"}},
		"a line of a stranger": {func(l [][]byte) [][]byte { l[3] = other[3]; return l }, []string{"changed 4"}},
		"all by a stranger":    {func([][]byte) [][]byte { return other }, []string{"unknown-key 1"}},
	} {
		lines := make([][]byte, len(whole))
		for i := range whole {
			lines[i] = bytes.Clone(whole[i])
		}
		p.write(bytes.Join(test.change(lines), nil))
		p.want(what, test.want)
	}
}

// TestWithoutAKey: a chain without a key says so in its first line, shows accidents, and is a fault
// for whoever has a key.
func TestWithoutAKey(t *testing.T) {
	p := newPlace(t)
	config := p.config()
	config.Key, config.Heads = nil, nil
	tr, err := trail.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	tr.Record(signedIn(1))
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	text := p.read()
	if first, _, _ := bytes.Cut(text, []byte("\n")); !bytes.Contains(first, []byte(`"keyed":false`)) || !bytes.Contains(first, []byte("accidents only")) {
		t.Errorf("the first line is %s", first)
	}
	v, err := trail.Verify(t.Context(), trail.Verifying{}, p.path)
	if err != nil || len(v.Faults) > 0 || v.Chains[0].Keyed || v.Chains[0].End != "closed" {
		t.Errorf("without keys: %+v, %v", v, err)
	}
	p.want("with keys", []string{"unkeyed 1"})
	p.write(bytes.Replace(text, []byte(`"person":"sub"`), []byte(`"person":"bus"`), 1))
	if v, err = trail.Verify(t.Context(), trail.Verifying{}, p.path); err != nil || !slices.Equal(whats(v), []string{"changed 2"}) {
		t.Errorf("an accident shows as %+v, %v", v, err)
	}
}

// TestEndsAreKnown cuts the end off at each line, with and without a head and a process that goes
// on.
func TestEndsAreKnown(t *testing.T) {
	p := newPlace(t)
	lines := p.whole()
	lines[7] = append(lines[7], '\n')
	for keep := 1; keep < len(lines); keep++ {
		p.write(bytes.Join(lines[:keep], nil))
		p.want("cut off", []string{"cut-off 0"})
		v, err := trail.Verify(t.Context(), trail.Verifying{Keys: []trail.Key{p.key}}, p.path)
		if err != nil || len(v.Faults) > 0 || v.Chains[0].End != "unknown" || !strings.Contains(v.Chains[0].Notes[0], "lines may be missing") {
			t.Errorf("without a head: %+v, %v", v, err)
		}
	}
	p.write(bytes.Join(lines[:5], nil))
	tr := p.open() // it goes on behind what is missing
	tr.Record(signedIn(7))
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := p.want("gone on", []string{"missing 6"}); !strings.Contains(v.Faults[0].Said, "6 to 8 are missing before line 6") {
		t.Errorf("it says %q", v.Faults[0].Said)
	}
	if !strings.Contains(p.log.String(), "the end of the audit trail is missing") {
		t.Errorf("the log is %s", p.log)
	}
}

// TestTheHeadMayBeBehind: a process that was killed, and a store from a backup, have an older head.
// That is no fault. A head of another line with its number is one.
func TestTheHeadMayBeBehind(t *testing.T) {
	p := newPlace(t)
	tr := p.open()
	tr.Record(signedIn(1))
	if err := tr.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr.Record(signedIn(2))
	p.kill()
	if v := p.want("killed", nil); v.Chains[0].End != "head" || v.Chains[0].Last != 3 {
		t.Errorf("a killed process leaves %+v", v.Chains)
	}
	next := p.open()
	next.Record(signedIn(3))
	if err := next.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.want("restarted", nil)
	for place, head := range p.heads.kept {
		head.MAC = strings.Repeat("0", 32)
		p.heads.kept[place] = head
	}
	p.want("another line", []string{"changed 0"})
}

// TestFilesThatAreGone: a file that is removed while nobody writes it is continued by number, so
// that it is missed; one of a process that was killed is named by the chain that follows.
func TestFilesThatAreGone(t *testing.T) {
	p := newPlace(t)
	p.whole()
	first := p.path + ".1"
	if err := os.Rename(p.path, first); err != nil {
		t.Fatal(err)
	}
	tr := p.open()
	tr.Record(signedIn(7))
	if err := tr.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.want("both", nil, p.path, first)
	if v := p.want("the second", nil); !slices.Equal(v.Chains[0].Notes[:1], []string{"its first 8 lines are in earlier files, which were not given"}) {
		t.Errorf("the second file alone: %+v", v.Chains)
	}
	p.want("the first", []string{"cut-off 0"}, first)
	p.rename(".2")
	p.kill()
	third := p.open()
	third.Record(signedIn(8))
	if v := p.want("three", nil, first, p.path, p.path+".2"); len(v.Chains) != 2 {
		t.Errorf("three files have %d chains", len(v.Chains))
	}
	cut := bytes.SplitAfter(mustRead(t, p.path+".2"), []byte("\n"))
	if err := os.WriteFile(p.path+".2", cut[0], 0o600); err != nil {
		t.Fatal(err)
	}
	p.want("the second cut off", []string{"cut-off 0"}, first, p.path, p.path+".2")
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestKeysChange: lines stay under the key of their process.
func TestKeysChange(t *testing.T) {
	p := newPlace(t)
	p.whole()
	old := p.key
	p.key = keyOf(t, "n")
	config := p.config()
	config.OldKeys = []trail.Key{old}
	tr, err := trail.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	tr.Record(audit.Event{Kind: audit.Denied, By: audit.ByPerson})
	if err := tr.Close(t.Context()); err != nil || p.log.Len() > 0 {
		t.Errorf("closed with %v; the log is %s", err, p.log)
	}
	v, err := trail.Verify(t.Context(), trail.Verifying{Keys: []trail.Key{p.key, old}, Heads: p.heads}, p.path)
	if err != nil || len(v.Faults) > 0 {
		t.Errorf("with both keys: %+v, %v", v, err)
	}
	p.want("with the new key", []string{"unknown-key 1"})
}

// TestWithoutAHead: of a chain whose head nobody keeps, as that of a gateway, lines that were cut off
// show while the file has no closing line, and do not show when it was cut back to an earlier one, or
// removed as a whole, or when a process went on behind the cut.
func TestWithoutAHead(t *testing.T) {
	p := newPlace(t)
	run := func(events int) {
		config := p.config()
		config.Heads = nil
		tr, err := trail.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		for n := range events {
			tr.Record(signedIn(n))
		}
		if err := tr.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ends := func(what, want string) {
		t.Helper()
		v, err := trail.Verify(t.Context(), trail.Verifying{Keys: []trail.Key{p.key}}, p.path)
		if err != nil || len(v.Faults) > 0 || v.Chains[0].End != want {
			t.Errorf("%s: %+v, %v, want the end %q", what, v, err, want)
		}
	}
	run(2) // lines 1 to 4
	run(2) // lines 5 to 8
	lines := bytes.SplitAfter(p.read(), []byte("\n"))
	ends("nothing", "closed")
	p.write(bytes.Join(lines[:6], nil))
	ends("without the last lines", "unknown")
	p.write(bytes.Join(lines[:4], nil))
	ends("without the second run", "closed")
	p.write(bytes.Join(lines[:6], nil))
	run(1)
	ends("without the end of the second run, which a third follows", "closed")
	if err := os.Remove(p.path); err != nil {
		t.Fatal(err)
	}
	run(1)
	ends("without the file", "closed")
}
