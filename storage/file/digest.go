package file

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// digest is the sum of the hashes of all values in the file, whatever their order; that of the
// bucket meta is not in it. Every transaction keeps it up to date, under digestKey in meta.
//
// A checksum tells that a value is one that was written, and not that it is the last one. If the
// disk loses the write of one page, the page that was there before stays in its place, and all in it
// fits. The digest does not fit then.
type digest [2]uint64

var digestKey = []byte("digest")

// hashOf returns the hash of a value with its checksum, the first 16 bytes of a SHA-256.
func hashOf(bucket, key, raw []byte) (d digest) {
	hash, size := sha256.New(), make([]byte, 0, sha256.Size)
	size = append(size, byte(len(bucket)))
	size = binary.BigEndian.AppendUint32(size, uint32(len(key)))
	for _, part := range [][]byte{size, bucket, key, raw} {
		_, _ = hash.Write(part)
	}
	sum := hash.Sum(size[:0])
	return digest{binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:])}
}

func (d *digest) add(h digest)  { d[0], d[1] = d[0]+h[0], d[1]+h[1] }
func (d *digest) take(h digest) { d[0], d[1] = d[0]-h[0], d[1]-h[1] }

func (d digest) encode() []byte {
	raw := make([]byte, 0, 16+sumSize)
	raw = binary.BigEndian.AppendUint64(raw, d[0])
	raw = binary.BigEndian.AppendUint64(raw, d[1])
	return withSum(metaBucket, digestKey, raw)
}

func decodeDigest(raw []byte) (d digest, err error) {
	raw, err = checked(metaBucket, digestKey, raw)
	if err == nil && len(raw) != 16 {
		err = fmt.Errorf("%w: its digest has %d bytes", ErrDamaged, len(raw))
	}
	if err != nil {
		return d, err
	}
	return digest{binary.BigEndian.Uint64(raw), binary.BigEndian.Uint64(raw[8:])}, nil
}

// putValue puts a value into a bucket other than meta. It and [dropValue] are the only ways to change one.
func putValue(tx *bolt.Tx, bucket, key, value []byte) error {
	raw := withSum(bucket, key, value)
	if err := replace(tx, bucket, key, raw); err != nil {
		return err
	}
	return tx.Bucket(bucket).Put(key, raw)
}

// dropValue removes a value from a bucket other than meta, if it is there.
func dropValue(tx *bolt.Tx, bucket, key []byte) error {
	if err := replace(tx, bucket, key, nil); err != nil {
		return err
	}
	return tx.Bucket(bucket).Delete(key)
}

// replace changes the digest for a value that replaces what is under a key; nil for none. What is
// there is not replaced if it is damaged.
func replace(tx *bolt.Tx, bucket, key, raw []byte) error {
	meta := tx.Bucket(metaBucket)
	d, err := decodeDigest(meta.Get(digestKey))
	if err != nil {
		return err
	}
	if before := tx.Bucket(bucket).Get(key); before != nil {
		if _, err := checked(bucket, key, before); err != nil {
			return err
		}
		d.take(hashOf(bucket, key, before))
	}
	if raw != nil {
		d.add(hashOf(bucket, key, raw))
	}
	return meta.Put(digestKey, d.encode())
}
