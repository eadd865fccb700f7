package trail_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse.example/audit/trail"
)

// rename does what a rotation does first.
func (p *place) rename(to string) {
	p.t.Helper()
	if err := os.Rename(p.path, p.path+to); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) refused(when string) {
	p.t.Helper()
	if _, err := trail.Open(p.t.Context(), p.config()); !errors.Is(err, trail.ErrInUse) {
		p.t.Fatalf("%s a second writer gets the error %v", when, err)
	}
}

// TestOneWriterWhileItRotates: between the renaming of the file and the first line of the next one
// another writer is refused, and the first one goes on in the new file. The lock is removed with its
// file, and comes back.
func TestOneWriterWhileItRotates(t *testing.T) {
	p := newPlace(t)
	tr := p.open()
	tr.Record(signedIn(1))
	p.rename(".1")
	p.refused("after the renaming")
	tr.Look()
	p.refused("in the new file")
	tr.Record(signedIn(2))
	lock := filepath.Join(filepath.Dir(p.path), ".audit.jsonl.lock")
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	p.refused("without the lock, by the file itself,")
	tr.Look()
	p.rename(".2")
	p.refused("with a lock that came back")
	tr.Look()
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := p.want("three files", nil, p.path, p.path+".1", p.path+".2"); len(v.Chains) != 1 {
		t.Errorf("they are %+v", v.Chains)
	}
	if p.log.Len() > 0 {
		t.Errorf("the log is %s", p.log)
	}
}

// TestOneWriterByAnotherName: a folder that has two names is one folder.
func TestOneWriterByAnotherName(t *testing.T) {
	p := newPlace(t)
	p.open()
	other := filepath.Join(t.TempDir(), "logs")
	if err := os.Symlink(filepath.Dir(p.path), other); err != nil {
		t.Fatal(err)
	}
	p.rename(".1")
	p.path = filepath.Join(other, "audit.jsonl")
	p.refused("by another name")
}

// TestWithoutRoomForTheLock: where no lock can be kept no trail begins.
func TestWithoutRoomForTheLock(t *testing.T) {
	p := newPlace(t)
	if err := os.Mkdir(filepath.Join(filepath.Dir(p.path), ".audit.jsonl.lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := trail.Open(t.Context(), p.config()); err == nil || !strings.Contains(err.Error(), ".audit.jsonl.lock") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(p.path); err == nil {
		t.Error("it made a file")
	}
}

// takenOver opens the place a second time while the first trail is open, as a process does that
// sees neither its lock nor its file: on another machine, or after somebody removed them.
func (p *place) takenOver() (first, second *trail.Trail) {
	p.t.Helper()
	first = p.open()
	first.Record(signedIn(1))
	if err := os.Remove(filepath.Join(filepath.Dir(p.path), ".audit.jsonl.lock")); err != nil {
		p.t.Fatal(err)
	}
	p.rename(".1")
	return first, p.open()
}

// TestAnotherProcessHasThePlace: a writer that lost its lock to another one writes nothing to the
// file of that one, leaves the head of that one alone, and says both.
func TestAnotherProcessHasThePlace(t *testing.T) {
	p := newPlace(t)
	first, second := p.takenOver()
	first.Look()
	first.Look()
	first.Record(signedIn(2))
	second.Record(signedIn(3))
	if err := first.Keep(t.Context()); !errors.Is(err, trail.ErrHeadOfAnother) {
		t.Errorf("the head of another process is replaced: %v", err)
	}
	if !first.Figures().HeadFailing || second.Figures().HeadFailing {
		t.Errorf("the figures are %+v and %+v", first.Figures(), second.Figures())
	}
	if err := second.Close(t.Context()); err != nil {
		t.Errorf("the other process: %v", err)
	}
	if err := first.Close(context.Background()); !errors.Is(err, trail.ErrHeadOfAnother) {
		t.Errorf("at its end: %v", err)
	}
	v := p.want("both files", nil, p.path, p.path+".1")
	if len(v.Chains) != 2 || v.Chains[0].Lines+v.Chains[1].Lines != 7 {
		t.Errorf("the files are %+v", v.Chains)
	}
	for _, want := range []string{"another process has the path of the audit trail", "the head of the audit trail cannot be kept"} {
		if strings.Count(p.log.String(), want) != 1 {
			t.Errorf("the log is not once %q: %s", want, p.log)
		}
	}
}

// TestTheHeadOfEarlierProcesses: a store from a backup has the head of a process of long ago, one
// that lost its last writes an earlier head of this process. Both are replaced, and so is that of the
// process before if the clock was set back since.
func TestTheHeadOfEarlierProcesses(t *testing.T) {
	p := newPlace(t)
	p.whole()
	backup := p.heads.copy()
	p.whole()
	tr := p.open()
	tr.Record(signedIn(1))
	if err := tr.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := p.heads.copy()
	for what, kept := range map[string]map[string]trail.Head{"of a backup": backup, "that was lost": before, "that is gone": {}} {
		tr.Record(signedIn(2))
		p.heads.kept = kept
		if err := tr.Keep(t.Context()); err != nil {
			t.Errorf("a head %s: %v", what, err)
		}
	}
	p.kill()
	config := p.config()
	config.Now = func() time.Time { return time.Now().Add(-time.Hour) }
	tr, err := trail.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Close(t.Context()); err != nil {
		t.Errorf("with a clock that was set back: %v", err)
	}
}

// TestForeignWrites: what somebody else writes into the file, or cuts off, is noticed.
func TestForeignWrites(t *testing.T) {
	p := newPlace(t)
	tr := p.open()
	tr.Record(signedIn(1))
	tr.Look()
	if n := tr.Figures().Disturbed; n != 0 || p.log.Len() > 0 {
		t.Errorf("its own lines disturb it %d times: %s", n, p.log)
	}
	other, err := os.OpenFile(p.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.WriteString("a line of another machine\n"); err != nil {
		t.Fatal(err)
	}
	tr.Look()
	tr.Look()
	if err := os.Truncate(p.path, 0); err != nil {
		t.Fatal(err)
	}
	tr.Record(signedIn(2))
	tr.Look()
	if n := tr.Figures().Disturbed; n != 2 || strings.Count(p.log.String(), "somebody else changed the file of the audit trail") != 2 {
		t.Errorf("it was disturbed %d times: %s", n, p.log)
	}
}
