package serve

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"

	"gatehouse.example/storage/catalogue"
)

// A cursor is a version byte, a MAC, and the place in the list where the next page begins,
// as base64url. The MAC is over that place and the query, so that nobody goes on where we
// did not send him: a place of our lists is made of what strangers chose.

const (
	cursorVersion = 1
	macLen        = 16
)

var cursorText = base64.RawURLEncoding.Strict()

// sealCursor returns the cursor for a place in the list of a query.
func sealCursor(key catalogue.CursorKey, query, place string) string {
	raw := append([]byte{cursorVersion}, cursorMAC(key, query, place)...)
	return cursorText.EncodeToString(append(raw, place...))
}

// openCursor returns the place, if the cursor is exactly one that sealCursor returns for it.
// Without a key there was no catalogue yet, and no cursor.
func openCursor(key catalogue.CursorKey, query, cursor string) (place string, ok bool) {
	raw, err := cursorText.DecodeString(cursor)
	if err != nil || len(key) == 0 || len(raw) <= 1+macLen || raw[0] != cursorVersion {
		return "", false
	}
	place = string(raw[1+macLen:])
	if !hmac.Equal(raw[1:1+macLen], cursorMAC(key, query, place)) {
		return "", false
	}
	// The decoder overlooks line breaks.
	return place, cursorText.EncodeToString(raw) == cursor
}

func cursorMAC(key catalogue.CursorKey, query, place string) []byte {
	return sum(key, "cursor", query, place)[:macLen]
}

// sum is a MAC over parts, each of which stays apart from the others.
func sum(key catalogue.CursorKey, parts ...string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		writePart(mac, part)
	}
	return mac.Sum(nil)
}

func writePart(to hash.Hash, part string) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(part)))
	_, _ = to.Write(length[:])
	_, _ = to.Write([]byte(part))
}
