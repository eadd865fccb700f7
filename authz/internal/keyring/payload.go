package keyring

import (
	"errors"
	"strconv"

	"gatehouse.example/internal/appendjson"
)

// errNoAudience refuses a token for nobody: resource servers could accept a token without an audience.
var errNoAudience = errors.New("keyring: empty audience")

// append appends the claims as JSON, in the bytes in which encoding/json writes them.
func (c Claims) append(dst []byte) ([]byte, error) {
	dst = appendjson.String(append(dst, `{"iss":`...), c.Issuer)
	dst = appendjson.String(append(dst, `,"sub":`...), c.Subject)
	switch len(c.Audience) {
	case 0:
		return nil, errNoAudience
	case 1:
		dst = appendjson.String(append(dst, `,"aud":`...), c.Audience[0])
	default:
		dst = appendjson.Strings(append(dst, `,"aud":`...), c.Audience)
	}
	dst = strconv.AppendInt(append(dst, `,"exp":`...), c.Expires, 10)
	dst = strconv.AppendInt(append(dst, `,"iat":`...), c.IssuedAt, 10)
	dst = appendjson.String(append(dst, `,"jti":`...), c.ID)
	dst = appendjson.String(append(dst, `,"client_id":`...), c.ClientID)
	if c.Scope != "" {
		dst = appendjson.String(append(dst, `,"scope":`...), c.Scope)
	}
	if c.AuthTime != 0 {
		dst = strconv.AppendInt(append(dst, `,"auth_time":`...), c.AuthTime, 10)
	}
	dst = appendjson.String(append(dst, `,"gid":`...), c.GrantID)
	return append(c.About.append(dst), '}'), nil
}

// append appends what is told about a person as further members of an object.
func (a About) append(dst []byte) []byte {
	if a.Groups != nil {
		dst = appendjson.Strings(append(dst, `,"groups":`...), a.Groups)
	}
	if a.GroupsOverage {
		dst = append(dst, `,"groups_overage":true`...)
	}
	if a.Email != "" {
		dst = appendjson.String(append(dst, `,"email":`...), a.Email)
	}
	if a.Name != "" {
		dst = appendjson.String(append(dst, `,"name":`...), a.Name)
	}
	return dst
}
