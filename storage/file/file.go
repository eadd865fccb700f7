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
// A file that is damaged is refused when it is opened, because every page is checked then, or when
// the damaged part is read. It is never repaired and never replaced.
package file

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
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
	// Progress, if it is not nil, is called now and then while the file is checked, with how much of
	// the check is done, in bytes that have no other meaning.
	Progress func(done, total int64)
	// Restore lets the file be a backup, which becomes the store of a server: a new lineage is
	// drawn for it, and what [storage.EndedByRestoring] names is removed, in one transaction.
	// Without it a backup is a [BackupError], and is not changed.
	Restore bool
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
	opened  *os.File // which bbolt closes
	clock   clock
	lineage storage.Lineage
	backup  time.Time

	readers   readers
	committer committer
	space     space
	pools     *storage.Pools
	chores    sync.Mutex // housekeeping is done by one at a time

	ctx     context.Context // ends when the backend is closed
	stop    context.CancelFunc
	stopped sync.WaitGroup
	closing sync.Once
	closed  error
}

// maxSize is the size up to which the file may grow: 64 GiB, or 1 GiB on systems of 32 bits. That
// much address space is reserved when it is opened, because bbolt would wait for all readers to end
// before it reserves more.
const maxSize = 1 << (30 + 6*(^uint(0)>>63))

// growth is how much the file grows at a time, in bytes.
const growth = 4 << 20

// lockWait is how long opening waits for the process before, which may be about to end.
const lockWait = time.Second

// Open opens the file. The errors [ErrInUse] and [ErrDamaged] name the path. The whole file is read
// and checked, as by [Verify].
func Open(o Options) (*Backend, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Progress == nil {
		o.Progress = untold
	}
	opened, err := openPath(o)
	if err != nil {
		return nil, err
	}
	checked, err := settled(opened, o.Path, o.Progress)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("storage/file: %s: %w", o.Path, err), opened.Close())
	}
	if !checked.copied.IsZero() && !o.Restore {
		return nil, errors.Join(&BackupError{o.Path, checked.copied}, opened.Close())
	}
	db, err := openBolt(opened)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("storage/file: %s: %w", o.Path, err), opened.Close())
	}
	db.AllocSize = growth
	if !checked.copied.IsZero() {
		if checked.lineage, err = restore(db, o.Rand); err != nil {
			return nil, fmt.Errorf("storage/file: %s: the backup cannot become a store: %w", o.Path, closeBolt(db, opened, err))
		}
	}
	b := &Backend{db: db, path: o.Path, opened: opened, lineage: checked.lineage, backup: checked.copied}
	b.clock.wall = o.Now
	b.pools = storage.NewPools(b.clock.now)
	b.space.path = o.Path
	b.space.measure()
	b.committer = newCommitter(b)
	b.readers.db, b.readers.lost, b.readers.gone = db, b.committer.lost, &b.committer.broken
	b.ctx, b.stop = context.WithCancel(context.Background())
	b.stopped.Go(func() { b.committer.run(b.ctx) })
	b.stopped.Go(func() { b.housekeeping(b.ctx) })
	return b, nil
}

// settled checks a file after it made sure that the disk has what is read. A process that was
// killed may have left a state that only the memory of the system has.
func settled(opened *os.File, path string, told progress) (*content, error) {
	if err := errors.Join(opened.Sync(), syncFolderOf(path)); err != nil {
		return nil, err
	}
	info, err := opened.Stat()
	if err != nil {
		return nil, err
	}
	if r, err := readRoots(opened, info.Size()); err == nil && !r.clean {
		forgetCache(opened)
	}
	return verify(opened, told)
}

// openBolt opens the database in a file that is locked and checked.
func openBolt(opened *os.File) (db *bolt.DB, err error) {
	err = guarded(func() (err error) {
		db, err = bolt.Open(opened.Name(), 0o600, &bolt.Options{
			Timeout: lockWait, FreelistType: bolt.FreelistMapType, PreLoadFreelist: true,
			InitialMmapSize: maxSize, MaxSize: maxSize, NoStatistics: true,
			OpenFile: func(string, int, os.FileMode) (*os.File, error) { return opened, nil },
		})
		return err
	})
	if errors.Is(err, berrors.ErrInvalid) || errors.Is(err, berrors.ErrChecksum) || errors.Is(err, berrors.ErrVersionMismatch) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return db, err
}

// The buckets of the file.
var (
	metaBucket    = []byte("meta")    // about the file itself
	itemBucket    = []byte("items")   // key → item
	expiryBucket  = []byte("expiry")  // time and key of items that end
	entryBucket   = []byte("entries") // entries of indexes
	countBucket   = []byte("counts")  // index → number of its entries
	buckets       = [][]byte{metaBucket, itemBucket, expiryBucket, entryBucket, countBucket}
	lineageKey    = []byte("lineage")
	formatKey     = []byte("format")
	currentFormat = []byte("gatehouse 1")
)

// create makes the buckets of a new file and its lineage.
func create(tx *bolt.Tx, random io.Reader) error {
	for _, name := range buckets {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	id := make([]byte, 16)
	if _, err := io.ReadFull(random, id); err != nil {
		return err
	}
	meta, lineage := tx.Bucket(metaBucket), []byte("file "+hex.EncodeToString(id))
	return errors.Join(meta.Put(formatKey, currentFormat), meta.Put(lineageKey, withSum(metaBucket, lineageKey, lineage)),
		meta.Put(digestKey, digest{}.encode()))
}

// Lineage returns the lineage of the file, which was drawn when it was made or, for a backup, when it
// was opened. A copy that was made in another way than by [Backup] has the same one: what was used
// since then can be used again there.
func (b *Backend) Lineage(context.Context) (storage.Lineage, error) { return b.lineage, nil }

// Restored returns the moment of which the file was a backup before it was opened here, and zero
// for any other file.
func (b *Backend) Restored() time.Time { return b.backup }

// Close finishes the writes that have begun and closes the file.
func (b *Backend) Close() error {
	b.closing.Do(func() { b.closed = b.close() })
	return b.closed
}

func (b *Backend) close() error {
	b.stop()
	b.stopped.Wait()
	if b.committer.broken.Load() {
		return b.named(b.opened.Close()) // the lock on the file ends with it
	}
	var err error
	if b.committer.failure() == nil && b.space.refuses() == nil {
		// Of the two roots in the file, the older one leads to the state before the last change.
		// With one more change that changes nothing, both lead to the last state.
		err = guarded(func() error { return b.db.Update(func(*bolt.Tx) error { return nil }) })
	}
	if errors.Is(err, ErrDamaged) { // bbolt panicked
		return b.named(errors.Join(err, b.opened.Close()))
	}
	b.readers.close()
	return b.named(errors.Join(err, b.db.Close()))
}

// named adds the path to an error.
func (b *Backend) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("storage/file: %s: %w", b.path, err)
}
