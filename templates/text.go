package templates

import (
	"strings"
	"unicode"
)

// The greatest lengths of text from clients and users, in characters.
const (
	maxName    = 80
	maxURI     = 300
	maxMessage = 1000
	maxUser    = 256
)

// maxMarks is the greatest number of combining marks after one character. Some scripts need
// two; longer sequences leave their line and cover the text above.
const maxMarks = 2

// clean returns s without control, format and private-use characters (which include every
// direction override), blanks that look like letters, repeated spaces and excess combining
// marks.
func clean(s string) string {
	if isClean(s) {
		return s
	}
	return cleanRunes(s)
}

func cleanRunes(s string) string {
	var b strings.Builder
	marks, space := 0, false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r) || unicode.In(r, unicode.Z):
			space = true
			continue
		case invisible(r):
			continue
		case unicode.In(r, unicode.M):
			if marks++; marks > maxMarks {
				continue
			}
		default:
			marks = 0
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(r)
	}
	return b.String()
}

// isClean reports whether a text is ASCII that clean leaves as it is. Most texts are.
func isClean(s string) bool {
	space := true // what stands before is a space, or the beginning
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == ' ' && space {
			return false
		}
		space = s[i] == ' '
	}
	return s == "" || !space
}

// invisible reports whether a character cannot be seen but changes the text around it.
func invisible(r rune) bool {
	switch r {
	case unicode.ReplacementChar, '\u115f', '\u1160', '\u2800', '\u3164', '\uffa0':
		return true
	}
	return !unicode.IsPrint(r)
}

// shorten cleans s and cuts it to max characters. An ellipsis marks the cut.
func shorten(s string, max int) string {
	// A character has at most four bytes. Cutting first bounds the work for a long s.
	cut := clean(firstBytes(s, max*16))
	if len(cut) <= max && len(s) <= max*16 {
		return cut
	}
	if runes := []rune(cut); len(runes) > max {
		return string(runes[:max-1]) + "…"
	} else if len(s) > max*16 {
		return cut + "…"
	}
	return cut
}

// address cleans a host or URI and cuts its middle, because its beginning shows the scheme
// and its end shows the owner.
func address(s string) string {
	if len(s) > 2*maxURI {
		s = s[:maxURI] + "…" + s[len(s)-maxURI:]
	}
	s = clean(s)
	if len(s) <= maxURI {
		return s
	}
	runes := []rune(s)
	if len(runes) <= maxURI {
		return s
	}
	half := maxURI / 2
	return string(runes[:half]) + "…" + string(runes[len(runes)-half:])
}

func firstBytes(s string, n int) string {
	return s[:min(len(s), n)]
}

func firstRunes(s string, n int) string {
	runes := []rune(s)
	return string(runes[:min(len(runes), n)])
}
