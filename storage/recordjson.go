package storage

import (
	"encoding/json"
	"reflect"

	"gatehouse.example/internal/readjson"
)

// The records that are read with each page are read without reflection, in the form in which they are
// written. A record in another form, such as one of a later release, is read by encoding/json. Whichever
// reads it, the value is the same.

// unmarshal reads the body of a record into v, which is zero. Nothing in v is a part of body, which may
// belong to the backend. All strings in v are parts of one copy: that is one allocation in place of ten,
// and a record is used as a whole, for one request. Whoever keeps one string for longer clones it.
func unmarshal(body []byte, v any) error {
	if r, ok := v.(interface{ readJSON(text string) bool }); ok {
		if r.readJSON(string(body)) {
			return nil
		}
		reflect.ValueOf(v).Elem().SetZero()
	}
	return json.Unmarshal(body, v)
}

func (u *User) readJSON(text string) bool {
	o := readjson.Begin(text)
	o.Text("name", &u.Name)
	o.Text("sub", &u.Subject)
	o.Text("password", &u.Password)
	readjson.Number(&o, "password_changes", &u.SessionEpoch)
	o.Text("full_name", &u.FullName)
	o.Text("email", &u.Email)
	readjson.Values(&o, "groups", &u.Groups, (*Membership).readJSON)
	readjson.Values(&o, "identities", &u.Identities, (*Identity).readJSON)
	o.Any("passkeys", &u.Passkeys)
	o.Any("second_factor", &u.SecondFactor)
	o.Any("invitation", &u.Invitation)
	o.Time("created", &u.Created)
	o.Flag("disabled", &u.Disabled)
	return o.Whole()
}

func (m *Membership) readJSON(text string) (rest string, ok bool) {
	o := readjson.Begin(text)
	o.Text("group", &m.Group)
	o.Text("id", &m.ID)
	return o.End()
}

func (i *Identity) readJSON(text string) (rest string, ok bool) {
	o := readjson.Begin(text)
	o.Text("provider", &i.Provider)
	o.Text("issuer", &i.Issuer)
	o.Text("sub", &i.Subject)
	o.Text("handle", &i.Handle)
	o.List("groups", &i.Groups)
	o.Time("linked", &i.Linked)
	o.Time("used", &i.Used)
	return o.End()
}

func (session *Session) readJSON(text string) bool {
	o := readjson.Begin(text)
	o.Text("user", &session.UserName)
	o.Text("sub", &session.Subject)
	readjson.Number(&o, "password_changes", &session.Epoch)
	o.Text("method", &session.Method)
	o.Text("provider", &session.Provider)
	o.Text("provider_sub", &session.ProviderSubject)
	o.Text("provider_session", &session.ProviderSession)
	o.Text("browser", &session.Browser)
	o.Text("from", &session.From)
	o.Time("auth_time", &session.AuthTime)
	o.Time("begun", &session.Begun)
	o.Time("seen", &session.Seen)
	o.Time("idle_expires", &session.IdleExpires)
	o.Time("expires", &session.Expires)
	return o.Whole()
}

func (c *Consent) readJSON(text string) bool {
	o := readjson.Begin(text)
	o.Text("sub", &c.Subject)
	o.Text("client", &c.ClientID)
	o.Text("client_name", &c.ClientName)
	readjson.Values(&o, "given", &c.Given, (*Remembered).readJSON)
	o.Time("listed", &c.Listed)
	return o.Whole()
}

func (r *Remembered) readJSON(text string) (rest string, ok bool) {
	o := readjson.Begin(text)
	o.Text("redirect_host", &r.RedirectHost)
	o.Text("client_digest", &r.ClientDigest)
	readjson.Values(&o, "access", &r.Access, (*Permission).readJSON)
	o.Time("at", &r.At)
	o.Time("until", &r.Until)
	return o.End()
}
