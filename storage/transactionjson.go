package storage

import (
	"gatehouse.example/internal/appendjson"
	"gatehouse.example/internal/readjson"
)

// appendJSON appends t as encoding/json writes it.
func (t Transaction) appendJSON(dst []byte) ([]byte, error) {
	o := appendjson.Begin(dst)
	o.Text("id", t.ID)
	o.Bytes("browser", t.Browser)
	o.Text("client", t.ClientID)
	o.TextIfAny("client_digest", t.ClientDigest)
	o.Text("redirect_uri", t.RedirectURI)
	o.TextIfAny("state", t.State)
	o.Text("challenge", t.Challenge)
	if len(t.Access) > 0 {
		o.Value("access", t.Access.appendJSON)
	}
	o.List("resources", t.Resources)
	o.ListIfAny("scopes", t.Scopes)
	o.FlagIfSet("force_login", t.ForceLogin)
	o.FlagIfSet("force_consent", t.ForceConsent)
	if t.MaxAge != nil {
		o.Number("max_age", *t.MaxAge)
	}
	o.TextIfAny("login_hint", t.LoginHint)
	o.TextIfAny("return", t.Return)
	if t.Pending != nil {
		o.Any("pending", t.Pending)
	}
	if t.Upstream != nil {
		o.Any("upstream", t.Upstream)
	}
	o.Time("created", t.Created)
	o.Time("expires", t.Expires)
	o.FlagIfSet("taken", t.Taken)
	return o.End()
}

// readJSON reads what appendJSON appended.
func (t *Transaction) readJSON(text string) bool {
	o := readjson.Begin(text)
	o.Text("id", &t.ID)
	o.Bytes("browser", (*[]byte)(&t.Browser))
	o.Text("client", &t.ClientID)
	o.Text("client_digest", &t.ClientDigest)
	o.Text("redirect_uri", &t.RedirectURI)
	o.Text("state", &t.State)
	o.Text("challenge", &t.Challenge)
	readjson.Values(&o, "access", &t.Access, (*Permission).readJSON)
	o.List("resources", &t.Resources)
	o.List("scopes", &t.Scopes)
	o.Flag("force_login", &t.ForceLogin)
	o.Flag("force_consent", &t.ForceConsent)
	o.Any("max_age", &t.MaxAge)
	o.Text("login_hint", &t.LoginHint)
	o.Text("return", &t.Return)
	o.Any("pending", &t.Pending)
	o.Any("upstream", &t.Upstream)
	o.Time("created", &t.Created)
	o.Time("expires", &t.Expires)
	o.Flag("taken", &t.Taken)
	return o.Whole()
}
