package templates

import (
	"strings"
	"unicode"
)

// Limits in characters for what is shown of text that others chose.
const (
	maxName    = 80
	maxURI     = 300
	maxMessage = 1000
	maxUser    = 256
)

// maxMarks is how many combining marks may follow one character. Some scripts need
// two; towers of them leave their line and cover the text above.
const maxMarks = 2

// clean makes text of unknown origin safe to look at: no control, format or private-use
// characters (among them every direction override), no blanks that pretend to be
// letters, single spaces, few combining marks.
func clean(s string) string {
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

// invisible reports characters that people cannot see but that change what they see.
func invisible(r rune) bool {
	switch r {
	case unicode.ReplacementChar, '\u115f', '\u1160', '\u2800', '\u3164', '\uffa0':
		return true
	}
	return !unicode.IsPrint(r)
}

// brief cleans s and cuts it to max characters. An ellipsis shows the cut.
func brief(s string, max int) string {
	// A character has at most four bytes: nothing is looked at twice, however long s is.
	cut := clean(firstBytes(s, max*16))
	if runes := []rune(cut); len(runes) > max {
		return string(runes[:max-1]) + "…"
	} else if len(s) > max*16 {
		return cut + "…"
	}
	return cut
}

// address cleans a host or URI and cuts its middle, because its beginning says how it
// is reached and its end says who owns it.
func address(s string) string {
	if len(s) > 2*maxURI {
		s = s[:maxURI] + "…" + s[len(s)-maxURI:]
	}
	runes := []rune(clean(s))
	if len(runes) <= maxURI {
		return string(runes)
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
