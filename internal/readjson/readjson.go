// Package readjson reads JSON objects whose members stand in a known order, as package appendjson writes
// them, without reflection: the few records that are read with each page and each token. What it reads,
// [encoding/json.Unmarshal] reads as the same value. It does not read everything that encoding/json
// reads: whoever is told that a text has another form gives that to encoding/json.
package readjson

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// text returns the string at the beginning of s, and what follows it. A string with characters that are
// escaped or not ASCII goes to encoding/json; any other is a part of s.
func text(s string) (value, rest string, ok bool) {
	if value, rest, ok = plainText(s); ok || s == "" || s[0] != '"' {
		return value, rest, ok
	}
	end := endOfString(s, 0)
	if end == len(s) {
		return "", "", false
	}
	var unquoted string
	err := json.Unmarshal([]byte(s[:end+1]), &unquoted)
	return unquoted, s[end+1:], err == nil
}

// plainText is text for a string without escapes, in ASCII.
func plainText(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		return "", "", false
	}
	i := 1
	for i < len(s) && plain[s[i]] {
		i++
	}
	if i == len(s) || s[i] != '"' {
		return "", "", false
	}
	return s[1:i], s[i+1:], true
}

// plain has the bytes that are the same in a string and in its JSON.
var plain = func() (is [256]bool) {
	for c := byte(' '); c <= '~'; c++ {
		is[c] = c != '"' && c != '\\'
	}
	return is
}()

// array reads an array of what read reads.
func array(s string, read func(s string) (rest string, ok bool)) (rest string, ok bool) {
	if s == "" || s[0] != '[' {
		return "", false
	}
	if rest, ok = strings.CutPrefix(s[1:], "]"); ok {
		return rest, true
	}
	for more := true; more; {
		if s, ok = read(s[1:]); !ok || s == "" {
			return "", false
		}
		more = s[0] == ','
	}
	return strings.CutPrefix(s, "]")
}

// list reads an array of strings.
func list(s string) (value []string, rest string, ok bool) {
	var few [8]string
	found := few[:0]
	rest, ok = array(s, func(s string) (rest string, ok bool) {
		one, rest, ok := text(s)
		found = append(found, one)
		return rest, ok
	})
	return append(make([]string, 0, len(found)), found...), rest, ok
}

// instant reads a time. [time.Time.UnmarshalText] does the same, but needs a copy.
func instant(s string) (t time.Time, rest string, ok bool) {
	value, rest, ok := plainText(s)
	if !ok {
		return time.Time{}, "", false
	}
	t, err := time.Parse(time.RFC3339, value)
	return t, rest, err == nil
}

// bytes reads bytes in base64 (RFC 4648 section 4).
func bytes(s string) (value []byte, rest string, ok bool) {
	encoded, rest, ok := plainText(s)
	if !ok {
		return nil, "", false
	}
	value, err := base64.StdEncoding.DecodeString(encoded)
	return value, rest, err == nil
}

// mostDepth bounds how deep a value is that encoding/json reads alone: it refuses one that is deeper
// than ten thousand, counted from the outermost object.
const mostDepth = 64

// value returns the value at the beginning of s, which need not be valid.
func value(s string) (it, rest string, ok bool) {
	if s == "" || !strings.Contains(`{["`, s[:1]) {
		n := max(strings.IndexAny(s, ",]}"), 0)
		return s[:n], s[n:], true
	}
	depth := 0
	for i := 0; i < len(s) && depth <= mostDepth; i++ {
		switch s[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			i = endOfString(s, i)
		}
		if depth == 0 {
			end := min(i+1, len(s))
			return s[:end], s[end:], true
		}
	}
	return "", "", false
}

// endOfString returns the place of the quote that ends the string at i, the length of s if there is none.
func endOfString(s string, i int) int {
	for i++; i < len(s) && s[i] != '"'; i++ {
		if s[i] == '\\' {
			i++
		}
	}
	return min(i, len(s))
}
