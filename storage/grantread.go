package storage

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// grantOf reads the body of a grant: compact or, from the plain form and from before there was the
// compact body, JSON. The times of both are whole milliseconds.
func grantOf(id string, body []byte) (Grant, error) {
	switch {
	case len(body) == 0:
		return Grant{}, errNotCompact
	case body[0] == compactBody:
		return parseCompact(id, body)
	case body[0] != '{':
		return Grant{}, fmt.Errorf("version %d of the body of a grant: %w", body[0], errLaterBody)
	}
	g, ok := parseGrant(body)
	if !ok {
		return unmarshalGrant(body)
	}
	return g.inMilliseconds(), nil
}

// unmarshalGrant reads a JSON body in a form that parseGrant does not know.
func unmarshalGrant(body []byte) (g Grant, err error) {
	err = json.Unmarshal(body, &g)
	return g.inMilliseconds(), err
}

// inMilliseconds returns g with its times as they are stored, so that what a process holds is what
// it reads later.
func (g Grant) inMilliseconds() Grant {
	for _, t := range [...]*time.Time{&g.AuthTime, &g.Created, &g.CodeExpires, &g.Rotated, &g.Expires, &g.IdleExpires, &g.AccessUntil} {
		*t = t.UTC().Truncate(time.Millisecond)
	}
	return g
}

var (
	errNotCompact = errors.New("it is not the body of a grant")
	errLaterBody  = errors.New("this program does not know it, so a later one wrote it")
)

// parseCompact reads what appendCompact has written, and nothing else. Nothing in the grant is a
// part of body.
func parseCompact(id string, body []byte) (Grant, error) {
	if len(body) < 2 || body[0] != compactBody {
		return Grant{}, errNotCompact
	}
	flags := body[1]
	r := grantReader{rest: body[2:], known: make([]string, 0, 4), lists: make([]string, 0, 8)}
	r.texts.Grow(len(body) + 32) // forms are longer as text; the secrets are no text
	g := Grant{ID: id, State: compactStates[flags&stateBits], Refreshable: flags&flagRefreshable != 0, Unanswered: flags&flagUnanswered != 0}
	r.times(&g)
	for _, to := range [...]*string{&g.ClientID, &g.Subject, &g.UserName, &g.ClientName, &g.From, &g.RedirectURI} {
		*to = r.text(0)
	}
	r.secrets(&g, flags)
	g.Generation = r.generation()
	g.RevokedBecause = r.text(0)
	g.Lineage = Lineage(r.text(0))
	g.Access = r.access()
	g.Resources = r.listOr(flags&flagResources != 0, func() { r.lists = g.Access.appendResources(r.lists) })
	g.Scopes = r.listOr(flags&flagScopes != 0, func() { r.lists = g.Access.appendScopes(r.lists) })
	g.Audience = r.listOr(flags&flagAudience != 0, func() { r.lists = append(r.lists, g.Resources...) })
	if again, err := g.flags(); r.wrong || len(r.rest) > 0 || err != nil || again != flags {
		return Grant{}, errNotCompact
	}
	return g, nil
}

// grantReader reads what a grantWriter has written. After anything else, wrong is set.
type grantReader struct {
	rest  []byte
	known []string        // the texts of lists so far
	texts strings.Builder // all texts
	lists []string        // all lists
	wrong bool
}

// bad notes that what comes next is not what a grantWriter writes; nothing more is read.
func (r *grantReader) bad() {
	r.wrong, r.rest = true, nil
}

func (r *grantReader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || n > 1 && r.rest[n-1] == 0 { // a last byte of zero is one too many
		r.bad()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// take returns the next n bytes, none if there are not as many.
func (r *grantReader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.bad()
		return nil
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *grantReader) generation() uint32 {
	n := r.number()
	if n > 1<<32-1 {
		r.bad()
	}
	return uint32(n)
}

func (r *grantReader) times(g *Grant) {
	created := r.time(&g.Created, 0)
	r.time(&g.AuthTime, created)
	r.time(&g.CodeExpires, created)
	rotated := r.time(&g.Rotated, created)
	r.time(&g.Expires, created)
	r.time(&g.IdleExpires, rotated)
	r.time(&g.AccessUntil, rotated)
}

// time reads what [grantWriter.time] wrote, and returns what that returned.
func (r *grantReader) time(to *time.Time, earlier int64) int64 {
	n := r.number()
	if n == 0 {
		return earlier
	}
	n--
	d := int64(n>>1) ^ -int64(n&1)
	if d < firstMilli-lastMilli || d > lastMilli-firstMilli || earlier+d <= firstMilli || earlier+d > lastMilli {
		r.bad()
		return earlier
	}
	*to = time.UnixMilli(earlier + d).UTC()
	return earlier + d
}

// text reads a text; taken was added to its head.
func (r *grantReader) text(taken uint64) string {
	head := r.number() - taken
	from := r.texts.Len()
	switch head {
	case textEmpty:
	case textID:
		var text [grantIDLen]byte
		r.texts.Write(strict.AppendEncode(text[:0], r.take(16)))
	case textLineage:
		var text [40]byte
		r.texts.Write(hex.AppendEncode(text[:0], r.take(20)))
	default:
		return r.plain(head)
	}
	return r.texts.String()[from:]
}

// plain reads a text of which no form has fewer bytes. So a prefix alone is none.
func (r *grantReader) plain(head uint64) string {
	from := r.texts.Len()
	form := head % textPlain
	r.texts.WriteString(textPrefixes[form])
	r.texts.Write(r.take(head / textPlain))
	s := r.texts.String()[from:]
	var raw [20]byte
	if textForm(s, &raw) != textPlain+int(form) {
		r.bad()
	}
	return s
}

func (r *grantReader) secrets(g *Grant, flags byte) {
	switch {
	case flags&flagSecrets != 0:
		g.Code = append(SecretHash(nil), r.take(r.number())...)
		g.Challenge = r.text(0)
		g.Seed = append(Sealed(nil), r.take(r.number())...)
	case flags&stateBits == stateSpent:
		r.spentSecrets(g)
	default:
		r.usualSecrets(g)
	}
}

func (r *grantReader) spentSecrets(g *Grant) {
	secrets := make([]byte, spentLen+paddedLen)
	code, seed := secrets[:spentLen:spentLen], secrets[spentLen:]
	copy(code, r.take(spentLen))
	seed[0] = paddedVersion
	copy(seed[1:], r.take(paddedLen-1))
	g.Code, g.Seed = code, seed
}

func (r *grantReader) usualSecrets(g *Grant) {
	from := r.texts.Len()
	secrets := make([]byte, 32+seedLen)
	code, seed := secrets[:32:32], secrets[32:]
	copy(code, r.take(32))
	var text [challengeLen]byte
	r.texts.Write(strict.AppendEncode(text[:0], r.take(32)))
	seed[0] = sealedVersion
	copy(seed[1:], r.take(seedLen-1))
	g.Code, g.Challenge, g.Seed = code, r.texts.String()[from:], seed
}

// count returns the length of a list. Each of its elements has a byte or more.
func (r *grantReader) count() int {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.bad()
		return 0
	}
	return int(n)
}

func (r *grantReader) access() Access {
	n := r.count()
	if n == 0 {
		return nil
	}
	a := make(Access, n)
	for i := range a {
		a[i].Resource = r.item()
		a[i].Scopes = r.listOr(true, nil)
	}
	return a
}

// listOr reads a list, or appends one to lists if it is not there.
func (r *grantReader) listOr(there bool, add func()) []string {
	from := len(r.lists)
	if there {
		for range r.count() {
			r.lists = append(r.lists, r.item())
		}
	} else {
		add()
	}
	if len(r.lists) == from {
		return nil
	}
	return r.lists[from:len(r.lists):len(r.lists)]
}

// item reads a text of a list.
func (r *grantReader) item() string {
	at := r.rest
	if i := r.number(); i < uint64(len(r.known)) {
		return r.known[i]
	}
	r.rest = at
	s := r.text(uint64(len(r.known)))
	if slices.Contains(r.known, s) {
		r.bad()
	}
	r.known = append(r.known, s)
	return s
}
