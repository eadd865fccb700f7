package trail_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/audit/trail"
)

// TestOneWriter: a file belongs to one writer, and to another one when that has ended.
func TestOneWriter(t *testing.T) {
	p := newPlace(t)
	tr := p.open()
	if _, err := trail.Open(t.Context(), p.config()); !errors.Is(err, trail.ErrInUse) {
		t.Fatalf("a second writer gets the error %v", err)
	}
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr = p.open()
	tr.Record(signedIn(1))
	p.want("two writers in turn", nil)
	notes := newPlace(t)
	notes.write([]byte("dear diary\n"))
	if _, err := trail.Open(t.Context(), notes.config()); err == nil || !strings.Contains(err.Error(), "not an audit trail") {
		t.Errorf("a file of somebody else gives the error %v", err)
	}
}

// TestRotationUnderLoad renames the file again and again while events are recorded. Every event is
// in one file, and all files are one chain.
func TestRotationUnderLoad(t *testing.T) {
	p := newPlace(t)
	tr := p.open()
	const writers, events, rotations = 4, 150, 5
	var work sync.WaitGroup
	for range writers {
		work.Go(func() {
			for n := range events {
				tr.Record(signedIn(n + 1))
			}
		})
	}
	files := []string{p.path}
	for n := range rotations {
		old := fmt.Sprintf("%s.%d", p.path, n)
		if err := os.Rename(p.path, old); err != nil {
			t.Fatal(err)
		}
		tr.Reopen()
		files = append(files, old)
	}
	work.Wait()
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	v := p.want("rotated", nil, files...)
	// A first and a last line for each file, and the events.
	if len(v.Chains) != 1 || v.Chains[0].Lines != 2*(rotations+1)+writers*events {
		t.Errorf("%d lines were found: %+v", v.Chains[0].Lines, v.Chains)
	}
	if v := p.want("the last file", nil); v.Chains[0].End != "head" {
		t.Errorf("the last file alone: %+v", v.Chains)
	}
}

// TestTornLine: a process ends in the middle of a line at each of its bytes. The next one says so
// and goes on.
func TestTornLine(t *testing.T) {
	p := newPlace(t)
	lines := p.whole()
	for _, whole := range []int{0, 3} {
		for _, part := range []int{1, 8, len(lines[whole]) / 2, len(lines[whole]) - 2, len(lines[whole]) - 1} {
			if whole == 0 && part < 8 {
				continue // it does not even begin like a line
			}
			p.heads.kept = nil
			p.log.Reset()
			p.write(append(bytes.Join(lines[:whole], nil), lines[whole][:part]...))
			tr := p.open()
			tr.Record(signedIn(9))
			if err := tr.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			v := p.verify()
			torn := part < len(lines[whole])-1 // else only the line end is missing
			if said := strings.Join(v.Chains[0].Notes, ""); len(v.Faults) > 0 || len(v.Chains) != 1 || strings.Contains(said, "is not whole") != torn {
				t.Errorf("%d bytes of line %d: %+v", part, whole+1, v)
			}
			if whole > 0 && strings.Contains(p.log.String(), "is not whole") != torn {
				t.Errorf("%d bytes of line %d: the log is %s", part, whole+1, p.log)
			}
			if err := p.open().Close(t.Context()); err != nil { // and once more
				t.Fatal(err)
			}
		}
	}
}

// TestTornFirstLine: nothing was in the file yet, and it is used.
func TestTornFirstLine(t *testing.T) {
	p := newPlace(t)
	lines := p.whole()
	p.heads.kept = nil
	p.write(lines[0][:len(lines[0])/2])
	for range 2 {
		tr := p.open()
		tr.Record(signedIn(1))
		if err := tr.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if v := p.want("torn at the first line", nil); v.Chains[0].Lines != 6 {
		t.Errorf("the file is %+v", v)
	}
}

// fullDisk takes so many bytes, and then none.
type fullDisk struct {
	bytes.Buffer
	room int
}

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	d.Buffer.Write(p[:n])
	if n < len(p) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

// TestFullDisk: lines wait while the disk is full, are whole afterwards, and those that found no
// room in memory are counted.
func TestFullDisk(t *testing.T) {
	p := newPlace(t)
	disk := &fullDisk{room: 2000}
	config := p.config()
	config.Path, config.Output = "", disk
	tr, err := trail.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	big := audit.Event{Kind: audit.Operation, By: audit.ByClient, Resources: audit.Resources(slices.Repeat([]string{strings.Repeat("r", 500)}, 60)...)}
	for range 50 { // 30 KB each
		tr.Record(big)
	}
	if tr.Failing() == nil || tr.Pending() < 1<<20 || tr.Pending() > 1<<20+40<<10 {
		t.Errorf("with a full disk the error is %v, and %d bytes wait", tr.Failing(), tr.Pending())
	}
	disk.room = 1 << 30
	if err := tr.Failing(); err != nil {
		t.Errorf("with room again the error is %v", err)
	}
	tr.Record(signedIn(1))
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.write(disk.Bytes())
	p.heads = &heads{}
	v := p.want("after a full disk", nil)
	lost, written := 0, 0
	for l, err := range trail.Lines(bytes.NewReader(disk.Bytes())) {
		if err != nil {
			t.Fatal(err)
		}
		switch l.Kind {
		case audit.Operation:
			written++
		case audit.Lost:
			lost += l.Count
		}
	}
	if lost == 0 || lost+written != 50 || v.Chains[0].End != "closed" {
		t.Errorf("%d lines were written and %d lost: %+v", written, lost, v.Chains)
	}
	if log := p.log.String(); strings.Count(log, "cannot be written") != 1 || strings.Count(log, "can be written again") != 1 {
		t.Errorf("the log is %s", log)
	}
}

// TestFloodsAreCounted: what anybody can cause is written so many times a minute for each code, and
// the rest is counted. What needs a token is written each time.
func TestFloodsAreCounted(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var out bytes.Buffer
	tr, err := trail.Open(t.Context(), trail.Config{Output: &out, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 1000 {
		tr.Record(audit.Event{Kind: audit.Refused, Code: "invalid_grant"})
		tr.Record(audit.Event{Kind: audit.Refused, Code: audit.Code(fmt.Sprint(n))})
		tr.Record(audit.Event{Kind: audit.OperationRefused, Code: "no_token"})
		tr.Record(audit.Event{Kind: audit.OperationRefused, Code: "insufficient_scope", Token: "jti"})
	}
	now = now.Add(time.Minute)
	tr.Look()
	written, held := map[string]int{}, map[string]int{}
	for l, err := range trail.Lines(&out) {
		switch {
		case err != nil:
			t.Fatal(err)
		case l.Kind == audit.HeldBack:
			held[string(l.Of)+" "+string(l.Code)] += l.Count
		case l.Kind == audit.Refused && l.Code != "invalid_grant":
			written["other"]++
		default:
			written[string(l.Code)]++
		}
	}
	if written["invalid_grant"] != 20 || held["refused invalid_grant"] != 980 {
		t.Errorf("of 1000 refusals %d were written and %d counted", written["invalid_grant"], held["refused invalid_grant"])
	}
	if written["no_token"] != 60 || held["operation-refused no_token"] != 940 || written["insufficient_scope"] != 1000 {
		t.Errorf("operations: %v written, %v held", written, held)
	}
	if written["other"] > 300 || written["other"]+held["refused "] != 1000 {
		t.Errorf("of 1000 codes %d were written, %d counted", written["other"], held["refused "])
	}
}

// TestInertText: no text in a file can act on a terminal, leave its line, or is a secret.
func TestInertText(t *testing.T) {
	var out bytes.Buffer
	tr, err := trail.Open(t.Context(), trail.Config{Output: &out})
	if err != nil {
		t.Fatal(err)
	}
	hostile := "a\x1b[2J\u202e\u2028\n\x7f\x9b31m\xff😀é"
	tr.Record(audit.Event{Kind: audit.Operation, Name: audit.Name(hostile), Target: "gate_rt_" + audit.Target(strings.Repeat("A", 43))})
	text, _ := io.ReadAll(&out)
	for _, c := range text {
		if c != '\n' && (c < 0x20 || c > 0x7e) {
			t.Errorf("the file has the byte %#x: %q", c, text)
		}
	}
	var last trail.Line
	for l, err := range trail.Lines(bytes.NewReader(text)) {
		if err != nil {
			t.Fatal(err)
		}
		last = l
	}
	if want := "a\x1b[2J\u202e\u2028\n\x7f31m😀é"; string(last.Name) != want || last.Target != audit.Hidden {
		t.Errorf("it reads back as %q, %q", last.Name, last.Target)
	}
}

// BenchmarkRecord measures what an event adds to a request.
func BenchmarkRecord(b *testing.B) {
	key, err := trail.NewKey(bytes.Repeat([]byte("k"), 32), "https://auth.example.com")
	if err != nil {
		b.Fatal(err)
	}
	tr, err := trail.Open(b.Context(), trail.Config{Path: b.TempDir() + "/audit.jsonl", Key: &key})
	if err != nil {
		b.Fatal(err)
	}
	e := audit.Event{
		Kind: audit.TokenRefreshed, By: audit.ByClient, Person: "ClP8FoH6PBb_LNXM13gqpA", Client: "tts3pzQo-4XsvEzroINogw", Grant: "lQOanmMMGlUseDu5bvVYjw",
		Token: "XADBB0GHRQ-NijxJHz-z9Q", Resources: audit.Resources("https://notes.example.com/mcp"), Scopes: audit.Scopes("notes:read", "notes:write"),
	}
	for b.Loop() {
		tr.Record(e)
	}
	if err := tr.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
