// Package appendjson appends JSON values to a buffer, byte for byte as [encoding/json.Marshal] writes
// them, for the few records and answers that are written with each token. It has no reflection and,
// for the texts that occur, no allocation. What is rare is left to encoding/json.
package appendjson

import (
	"encoding/base64"
	"encoding/json"
	"time"
)

// String appends a string. A text with characters that are escaped or not ASCII goes to encoding/json.
func String(dst []byte, s string) []byte {
	for i := range len(s) {
		if !plain[s[i]] {
			quoted, _ := json.Marshal(s) // a string has no error
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// plain has the bytes of a string that encoding/json writes as they are.
var plain = func() (table [256]bool) {
	for c := byte(0x20); c < 0x7f; c++ {
		table[c] = c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	return table
}()

// Strings appends an array of strings, or null for a nil slice.
func Strings(dst []byte, list []string) []byte {
	if list == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = String(dst, s)
	}
	return append(dst, ']')
}

// Bytes appends bytes as a string in base64 (RFC 4648 section 4), or null for a nil slice.
func Bytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

// Time appends a time as RFC 3339 writes it, in nanoseconds. A year of more than four digits is an
// error, and so is an offset of a day or more.
func Time(dst []byte, t time.Time) ([]byte, error) {
	dst, err := t.AppendText(append(dst, '"'))
	return append(dst, '"'), err
}
