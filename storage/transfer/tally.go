package transfer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/bits"
	"strings"

	"gatehouse.example/storage"
)

// Tally is how many records or entries there are, and a digest of all: the sum of their SHA-256
// hashes modulo 2^256, which does not depend on their order.
type Tally struct {
	Count  int
	digest [4]uint64 // the most significant word first
}

// Digest returns the digest in hexadecimal.
func (t Tally) Digest() string {
	var out [sha256.Size]byte
	for i, word := range t.digest {
		binary.BigEndian.PutUint64(out[i*8:], word)
	}
	return hex.EncodeToString(out[:])
}

// MarshalJSON implements [json.Marshaler]: count and digest.
func (t Tally) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"count": t.Count, "digest": t.Digest()})
}

// with returns the tally with one more, of which every part counts.
func (t Tally) with(parts ...[]byte) Tally {
	hash := sha256.New()
	for _, part := range parts {
		_, _ = hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		_, _ = hash.Write(part)
	}
	sum, carry := hash.Sum(nil), uint64(0)
	for i := len(t.digest) - 1; i >= 0; i-- {
		t.digest[i], carry = bits.Add64(t.digest[i], binary.BigEndian.Uint64(sum[i*8:]), carry)
	}
	t.Count++
	return t
}

// tallies are tallies by kind.
type tallies map[string]Tally

func (t tallies) addItem(key string, item storage.Item) {
	kind := kindOf(key)
	t[kind] = t[kind].with([]byte(key), item.Version[:], item.Data)
}

func (t tallies) addEntry(index, entry string) {
	kind := kindOf(index)
	t[kind] = t[kind].with([]byte(index), []byte(entry))
}

// kindOf returns the kind of record or index that a key is.
func kindOf(key string) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(key, storage.KeyPrefix), ":")
	return kind
}
