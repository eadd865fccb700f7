package storagetest

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/storage"
)

// SealAnew returns an item with a valid MAC for its contents, as a program with the master key
// could write it: for tests that change a record below a [storage.Store]. The key is that of the
// backend. An item in the plain form becomes one in the sealed form.
//
// SealAnew follows the format of records and does not use the code under test.
func SealAnew(t testing.TB, masterKey []byte, issuer, key string, item storage.Item) storage.Item {
	t.Helper()
	const head, header = 13, 29 // encoding version, expiry and name of the key; and the MAC
	item.Data = slices.Clone(item.Data)
	if item.Data[0] == 1 {
		plain := item.Data
		sum := sha256.Sum256(append([]byte("gatehouse master key name\x00"), masterKey...))
		item.Data = slices.Concat([]byte{2}, plain[1:9], sum[:4], make([]byte, header-head), plain[9:])
	}
	derived, err := hkdf.Key(sha256.New, masterKey, nil, "gatehouse record mac 1", 32)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, derived)
	kind, id, _ := strings.Cut(strings.TrimPrefix(key, "gatehouse:"), ":")
	for _, part := range []string{kind, id, issuer} {
		_ = binary.Write(mac, binary.BigEndian, uint32(len(part)))
		_, _ = io.WriteString(mac, part)
	}
	mac.Write(item.Version[:])
	mac.Write(item.Data[:head])
	mac.Write(item.Data[header:])
	copy(item.Data[head:header], mac.Sum(nil))
	return item
}
