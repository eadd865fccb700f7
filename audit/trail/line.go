package trail

import (
	"bytes"
	"crypto/hmac"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"gatehouse.example/audit"
)

// The reasons of a line of the file about itself, [About.Why].
const (
	WhyBegan     = "began"     // the first line of a chain
	WhyContinued = "continued" // the first line of a file that continues the chain of another one
	WhyRestarted = "restarted" // another process goes on with the file
	WhyRotated   = "rotated"   // the last line of a file whose chain another one continues
	WhyClosed    = "closed"    // the last line of a process that ended regularly
)

// format is the version of the form of a line.
const format = 1

// About is what a line of kind [audit.Chain] says about its file. Lines with [WhyRotated] and
// [WhyClosed] have Why and Keyed alone.
type About struct {
	Why    string `json:"why"`
	Format int    `json:"format,omitempty"`
	Chain  string `json:"chain,omitempty"`
	// Keyed says whether the lines from here on have a MAC, KeyName under which key. Without
	// one, Note says what that means.
	Keyed   bool   `json:"keyed"`
	KeyName string `json:"key_name,omitempty"`
	Note    string `json:"note,omitempty"`
	Host    string `json:"host,omitempty"`
	File    string `json:"file,omitempty"`
	Program string `json:"program,omitempty"`
	// Torn is the size of the line before, in bytes, if a process ended in the middle of it.
	Torn int `json:"torn,omitempty"`
	// After is the head of another chain that was kept for the same host and file before.
	After *Head `json:"after,omitempty"`
}

const unkeyedNote = "without a key this chain shows accidents only"

// Line is a line of a file.
type Line struct {
	Seq uint64 `json:"seq"`
	audit.Event
	About *About `json:"about,omitempty"`
	Prev  string `json:"prev"`

	text []byte // what the MAC is over
	mac  mac
}

// lineStart begins each line.
const lineStart = `{"seq":`

// The end of a line: the member mac in hexadecimal.
const (
	macMember = `,"mac":"`
	macEnd    = `"}`
	endLen    = len(macMember) + 2*len(mac{}) + len(macEnd)
)

// line returns the text of a line with its line end, and its MAC. A nil key makes hashes.
func (k *Key) line(seq uint64, prev mac, e audit.Event, about *About) ([]byte, mac) {
	body, err := json.Marshal(Line{Seq: seq, Event: e, About: about, Prev: prev.String()})
	if err != nil { // a year beyond 9999
		body, _ = json.Marshal(Line{Seq: seq, Event: audit.Event{Kind: audit.Lost, Count: 1}, Prev: prev.String()})
	}
	text := ascii(body[:len(body)-1])
	sum := k.sum(text)
	return append(text, macMember+sum.String()+macEnd+"\n"...), sum
}

// ascii escapes in JSON what is not printable ASCII, so that no terminal reacts to a file.
func ascii(text []byte) []byte {
	out := make([]byte, 0, len(text)+endLen+1)
	for len(text) > 0 {
		c, n := utf8.DecodeRune(text)
		text = text[n:]
		switch {
		case c < 0x7f:
			out = append(out, byte(c))
		case c > 0xffff:
			hi, lo := utf16.EncodeRune(c)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, c)
		}
	}
	return out
}

var errNoLine = errors.New("not a line of an audit trail")

// parse reads a line without its line end. It does not check the MAC.
func parse(raw []byte) (Line, error) {
	var l Line
	head, end, ok := bytes.Cut(raw[max(len(raw)-endLen, 0):], []byte(macMember))
	if !ok || len(head) != 0 || len(raw) < endLen || !bytes.HasSuffix(end, []byte(macEnd)) {
		return l, errNoLine
	}
	if _, err := hex.Decode(l.mac[:], end[:len(end)-len(macEnd)]); err != nil { // endLen is that of a whole one
		return l, errNoLine
	}
	if err := json.Unmarshal(raw, &l); err != nil || l.Seq == 0 || (l.Kind == audit.Chain) != (l.About != nil) {
		return l, errNoLine
	}
	l.text = raw[:len(raw)-endLen]
	return l, nil
}

// genuine reports whether the MAC of a line is right under a key, nil for hashes.
func (l Line) genuine(k *Key) bool {
	sum := k.sum(l.text)
	return hmac.Equal(sum[:], l.mac[:])
}
