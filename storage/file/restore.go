package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	bolt "go.etcd.io/bbolt"

	"gatehouse.example/storage"
)

// backupKey is the key in the bucket meta of the mark of a backup: the moment of which it is one.
var backupKey = []byte("backup")

// momentFormat is the form of that moment, in UTC.
const momentFormat = "2006-01-02T15:04:05.000Z07:00"

// BackupError is the error of [Open] for a backup without [Options.Restore].
type BackupError struct {
	Path   string
	Moment time.Time
}

func (e *BackupError) Error() string {
	return fmt.Sprintf("storage/file: %s: it is a backup of %s that no server has opened yet", e.Path, e.Moment.Format(time.RFC3339))
}

// decodeMark reads the mark of a backup.
func decodeMark(raw []byte) (time.Time, error) {
	raw, err := checked(metaBucket, backupKey, raw)
	if err != nil {
		return time.Time{}, err
	}
	of, err := time.Parse(momentFormat, string(raw))
	if err != nil || of.IsZero() {
		return time.Time{}, damaged("its mark as a backup has no moment")
	}
	return of.UTC(), nil
}

// restore makes the store of a server of a backup, in one transaction: it draws a new lineage,
// removes what ends with the old one, and the mark.
func restore(db *bolt.DB, random io.Reader) (storage.Lineage, error) {
	lineage, err := storage.RestoredLineage(random)
	if err != nil {
		return "", err
	}
	err = guarded(func() error {
		return db.Update(func(tx *bolt.Tx) error {
			for _, prefix := range storage.EndedByRestoring() {
				if err := removeAll(tx, []byte(prefix)); err != nil {
					return err
				}
			}
			meta := tx.Bucket(metaBucket)
			return errors.Join(meta.Put(lineageKey, withSum(metaBucket, lineageKey, []byte(lineage))), meta.Delete(backupKey))
		})
	})
	return lineage, err
}

// removeAll removes the items whose keys begin with a prefix.
func removeAll(tx *bolt.Tx, prefix []byte) error {
	var keys []string
	cursor := tx.Bucket(itemBucket).Cursor()
	for key, _ := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); key, _ = cursor.Next() {
		keys = append(keys, string(key))
	}
	for _, key := range keys {
		if err := remove(tx, key); err != nil {
			return err
		}
	}
	return nil
}
