package serve

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"

	"gatehouse.example/storage/catalogue"
)

// A cursor is a version byte, a MAC, and the position in the list where the next page begins,
// in base64url. The MAC covers the position and the query, so a client can only use positions
// that this registry gave it: positions contain names that publishers chose.

const (
	cursorVersion = 1
	macLen        = 16
)

var cursorText = base64.RawURLEncoding.Strict()

// sealCursor returns the cursor for a position in the list of a query.
func sealCursor(key catalogue.CursorKey, query, place string) string {
	raw := append([]byte{cursorVersion}, cursorMAC(key, query, place)...)
	return cursorText.EncodeToString(append(raw, place...))
}

// openCursor returns the position of a cursor that sealCursor returned for the same query. An
// empty key means that the catalogue does not exist yet, so no cursor is valid.
func openCursor(key catalogue.CursorKey, query, cursor string) (place string, ok bool) {
	raw, err := cursorText.DecodeString(cursor)
	if err != nil || len(key) == 0 || len(raw) <= 1+macLen || raw[0] != cursorVersion {
		return "", false
	}
	place = string(raw[1+macLen:])
	if !hmac.Equal(raw[1:1+macLen], cursorMAC(key, query, place)) {
		return "", false
	}
	// The decoder ignores line breaks, so compare the text.
	return place, cursorText.EncodeToString(raw) == cursor
}

func cursorMAC(key catalogue.CursorKey, query, place string) []byte {
	return sum(key, "cursor", query, place)[:macLen]
}

// sum returns a MAC (HMAC-SHA-256) over the parts, each with its length, so that no two lists
// of parts have the same input.
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
