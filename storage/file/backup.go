package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Backup makes a backup: a copy of a store in a new file at path, with permissions 0600, which is
// marked as one and was read back from the disk. It never replaces a file: the error then wraps
// [fs.ErrExist]. After any error there is no file at path. Progress, if it is not nil, is called now
// and then with how much is done, in units that have no other meaning.
//
// A process that is killed meanwhile may leave a hidden file beside path, whose name begins with a
// dot and that of path.
func Backup(ctx context.Context, path string, from Source, progress func(done, total int64)) (c Contents, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("storage/file: %s: %w", path, err)
		}
	}()
	if err := checkFolder(filepath.Dir(path)); err != nil {
		return Contents{}, fmt.Errorf("its folder: %w", err)
	}
	if _, err := os.Lstat(path); err == nil {
		return Contents{}, fs.ErrExist
	}
	if progress == nil {
		progress = untold
	}
	draft, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-") // permissions 0600
	if err != nil {
		return Contents{}, err
	}
	defer func() { err = errors.Join(err, os.Remove(draft.Name())) }()
	d := &draftCopy{file: draft, progress: progress}
	err = from.Snapshot(ctx, d.begin)
	if err == nil {
		err = d.incomplete()
	}
	if err = errors.Join(err, draft.Close()); err != nil {
		return Contents{}, err
	}
	if err := mark(draft.Name(), d.of); err != nil {
		return Contents{}, err
	}
	if c, err = readBack(draft.Name(), d.checked); err != nil {
		return Contents{}, fmt.Errorf("the copy cannot be used: %w", err)
	}
	if err := context.Cause(ctx); err != nil {
		return Contents{}, err
	}
	if err := named(draft.Name(), path); err != nil {
		return Contents{}, err
	}
	return c, nil
}

// named gives a copy that is complete its name, or none if the name may be lost.
func named(draft, path string) error {
	// A link, unlike a rename, never replaces a file that another process has made meanwhile.
	if err := os.Link(draft, path); err != nil {
		return err
	}
	if err := syncFolderOf(path); err != nil {
		return errors.Join(fmt.Errorf("its name may be lost with the power: %w", err), os.Remove(path))
	}
	return nil
}

// draftCopy is a copy that is being written.
type draftCopy struct {
	file       *os.File
	of         time.Time
	done, size int64
	progress   func(done, total int64)
}

func (d *draftCopy) begin(of time.Time, size int64) (io.Writer, error) {
	if free, unknown := freeSpace(d.file.Name()); unknown == nil && free < size {
		return nil, fmt.Errorf("its disk has %d bytes left, and the copy needs %d", free, size)
	}
	d.of, d.size = of, size
	return d, nil
}

func (d *draftCopy) Write(p []byte) (int, error) {
	n, err := d.file.Write(p)
	d.done += int64(n)
	d.progress(d.done, 3*d.size)
	return n, err
}

// checked is told the progress of the check, which is as much work as to write the copy twice.
func (d *draftCopy) checked(done, total int64) {
	d.progress(d.size+int64(float64(done)/float64(total)*2*float64(d.size)), 3*d.size)
}

func (d *draftCopy) incomplete() error {
	if d.done != d.size || d.size == 0 {
		return fmt.Errorf("the copy has %d bytes instead of %d", d.done, d.size)
	}
	return nil
}

// mark records in a copy that it is one, and of when.
func mark(path string, of time.Time) error {
	opened, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	db, err := openBolt(opened)
	if err != nil {
		return errors.Join(err, opened.Close())
	}
	db.AllocSize = 1 << 16
	err = guarded(func() error {
		return db.Update(func(tx *bolt.Tx) error {
			return tx.Bucket(metaBucket).Put(backupKey, withSum(metaBucket, backupKey, []byte(of.Format(momentFormat))))
		})
	})
	if err == nil { // both roots lead to the marked state; see Close
		err = guarded(func() error { return db.Update(func(*bolt.Tx) error { return nil }) })
	}
	return closeBolt(db, opened, err)
}

// closeBolt closes a database after its last use, which returned an error or nil.
func closeBolt(db *bolt.DB, opened *os.File, err error) error {
	if errors.Is(err, ErrDamaged) { // bbolt panicked, and may hold locks
		return errors.Join(err, opened.Close())
	}
	return errors.Join(err, db.Close())
}

// readBack checks a copy as the disk has it.
func readBack(path string, progress progress) (Contents, error) {
	opened, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return Contents{}, err
	}
	err = opened.Sync()
	forgetCache(opened)
	if err := errors.Join(err, opened.Close()); err != nil {
		return Contents{}, err
	}
	return Inspect(path, progress)
}
