package file

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Every value in the file but the name of the format ends with a checksum of its bucket, its key
// and itself. So a value that is damaged, or under another key than its own, is never returned.
const sumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the checksum of a value under a key. It finds accidents: who can write the file can write
// a checksum too. Records are sealed against that by [storage.Store].
func sum(bucket, key, value []byte) uint32 {
	return crc32.Update(crc32.Update(crc32.Checksum(bucket, castagnoli), castagnoli, key), castagnoli, value)
}

// withSum appends the checksum to a value.
func withSum(bucket, key, value []byte) []byte {
	return binary.BigEndian.AppendUint32(value, sum(bucket, key, value))
}

// checked returns a value without its checksum, or [ErrDamaged].
func checked(bucket, key, raw []byte) ([]byte, error) {
	end := len(raw) - sumSize
	if end < 0 || binary.BigEndian.Uint32(raw[end:]) != sum(bucket, key, raw[:end]) {
		return nil, fmt.Errorf("%w: a value in the part %s is not what was written", ErrDamaged, bucket)
	}
	return raw[:end:end], nil
}
