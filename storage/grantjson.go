package storage

import (
	"gatehouse.example/internal/appendjson"
	"gatehouse.example/internal/readjson"
)

// The grant is the record that is read and written with each token. Here it is written and read
// without reflection, in the bytes of encoding/json, which reads whatever has another form: a grant
// of another program, or damaged.

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

// readJSON reads one of the pairs that appendJSON appended.
func (p *Permission) readJSON(text string) (rest string, ok bool) {
	o := readjson.Begin(text)
	o.Text("resource", &p.Resource)
	o.List("scopes", &p.Scopes)
	return o.End()
}

// parseGrant reads a grant in the form in which appendJSON writes it. It reports false for any other
// form, also one that encoding/json would read. Nothing in the grant is a part of body.
func parseGrant(body []byte) (g Grant, ok bool) {
	o := readjson.Begin(string(body))
	o.Text("id", &g.ID)
	o.Text("state", (*string)(&g.State))
	o.Text("client", &g.ClientID)
	o.Text("sub", &g.Subject)
	o.Text("user", &g.UserName)
	readjson.Values(&o, "access", &g.Access, (*Permission).readJSON)
	o.List("resources", &g.Resources)
	o.List("scopes", &g.Scopes)
	o.List("audience", &g.Audience)
	o.Time("auth_time", &g.AuthTime)
	o.Time("created", &g.Created)
	o.Text("client_name", &g.ClientName)
	o.Text("from", &g.From)
	o.Bytes("code", (*[]byte)(&g.Code))
	o.Time("code_expires", &g.CodeExpires)
	o.Text("redirect_uri", &g.RedirectURI)
	o.Text("challenge", &g.Challenge)
	o.Flag("refreshable", &g.Refreshable)
	readjson.Number(&o, "generation", &g.Generation)
	o.Time("rotated", &g.Rotated)
	o.Bytes("seed", (*[]byte)(&g.Seed))
	o.Time("expires", &g.Expires)
	o.Time("idle_expires", &g.IdleExpires)
	o.Time("access_until", &g.AccessUntil)
	o.Flag("unanswered", &g.Unanswered)
	o.Text("revoked_because", &g.RevokedBecause)
	o.Text("lineage", (*string)(&g.Lineage))
	return g, o.Whole()
}
