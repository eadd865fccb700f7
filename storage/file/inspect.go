package file

import (
	"errors"
	"fmt"
	"os"
	"time"

	"gatehouse.example/storage"
)

// Contents is what a check tells about a file that is whole.
type Contents struct {
	Format string
	Bytes  int64
	// Items are the stored items, those included that are over and were not removed yet. Lists are
	// the indexes that have entries, and Entries is how many they have together.
	Items, Lists, Entries int64
	Lineage               storage.Lineage
	// Backup is the moment of which the file is a backup that no server has opened yet, zero for
	// any other file.
	Backup time.Time
}

// Verify reads the whole file and checks every page, every checksum, every number and the digest.
// The error wraps [ErrDamaged] and names the path if something is not what was written, and
// [ErrInUse] if a process has the file open. Nothing is changed.
//
// [Open] does the same. It takes as long as reading the file, and memory of one bit per page.
func Verify(path string) error {
	_, err := Inspect(path, nil)
	return err
}

// Inspect is [Verify], and tells what the file has. Progress, if it is not nil, is called now and
// then with how much of the check is done, in bytes that have no other meaning.
func Inspect(path string, progress func(done, total int64)) (Contents, error) {
	if err := supported(); err != nil {
		return Contents{}, err
	}
	opened, err := os.OpenFile(path, os.O_RDONLY|withoutWaiting, 0)
	if err != nil {
		return Contents{}, fmt.Errorf("storage/file: %w", err)
	}
	defer opened.Close()
	info, err := opened.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err == nil && info.Size() == 0 {
		err = fmt.Errorf("%w: it is empty", ErrDamaged)
	}
	if err != nil {
		return Contents{}, fmt.Errorf("storage/file: %s: %w", path, err)
	}
	if err := lock(opened, true); err != nil {
		return Contents{}, err
	}
	if progress == nil {
		progress = untold
	}
	c, err := verify(opened, progress)
	if err != nil {
		return Contents{}, fmt.Errorf("storage/file: %s: %w", path, err)
	}
	return c.contents(info.Size()), nil
}

// untold is progress that nobody is told.
func untold(int64, int64) {}

func (c *content) contents(size int64) Contents {
	return Contents{
		Format: c.format, Bytes: size, Items: c.items, Lists: c.counted.lists, Entries: c.counted.entries,
		Lineage: c.lineage, Backup: c.copied,
	}
}
