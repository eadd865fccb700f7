package storage

import (
	"encoding/base64"
	"strconv"
	"time"

	"gatehouse.example/internal/appendjson"
)

// The grant is the record that is read and written with each token. Here it is written and read
// without reflection, in the bytes of encoding/json, which reads whatever has another form: a grant
// of another program, with a text that is escaped, or damaged.

// appendJSON appends g as encoding/json writes it.
func (g Grant) appendJSON(dst []byte) ([]byte, error) {
	w := jsonWriter{dst: append(dst, '{')}
	w.text(`"id":`, g.ID)
	w.text(`,"state":`, string(g.State))
	w.text(`,"client":`, g.ClientID)
	w.text(`,"sub":`, g.Subject)
	w.textIfAny(`,"user":`, g.UserName)
	w.access(g.Access)
	w.dst = appendjson.Strings(append(w.dst, `,"resources":`...), g.Resources)
	w.listIfAny(`,"scopes":`, g.Scopes)
	w.listIfAny(`,"audience":`, g.Audience)
	w.time(`,"auth_time":`, g.AuthTime)
	w.time(`,"created":`, g.Created)
	w.textIfAny(`,"client_name":`, g.ClientName)
	w.textIfAny(`,"from":`, g.From)
	w.dst = appendjson.Bytes(append(w.dst, `,"code":`...), g.Code)
	w.time(`,"code_expires":`, g.CodeExpires)
	w.text(`,"redirect_uri":`, g.RedirectURI)
	w.text(`,"challenge":`, g.Challenge)
	w.flagIfSet(`,"refreshable":`, g.Refreshable)
	if g.Generation != 0 {
		w.dst = strconv.AppendUint(append(w.dst, `,"generation":`...), uint64(g.Generation), 10)
	}
	w.timeIfAny(`,"rotated":`, g.Rotated)
	w.dst = appendjson.Bytes(append(w.dst, `,"seed":`...), g.Seed)
	w.time(`,"expires":`, g.Expires)
	w.timeIfAny(`,"idle_expires":`, g.IdleExpires)
	w.timeIfAny(`,"access_until":`, g.AccessUntil)
	w.flagIfSet(`,"unanswered":`, g.Unanswered)
	w.textIfAny(`,"revoked_because":`, g.RevokedBecause)
	w.textIfAny(`,"lineage":`, string(g.Lineage))
	return append(w.dst, '}'), w.err
}

// jsonWriter appends members of an object; key is all that comes before the value.
type jsonWriter struct {
	dst []byte
	err error
}

func (w *jsonWriter) text(key, value string) {
	w.dst = appendjson.String(append(w.dst, key...), value)
}

func (w *jsonWriter) textIfAny(key, value string) {
	if value != "" {
		w.text(key, value)
	}
}

func (w *jsonWriter) listIfAny(key string, list []string) {
	if len(list) > 0 {
		w.dst = appendjson.Strings(append(w.dst, key...), list)
	}
}

func (w *jsonWriter) flagIfSet(key string, set bool) {
	if set {
		w.dst = append(append(w.dst, key...), "true"...)
	}
}

func (w *jsonWriter) time(key string, t time.Time) {
	dst, err := appendjson.Time(append(w.dst, key...), t)
	if w.dst = dst; err != nil {
		w.err = err
	}
}

func (w *jsonWriter) timeIfAny(key string, t time.Time) {
	if !t.IsZero() {
		w.time(key, t)
	}
}

func (w *jsonWriter) access(a Access) {
	for i, p := range a {
		key := `,{"resource":`
		if i == 0 {
			key = `,"access":[{"resource":`
		}
		w.text(key, p.Resource)
		w.listIfAny(`,"scopes":`, p.Scopes)
		w.dst = append(w.dst, '}')
	}
	if len(a) > 0 {
		w.dst = append(w.dst, ']')
	}
}

// parseGrant reads a grant in the form in which appendJSON writes it. It reports false for any other
// form, also one that encoding/json would read.
func parseGrant(body []byte) (g Grant, ok bool) {
	r := jsonReader{rest: body}
	state, lineage := "", ""
	r.text(`{"id":`, &g.ID)
	r.text(`,"state":`, &state)
	r.text(`,"client":`, &g.ClientID)
	r.text(`,"sub":`, &g.Subject)
	r.textIfAny(`,"user":`, &g.UserName)
	r.access(&g.Access)
	r.list(`,"resources":`, &g.Resources)
	r.listIfAny(`,"scopes":`, &g.Scopes)
	r.listIfAny(`,"audience":`, &g.Audience)
	r.time(`,"auth_time":`, &g.AuthTime)
	r.time(`,"created":`, &g.Created)
	r.textIfAny(`,"client_name":`, &g.ClientName)
	r.textIfAny(`,"from":`, &g.From)
	r.bytes(`,"code":`, (*[]byte)(&g.Code))
	r.time(`,"code_expires":`, &g.CodeExpires)
	r.text(`,"redirect_uri":`, &g.RedirectURI)
	r.text(`,"challenge":`, &g.Challenge)
	g.Refreshable = r.has(`,"refreshable":true`)
	r.number(`,"generation":`, &g.Generation)
	r.timeIfAny(`,"rotated":`, &g.Rotated)
	r.bytes(`,"seed":`, (*[]byte)(&g.Seed))
	r.time(`,"expires":`, &g.Expires)
	r.timeIfAny(`,"idle_expires":`, &g.IdleExpires)
	r.timeIfAny(`,"access_until":`, &g.AccessUntil)
	g.Unanswered = r.has(`,"unanswered":true`)
	r.textIfAny(`,"revoked_because":`, &g.RevokedBecause)
	r.textIfAny(`,"lineage":`, &lineage)
	g.State, g.Lineage = GrantState(state), Lineage(lineage)
	return g, r.has(`}`) && !r.other && len(r.rest) == 0
}

// jsonReader reads what a jsonWriter has written. After anything else, other is set.
type jsonReader struct {
	rest  []byte
	other bool
}

// has skips what comes next if it is text.
func (r *jsonReader) has(text string) bool {
	if len(r.rest) < len(text) || string(r.rest[:len(text)]) != text {
		return false
	}
	r.rest = r.rest[len(text):]
	return true
}

// must skips text.
func (r *jsonReader) must(text string) {
	if !r.has(text) {
		r.other = true
	}
}

// raw returns the content of a string without escapes, in ASCII.
func (r *jsonReader) raw() []byte {
	r.must(`"`)
	for i, c := range r.rest {
		switch {
		case c == '"':
			out := r.rest[:i]
			r.rest = r.rest[i+1:]
			return out
		case c == '\\' || c < 0x20 || c >= 0x80:
			r.other = true
			return nil
		}
	}
	r.other = true
	return nil
}

func (r *jsonReader) text(key string, to *string) {
	r.must(key)
	*to = string(r.raw())
}

func (r *jsonReader) textIfAny(key string, to *string) {
	if r.has(key) {
		*to = string(r.raw())
	}
}

func (r *jsonReader) list(key string, to *[]string) {
	if r.must(key); r.has("null") {
		return
	}
	r.must("[")
	*to = make([]string, 0, 2)
	for !r.other && !r.has("]") {
		if len(*to) > 0 {
			r.must(",")
		}
		*to = append(*to, string(r.raw()))
	}
}

func (r *jsonReader) listIfAny(key string, to *[]string) {
	if len(r.rest) >= len(key) && string(r.rest[:len(key)]) == key {
		r.list(key, to)
	}
}

func (r *jsonReader) access(to *Access) {
	if !r.has(`,"access":[`) {
		return
	}
	*to = make(Access, 0, 2)
	for !r.other && !r.has("]") {
		if len(*to) > 0 {
			r.must(",")
		}
		var p Permission
		r.text(`{"resource":`, &p.Resource)
		r.listIfAny(`,"scopes":`, &p.Scopes)
		r.must("}")
		*to = append(*to, p)
	}
}

func (r *jsonReader) time(key string, to *time.Time) {
	r.must(key)
	if to.UnmarshalText(r.raw()) != nil {
		r.other = true
	}
}

func (r *jsonReader) timeIfAny(key string, to *time.Time) {
	if len(r.rest) >= len(key) && string(r.rest[:len(key)]) == key {
		r.time(key, to)
	}
}

func (r *jsonReader) bytes(key string, to *[]byte) {
	if r.must(key); r.has("null") {
		return
	}
	text := r.raw()
	out := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(out, text)
	if *to = out[:n]; err != nil {
		r.other = true
	}
}

func (r *jsonReader) number(key string, to *uint32) {
	if !r.has(key) {
		return
	}
	n := 0
	for n < len(r.rest) && r.rest[n] >= '0' && r.rest[n] <= '9' {
		n++
	}
	value, err := strconv.ParseUint(string(r.rest[:n]), 10, 32)
	if err != nil || r.rest[0] == '0' {
		r.other = true
		return
	}
	*to, r.rest = uint32(value), r.rest[n:]
}
