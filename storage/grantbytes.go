package storage

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// In the sealed form, the body of a grant is this, in a third of the bytes of its JSON:
//
//	version          1; JSON begins with {
//	flags            one byte: see Grant.flags
//	times            created, sign-in, code expires, rotated, expires, idle expires, access until
//	texts            client, person, name, name of the client, from, redirect URI
//	secrets          hash of the code, challenge, seed; or what stands for a spent code, and the seed
//	generation       a number
//	texts            why it is revoked, lineage
//	access           a number of permissions; each is a resource and a list of scopes
//	lists            resources, scopes, audience: each only if its flag says so
//
// The id is not in it: it is that of the key. One grant has one body, and grantReader accepts no
// other. An empty list and no list are the same.
//
//   - A number is an unsigned varint (encoding/binary) of the fewest bytes.
//   - A time is in milliseconds: 0 for the zero time, else one more than its difference to another
//     one, as a number that alternates between the signs. Created is compared with 1970, the last two
//     with rotated, and all others with created; in place of a zero time counts what it is compared with.
//   - A text is a head and bytes. Heads below 4 are the forms of texts below. Any other head is four
//     times the number of bytes, and which of textPrefixes comes before them.
//   - A list is the number of its texts, and these. Texts of lists are numbered as they appear for
//     the first time, and n of them have appeared: a head below n is the text of that number, and n is
//     added to the head of a new one.
//   - Secrets of the usual lengths have no heads, and the seed lacks the byte of its version. Others
//     are, in this order, a number of bytes and these, a text, and a number of bytes and these. The
//     last of the states is that of an active grant whose code is spent, with a seed under a pad.
const compactBody = 1

// The bits of the flags. The lowest two are the index in compactStates, or stateSpent.
const (
	flagRefreshable = 1 << (iota + 2)
	flagUnanswered
	flagResources // they are not those of the access
	flagScopes    // they are not those of the access
	flagAudience  // it is not all resources
	flagSecrets   // they have not the usual lengths

	stateBits  = 3
	stateSpent = 3
)

var compactStates = [...]GrantState{GrantCode, GrantActive, GrantRevoked, stateSpent: GrantActive}

// The forms of texts.
const (
	textEmpty   = 0
	textID      = 1 // an id of [Store.NewID]: its 16 bytes
	textLineage = 2 // a replication id of Redis, 40 hexadecimal digits: its 20 bytes
	textPlain   = 4 // and above
)

// textPrefixes are what most URIs in grants begin with.
var textPrefixes = [textPlain]string{"", "https://", "http://127.0.0.1:", "http://localhost:"}

const (
	seedLen      = sealedHeader + 32 + 16
	challengeLen = 43
)

// The first and the last moment of which a grant can have a time; the first is the zero time.
var (
	firstMilli = time.Time{}.UnixMilli()
	lastMilli  = time.Date(10000, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMilli() - 1
)

// appendCompact appends g in the compact form.
func (g Grant) appendCompact(dst []byte) ([]byte, error) {
	w := grantWriter{dst: dst, known: make([]string, 0, 4)}
	flags, err := g.flags()
	if err != nil {
		return dst, err
	}
	w.dst = append(w.dst, compactBody, flags)
	w.times(g)
	for _, s := range [...]string{g.ClientID, g.Subject, g.UserName, g.ClientName, g.From, g.RedirectURI} {
		w.text(s, 0)
	}
	w.secrets(g, flags)
	w.number(uint64(g.Generation))
	w.text(g.RevokedBecause, 0)
	w.text(string(g.Lineage), 0)
	w.access(g.Access)
	w.listIf(flags&flagResources != 0, g.Resources)
	w.listIf(flags&flagScopes != 0, g.Scopes)
	w.listIf(flags&flagAudience != 0, g.Audience)
	return w.dst, w.err
}

// flags returns the second byte of the compact form.
func (g *Grant) flags() (flags byte, err error) {
	state := slices.Index(compactStates[:], g.State)
	if state < 0 {
		return 0, fmt.Errorf("a grant has no state %q", g.State)
	}
	var scopes [8]string
	var challenge [32]byte
	if g.State == GrantActive && g.isSpent() && g.Seed.isPadded() {
		state = stateSpent
	}
	flags = byte(state)
	set := func(bit byte, is bool) {
		if is {
			flags |= bit
		}
	}
	set(flagRefreshable, g.Refreshable)
	set(flagUnanswered, g.Unanswered)
	set(flagResources, !slices.EqualFunc(g.Access, g.Resources, func(p Permission, uri string) bool { return p.Resource == uri }))
	set(flagScopes, !slices.Equal(g.Access.appendScopes(scopes[:0]), g.Scopes))
	set(flagAudience, !slices.Equal(g.Audience, g.Resources))
	set(flagSecrets, state != stateSpent && !g.usualSecrets(&challenge))
	return flags, nil
}

// usualSecrets reports whether the secrets have the lengths of those of [Store.PrepareGrant], and
// decodes the challenge.
func (g *Grant) usualSecrets(challenge *[32]byte) bool {
	return len(g.Code) == 32 && len(g.Seed) == seedLen && g.Seed[0] == sealedVersion &&
		len(g.Challenge) == challengeLen && decodes(challenge[:], g.Challenge)
}

// decodes decodes base64url of a whole number of bytes into raw, and reports whether there is
// no other text for these bytes.
func decodes(raw []byte, s string) bool {
	var text [challengeLen]byte
	n, err := strict.Decode(raw, text[:copy(text[:], s)])
	return err == nil && n == len(raw)
}

// grantWriter appends the parts of a grant.
type grantWriter struct {
	dst   []byte
	known []string // the texts of lists so far
	err   error
}

func (w *grantWriter) number(n uint64) { w.dst = binary.AppendUvarint(w.dst, n) }

func (w *grantWriter) times(g Grant) {
	created := w.time(g.Created, 0)
	w.time(g.AuthTime, created)
	w.time(g.CodeExpires, created)
	rotated := w.time(g.Rotated, created)
	w.time(g.Expires, created)
	w.time(g.IdleExpires, rotated)
	w.time(g.AccessUntil, rotated)
}

// time appends the difference of t and an earlier time in milliseconds, and returns what a later
// time is compared with: t, or for the zero time what t was compared with.
func (w *grantWriter) time(t time.Time, earlier int64) int64 {
	ms := t.UnixMilli()
	switch {
	case ms < firstMilli || ms > lastMilli:
		w.err = errors.New("a time is not of the years 1 to 9999")
		return earlier
	case ms == firstMilli:
		w.number(0)
		return earlier
	}
	d := ms - earlier
	w.number(uint64(d<<1) ^ uint64(d>>63) + 1)
	return ms
}

// text appends a text; taken is added to its head.
func (w *grantWriter) text(s string, taken int) {
	var raw [20]byte
	switch form := textForm(s, &raw); form {
	case textEmpty:
		w.number(uint64(taken))
	case textID:
		w.number(uint64(taken + textID))
		w.dst = append(w.dst, raw[:16]...)
	case textLineage:
		w.number(uint64(taken + textLineage))
		w.dst = append(w.dst, raw[:]...)
	default:
		s = s[len(textPrefixes[form-textPlain]):]
		w.number(uint64(taken + textPlain*len(s) + form - textPlain))
		w.dst = append(w.dst, s...)
	}
}

// textForm returns the form of a text: textPlain and above are the index in textPrefixes, textPlain
// added. Of an id or a lineage it decodes the bytes.
func textForm(s string, raw *[20]byte) int {
	switch len(s) {
	case 0:
		return textEmpty
	case grantIDLen:
		if decodes(raw[:16], s) {
			return textID
		}
	case 2 * len(raw):
		if isLowerHex(s) {
			var text [2 * len(raw)]byte
			copy(text[:], s)
			_, _ = hex.Decode(raw[:], text[:])
			return textLineage
		}
	}
	for i, prefix := range textPrefixes[1:] {
		if len(s) > len(prefix) && strings.HasPrefix(s, prefix) {
			return textPlain + 1 + i
		}
	}
	return textPlain
}

func isLowerHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func (w *grantWriter) secrets(g Grant, flags byte) {
	switch {
	case flags&flagSecrets != 0:
		w.bytes(g.Code)
		w.text(g.Challenge, 0)
		w.bytes(g.Seed)
	case flags&stateBits == stateSpent:
		w.dst = append(append(w.dst, g.Code...), g.Seed[1:]...)
	default:
		var challenge [32]byte
		g.usualSecrets(&challenge)
		w.dst = append(append(append(w.dst, g.Code...), challenge[:]...), g.Seed[1:]...)
	}
}

func (w *grantWriter) bytes(b []byte) {
	w.number(uint64(len(b)))
	w.dst = append(w.dst, b...)
}

func (w *grantWriter) access(a Access) {
	w.number(uint64(len(a)))
	for _, p := range a {
		w.item(p.Resource)
		w.listIf(true, p.Scopes)
	}
}

func (w *grantWriter) listIf(write bool, list []string) {
	if !write {
		return
	}
	w.number(uint64(len(list)))
	for _, s := range list {
		w.item(s)
	}
}

// item appends a text of a list.
func (w *grantWriter) item(s string) {
	if i := slices.Index(w.known, s); i >= 0 {
		w.number(uint64(i))
		return
	}
	w.text(s, len(w.known))
	w.known = append(w.known, s)
}
