// Package file keeps a store in one file, for installations of one machine that run no other
// server. It is a [storage.Backend] on bbolt, a B+ tree that copies what it changes.
//
// A write is answered when it is on the disk (fsync). Writes that wait at the same time share one
// transaction, and so one fsync. A read sees only what is on the disk: never a write that a crash
// could still undo.
//
// One process has the file open at a time; a second one is refused. A disk that is full makes
// writes [storage.ErrFull], until there is space again. After any other failure of a write the
// state of the disk is unknown, so the backend refuses everything until it is opened anew.
//
// A file that is damaged is refused when it is opened, or when the damaged part is read. It is
// never repaired and never replaced.
package file

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"gatehouse.example/storage"
)

// Options are the settings of a backend.
type Options struct {
	// Path is the path of the file. Its folder must exist.
	Path string
	// Create makes the file if it does not exist. Without it a missing file is an error that wraps
	// [fs.ErrNotExist], so that a command that was given another path does not make a second store.
	Create bool
	// Now is the clock by which items end; nil means time.Now.
	Now func() time.Time
	// Rand is the source of the lineage; nil means crypto/rand.Reader.
	Rand io.Reader
}

var (
	// ErrInUse means that another process has the file open.
	ErrInUse = errors.New("storage/file: another process has the file open")
	// ErrDamaged means that the content of the file is not what was written.
	ErrDamaged = errors.New("storage/file: the file is damaged")
)

// Backend is a store in a file. It is safe for concurrent use.
type Backend struct {
	db      *bolt.DB
	path    string
	now     func() time.Time
	lineage storage.Lineage

	readers   readers
	committer committer
	space     space

	stop    context.CancelFunc
	stopped sync.WaitGroup
}

// maxSize is the size up to which the file may grow. That much address space is reserved when it is
// opened, because bbolt would wait for all readers to end before it reserves more.
const maxSize = 1 << 36

// lockWait is how long opening waits for the process before, which may be about to end.
const lockWait = time.Second

// Open opens the file. The errors [ErrInUse] and [ErrDamaged] name the path.
func Open(o Options) (*Backend, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if err := checkFile(o.Path, o.Create); err != nil {
		return nil, err
	}
	db, err := openBolt(o.Path)
	if err != nil {
		return nil, err
	}
	b := &Backend{db: db, path: o.Path, now: o.Now}
	if b.lineage, err = prepare(db, o.Rand); err != nil {
		return nil, errors.Join(b.named(err), db.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	b.space.path = o.Path
	b.space.measure()
	b.readers.open(db)
	b.committer = newCommitter(b)
	b.stopped.Go(func() { b.committer.run(ctx) })
	b.stopped.Go(func() { b.housekeeping(ctx) })
	return b, nil
}

// checkFile checks what is under a path before it is opened. The file holds secrets, so others
// must not read it.
func checkFile(path string, create bool) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && create:
		folder, err := os.Stat(filepath.Dir(path))
		if err == nil && !folder.IsDir() {
			err = errors.New("its folder is not a folder")
		}
		if err != nil {
			return fmt.Errorf("storage/file: %s: %w", path, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("storage/file: %s: %w", path, err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("storage/file: %s: it is not a regular file", path)
	case info.Size() == 0:
		// An empty file would be taken for a new one.
		return fmt.Errorf("storage/file: %s: %w: it is empty", path, ErrDamaged)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("storage/file: %s: its permissions are %o: others may read it; run chmod 600 %s", path, info.Mode().Perm(), path)
	}
	return nil
}

// openBolt opens the database. A new file is made under another name and renamed when it is
// complete, so that a crash leaves no file that looks damaged.
func openBolt(path string) (*bolt.DB, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := makeFile(path); err != nil {
			return nil, fmt.Errorf("storage/file: %s: %w", path, err)
		}
	}
	var db *bolt.DB
	err := guarded(func() (err error) {
		db, err = bolt.Open(path, 0o600, &bolt.Options{
			Timeout: lockWait, FreelistType: bolt.FreelistMapType, PreLoadFreelist: true, InitialMmapSize: maxSize,
		})
		return err
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, fmt.Errorf("%w: %s", ErrInUse, path)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch), errors.Is(err, ErrDamaged):
		return nil, fmt.Errorf("storage/file: %s: %w: %w", path, ErrDamaged, err)
	case err != nil:
		return nil, fmt.Errorf("storage/file: %s: %w", path, err)
	}
	return db, nil
}

// makeFile makes an empty database and syncs its folder, so that the name survives a crash too.
func makeFile(path string) error {
	draft := path + ".new"
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := bolt.Open(draft, 0o600, &bolt.Options{Timeout: lockWait})
	if err != nil {
		return err
	}
	if err := errors.Join(db.Sync(), db.Close()); err != nil {
		return err
	}
	// A link, unlike a rename, never replaces a file that another process has made meanwhile.
	if err := os.Link(draft, path); err != nil {
		return err
	}
	if err := os.Remove(draft); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// The buckets of the file.
var (
	metaBucket    = []byte("meta")    // about the file itself
	itemBucket    = []byte("items")   // key → item
	expiryBucket  = []byte("expiry")  // time and key of items that end
	entryBucket   = []byte("entries") // entries of indexes
	countBucket   = []byte("counts")  // index → number of its entries
	lineageKey    = []byte("lineage")
	formatKey     = []byte("format")
	currentFormat = []byte("gatehouse 1")
)

// prepare makes the buckets of a new file and returns the lineage. A file of another program or
// of a later format is refused.
func prepare(db *bolt.DB, random io.Reader) (lineage storage.Lineage, err error) {
	err = guarded(func() error {
		return db.Update(func(tx *bolt.Tx) error {
			meta := tx.Bucket(metaBucket)
			if meta == nil {
				if name, _ := tx.Cursor().First(); name != nil {
					return errors.New("it belongs to another program")
				}
				return create(tx, random, &lineage)
			}
			if format := meta.Get(formatKey); string(format) != string(currentFormat) {
				return fmt.Errorf("its format %.40q is not known to this program", format)
			}
			for _, name := range [][]byte{itemBucket, expiryBucket, entryBucket, countBucket} {
				if tx.Bucket(name) == nil {
					return fmt.Errorf("%w: the part %s is missing", ErrDamaged, name)
				}
			}
			lineage = storage.Lineage(meta.Get(lineageKey))
			return nil
		})
	})
	return lineage, err
}

func create(tx *bolt.Tx, random io.Reader, lineage *storage.Lineage) error {
	for _, name := range [][]byte{metaBucket, itemBucket, expiryBucket, entryBucket, countBucket} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	id := make([]byte, 16)
	if _, err := io.ReadFull(random, id); err != nil {
		return err
	}
	*lineage = storage.Lineage("file " + hex.EncodeToString(id))
	return errors.Join(tx.Bucket(metaBucket).Put(formatKey, currentFormat), tx.Bucket(metaBucket).Put(lineageKey, []byte(*lineage)))
}

// Lineage returns the lineage of the file. A copy that is opened as a backup has another one.
func (b *Backend) Lineage(context.Context) (storage.Lineage, error) { return b.lineage, nil }

// Close finishes the writes that have begun and closes the file.
func (b *Backend) Close() error {
	b.stop()
	b.stopped.Wait()
	b.readers.close()
	return b.db.Close()
}

// named adds the path to an error.
func (b *Backend) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("storage/file: %s: %w", b.path, err)
}
