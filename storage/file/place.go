package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"gatehouse.example/internal/owner"
)

// openPath checks what is under a path, makes the file if it may, and returns it locked.
func openPath(o Options) (*os.File, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	if err := checkFolders(o.Path); err != nil {
		return nil, fmt.Errorf("storage/file: %s: its folder: %w", o.Path, err)
	}
	err := checkPlace(o.Path)
	if errors.Is(err, fs.ErrNotExist) && o.Create {
		if err = makeFile(o.Path, o.Rand); err == nil {
			err = checkPlace(o.Path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("storage/file: %s: %w", o.Path, err)
	}
	opened, err := os.OpenFile(o.Path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("storage/file: %w", err)
	}
	if err := lock(opened, false); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return opened, nil
}

// maxLinks is more symbolic links than a system follows for one path.
const maxLinks = 64

// checkFolders checks the folder of a file, and if its path is a symbolic link also the folder of
// each path to which that leads.
func checkFolders(path string) error {
	for links := range maxLinks {
		folder, _ := filepath.Split(path) // filepath.Dir takes x/.. for nothing, but x may be a link
		if folder == "" {
			folder = "./"
		}
		if err := checkFolder(folder); links > 0 && errors.Is(err, fs.ErrNotExist) {
			return nil // checkPlace says that the link leads nowhere
		} else if err != nil {
			return err
		}
		to, err := os.Readlink(path)
		if err != nil {
			return nil // it is no link; checkPlace says what it is
		}
		if path = to; !filepath.IsAbs(to) {
			path = folder + to
		}
	}
	return nil
}

// checkFolder checks a folder: nobody else may put another file in the place of ours.
func checkFolder(path string) error {
	folder, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !folder.IsDir():
		return errors.New("it is not a folder")
	case folder.Mode().Perm()&0o002 != 0 && folder.Mode()&fs.ModeSticky == 0:
		return fmt.Errorf("everybody may replace files in it; run chmod o-w %s", path)
	}
	return nil
}

// checkPlace checks what is under a path before it is opened. The file holds secrets, so others
// must not read it.
func checkPlace(path string) error {
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if info, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return errors.New("it is a symbolic link to a file that does not exist")
		}
	}
	if err != nil {
		return err
	}
	return checkInfo(path, info)
}

func checkInfo(path string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return errors.New("it is a folder; name a file in it")
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case info.Size() == 0:
		// An empty file would be taken for a new one.
		return fmt.Errorf("%w: it is empty", ErrDamaged)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("its permissions are %o: others may read it; run chmod 600 %s", info.Mode().Perm(), path)
	}
	user, known := owner.Of(info)
	if me := os.Geteuid(); known && me != 0 && user != me {
		return fmt.Errorf("it belongs to the user %d, and this process runs as %d", user, me)
	}
	return nil
}

// lock locks a file for this process, or for all that only read it.
func lock(opened *os.File, shared bool) error {
	for deadline := time.Now().Add(lockWait); ; <-time.After(20 * time.Millisecond) {
		locked, err := tryLock(opened, shared)
		switch {
		case err != nil:
			return fmt.Errorf("storage/file: %s: it cannot be locked: %w", opened.Name(), err)
		case locked:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%w: %s", ErrInUse, opened.Name())
		}
	}
}

// makeFile makes an empty store under another name, and gives it its own when it is complete and on
// the disk. So a crash leaves no file that looks damaged.
func makeFile(path string, random io.Reader) (err error) {
	if free, unknown := freeSpace(path); unknown == nil && free < lastSpace {
		return fmt.Errorf("its disk has %d bytes left, and a new file needs %d", free, lastSpace)
	}
	draft, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-") // permissions 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(draft.Name())) }()
	db, err := bolt.Open(draft.Name(), 0o600, &bolt.Options{
		Timeout: lockWait, FreelistType: bolt.FreelistMapType,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) { return draft, nil },
	})
	if err != nil {
		return errors.Join(err, draft.Close())
	}
	err = db.Update(func(tx *bolt.Tx) error { return create(tx, random) })
	if err := errors.Join(err, draft.Sync(), db.Close()); err != nil {
		return err
	}
	// A link, unlike a rename, never replaces a file that another process has made meanwhile.
	if err := os.Link(draft.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolderOf(path)
}

// syncFolderOf makes the name of a file survive a crash.
func syncFolderOf(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// inPlace returns an error if the file is not under its path any more. What is written to it then
// is lost with this process.
func (b *Backend) inPlace() error {
	there, err := os.Stat(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the file was removed or renamed while it was open")
	}
	if err != nil {
		return nil // it cannot be told
	}
	mine, err := b.opened.Stat()
	if err == nil && !os.SameFile(there, mine) {
		return errors.New("another file was put in its place while it was open")
	}
	return nil
}
