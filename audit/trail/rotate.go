package trail

import (
	"os"

	"gatehouse.example/audit"
)

// Reopen goes on in a new file if the path of the trail does not name its file any more, because it
// was renamed or removed. Call it after a rotation.
func (t *Trail) Reopen() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed && t.file != nil && t.owns() && t.renamed() {
		t.rotate()
	}
}

// owns reports whether the path belongs to this process. Who removes the lock can give it to another
// one: this one then goes on in its file, whatever that is called now.
func (t *Trail) owns() bool {
	err := t.place.keep()
	if err != nil && !t.astray {
		t.cfg.Logger.Error("another process has the path of the audit trail: it goes on in the file that it has", "file", t.cfg.Path, "error", err)
	}
	t.astray = err != nil
	return err == nil
}

// measure compares the size of the file with what this process wrote.
func (t *Trail) measure() {
	info, err := t.file.Stat()
	if err != nil || info.Size() == t.size {
		return
	}
	t.cfg.Logger.Error("somebody else changed the file of the audit trail: another process writes it, or it was truncated", "file", t.cfg.Path, "bytes", info.Size(), "known", t.size)
	t.size = info.Size()
	t.figures.Disturbed++
}

// renamed reports whether the path names another file, or none.
func (t *Trail) renamed() bool {
	mine, err := t.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(t.cfg.Path)
	return os.IsNotExist(err) || err == nil && !os.SameFile(mine, there)
}

// rotate ends the file with a line that says so, and begins a new one. While lines wait for the old
// file, and if there is no new one, the old one stays.
func (t *Trail) rotate() {
	if t.flush(); len(t.pending) > 0 {
		return
	}
	next, err := openFile(t.cfg.Path)
	if err == nil {
		var info os.FileInfo
		if info, err = next.Stat(); err == nil && info.Size() > 0 {
			err = errForeign
		}
		if err != nil {
			_ = next.Close()
		}
	}
	if err != nil {
		t.cfg.Logger.Error("the audit trail goes on in its renamed file", "file", t.cfg.Path, "error", err)
		return
	}
	t.append(audit.Event{Time: t.cfg.Now(), Kind: audit.Chain, By: audit.ByServer}, &About{Why: WhyRotated, Keyed: t.cfg.Key != nil})
	if t.flush(); len(t.pending) > 0 { // the line waits for the old file, like others after it
		_ = next.Close()
		return
	}
	old := t.file
	t.file, t.out, t.size = next, next, 0
	if err := old.Sync(); err != nil {
		t.cfg.Logger.Error("the renamed audit trail may not be on the disk", "file", t.cfg.Path, "error", err)
	}
	_ = old.Close()
	t.begin(&About{Why: WhyContinued, Chain: t.chain})
}
