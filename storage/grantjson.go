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
	o := appendjson.Begin(dst)
	o.Text("id", g.ID)
	o.Text("state", string(g.State))
	o.Text("client", g.ClientID)
	o.Text("sub", g.Subject)
	o.TextIfAny("user", g.UserName)
	if len(g.Access) > 0 {
		o.Value("access", g.Access.appendJSON)
	}
	o.List("resources", g.Resources)
	o.ListIfAny("scopes", g.Scopes)
	o.ListIfAny("audience", g.Audience)
	o.Time("auth_time", g.AuthTime)
	o.Time("created", g.Created)
	o.TextIfAny("client_name", g.ClientName)
	o.TextIfAny("from", g.From)
	o.Bytes("code", g.Code)
	o.Time("code_expires", g.CodeExpires)
	o.Text("redirect_uri", g.RedirectURI)
	o.Text("challenge", g.Challenge)
	o.FlagIfSet("refreshable", g.Refreshable)
	if g.Generation != 0 {
		o.Number("generation", int64(g.Generation))
	}
	o.TimeIfAny("rotated", g.Rotated)
	o.Bytes("seed", g.Seed)
	o.Time("expires", g.Expires)
	o.TimeIfAny("idle_expires", g.IdleExpires)
	o.TimeIfAny("access_until", g.AccessUntil)
	o.FlagIfSet("unanswered", g.Unanswered)
	o.TextIfAny("revoked_because", g.RevokedBecause)
	o.TextIfAny("lineage", string(g.Lineage))
	return o.End()
}

// appendJSON appends pairs, of which there is one, as encoding/json writes them.
func (a Access) appendJSON(dst []byte) ([]byte, error) {
	for i, p := range a {
		begin := byte(',')
		if i == 0 {
			begin = '['
		}
		o := appendjson.Begin(append(dst, begin))
		o.Text("resource", p.Resource)
		o.ListIfAny("scopes", p.Scopes)
		dst, _ = o.End() // texts have no errors
	}
	return append(dst, ']'), nil
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
