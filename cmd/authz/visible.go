package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Metadata that clients choose is printed on an operator's terminal, which executes control
// characters and reorders text after directional characters. These are printed escaped.

// wordOf returns a text unchanged if it is one word of printable characters, else quoted, and a
// dash if it is empty.
func wordOf(s string) string {
	switch {
	case s == "":
		return "-"
	case !utf8.ValidString(s) || strings.ContainsFunc(s, notPlain):
		return strconv.Quote(s)
	}
	return s
}

func notPlain(c rune) bool { return !unicode.IsPrint(c) || c == ' ' || c == '"' }

// wordsOf returns several words with spaces between them, a dash for none.
func wordsOf(words []string) string {
	if len(words) == 0 {
		return "-"
	}
	shown := make([]string, len(words))
	for i, word := range words {
		shown[i] = wordOf(word)
	}
	return strings.Join(shown, " ")
}

// maxQuoted is the greatest number of characters of a name that are printed.
const maxQuoted = 60

// quoted returns a name in quotation marks, so that it cannot look like output of this program.
func quoted(s string) string {
	if runes := []rune(s); len(runes) > maxQuoted {
		s = string(runes[:maxQuoted-1]) + "…"
	}
	return strconv.Quote(s)
}

// inert returns the same JSON with every character escaped that a terminal does not print.
// Outside of strings JSON has no such characters but line ends.
func inert(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, c := range string(text) {
		switch {
		case c == '\n' || unicode.IsPrint(c):
			out = utf8.AppendRune(out, c)
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, c)
		}
	}
	return out
}

// inertWriter passes JSON through inert.
type inertWriter struct{ w io.Writer }

// Write implements [io.Writer].
func (i inertWriter) Write(text []byte) (int, error) {
	if _, err := i.w.Write(inert(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// jsonArray writes a JSON array element by element. An array that is not closed is incomplete,
// and is not valid JSON.
type jsonArray struct {
	w       io.Writer
	started bool
}

func (a *jsonArray) add(v any) error {
	text, err := json.MarshalIndent(v, "  ", "  ")
	if err != nil {
		return err
	}
	before := ",\n  "
	if !a.started {
		before, a.started = "[\n  ", true
	}
	_, err = a.w.Write(append([]byte(before), inert(text)...))
	return err
}

func (a *jsonArray) close() error {
	end := "\n]\n"
	if !a.started {
		end = "[]\n"
	}
	_, err := io.WriteString(a.w, end)
	return err
}
