package storage

import (
	"gatehouse.example/internal/appendjson"
	"gatehouse.example/internal/readjson"
)

// appendJSON appends c as encoding/json writes it: a registration is little more than this record.
func (c Client) appendJSON(dst []byte) ([]byte, error) {
	o := appendjson.Begin(dst)
	o.Text("id", c.ID)
	o.Text("source", string(c.Source))
	o.Value("metadata", c.Metadata.AppendJSON)
	if len(c.Localized) > 0 {
		o.Any("localized", c.Localized)
	}
	o.TextIfAny("software_statement", c.SoftwareStatement)
	o.ListIfAny("auth_methods", c.AuthMethods)
	o.TextIfAny("software", c.Software)
	o.TextIfAny("network", c.Network)
	o.BytesIfAny("secret", c.Secret)
	o.BytesIfAny("registration_token", c.RegistrationToken)
	o.BytesIfAny("previous_token", c.PreviousToken)
	o.Time("created", c.Created)
	o.TimeIfAny("last_used", c.LastUsed)
	o.TimeIfAny("asked", c.Asked)
	o.TimeIfAny("expires", c.Expires)
	o.FlagIfSet("disabled", c.Disabled)
	o.TextIfAny("vouched", c.Vouched)
	if c.Removed != nil {
		o.Any("removed", c.Removed)
	}
	return o.End()
}

// readJSON reads what appendJSON appended.
func (c *Client) readJSON(text string) bool {
	o := readjson.Begin(text)
	o.Text("id", &c.ID)
	o.Text("source", (*string)(&c.Source))
	o.Value("metadata", c.Metadata.ReadJSON)
	o.Any("localized", &c.Localized)
	o.Text("software_statement", &c.SoftwareStatement)
	o.List("auth_methods", &c.AuthMethods)
	o.Text("software", &c.Software)
	o.Text("network", &c.Network)
	o.Bytes("secret", (*[]byte)(&c.Secret))
	o.Bytes("registration_token", (*[]byte)(&c.RegistrationToken))
	o.Bytes("previous_token", (*[]byte)(&c.PreviousToken))
	o.Time("created", &c.Created)
	o.Time("last_used", &c.LastUsed)
	o.Time("asked", &c.Asked)
	o.Time("expires", &c.Expires)
	o.Flag("disabled", &c.Disabled)
	o.Text("vouched", &c.Vouched)
	o.Any("removed", &c.Removed)
	return o.Whole()
}
