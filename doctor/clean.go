package doctor

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSaw bounds what is shown of texts from servers, in bytes.
const maxSaw = 300

// Clean returns a text that a terminal can show: without control characters and others that
// command it, and cut.
func Clean(text string) string { return clean(text) }

// clean returns a text without what could command a terminal or turn its lines around: control
// and format characters, invalid bytes and private-use characters become \x… or \u…. It cuts at
// maxSaw bytes.
func clean(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		if out.Len() >= maxSaw {
			out.WriteString("…")
			break
		}
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1, r < 0x20, r == 0x7f:
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case r == ' ' || unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S):
			out.WriteString(text[:size])
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out.String()
}

// excerpt returns the beginning of a body, in quotes.
func excerpt(body []byte) string {
	const most = 60
	if len(body) > most {
		return `"` + clean(string(body[:most])) + `…"`
	}
	return `"` + clean(string(body)) + `"`
}

// quoted returns a text in quotes.
func quoted(text string) string { return `"` + clean(text) + `"` }

// quotedAll returns texts in quotes, the first few of them.
func quotedAll(texts []string) string {
	const most = 8
	if len(texts) == 0 {
		return "none"
	}
	shown := make([]string, 0, most)
	for _, t := range texts[:min(len(texts), most)] {
		shown = append(shown, quoted(t))
	}
	if len(texts) > most {
		shown = append(shown, fmt.Sprintf("and %d more", len(texts)-most))
	}
	return strings.Join(shown, ", ")
}
