package authz

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"time"

	"gatehouse.example/storage"
)

// A browser that signed in keeps a device cookie. The cookie does not sign a person in. It
// exempts sign-ins of the same person from the limits that failed attempts from other
// browsers have used up. A thief of the cookie gains a few guesses at that person's password.

const (
	deviceCookie = "authz_device"
	// deviceTTL is the time for which a browser counts as known after a sign-in.
	deviceTTL = 180 * 24 * time.Hour
)

// rememberDevice sets a device cookie after the sign-in of a person.
func (s *Server) rememberDevice(w http.ResponseWriter, user storage.User) error {
	expires := binary.BigEndian.AppendUint64(nil, uint64(s.cfg.Now().Add(deviceTTL).Unix()))
	sealed, err := s.cfg.Store.Seal("device", deviceID(user), expires)
	if err != nil {
		return err
	}
	s.cookies.set(w, deviceCookie, base64.RawURLEncoding.EncodeToString(sealed), deviceTTL)
	return nil
}

// deviceID returns what a device cookie is bound to, besides the issuer: the person, the password
// hash and the second factor, so that the cookie ends when one of these changes. A browser in which
// somebody signed in with the password alone is not known any more once there is a second factor.
func deviceID(user storage.User) string {
	id := user.Subject + " " + user.Password
	if user.SecondFactor != nil {
		id += " " + user.SecondFactor.Created.UTC().Format(time.RFC3339Nano)
	}
	return id
}

// device returns an identifier of the browser if it has signed in as this person before, and
// otherwise "". It takes as long for an unknown user.
func (s *Server) device(r *http.Request, user storage.User) string {
	sealed, err := base64.RawURLEncoding.DecodeString(s.cookies.get(r, deviceCookie))
	if err != nil || len(sealed) == 0 {
		return ""
	}
	expires, err := s.cfg.Store.Open("device", deviceID(user), sealed)
	if err != nil || len(expires) != 8 || user.Disabled {
		return ""
	}
	if !s.cfg.Now().Before(time.Unix(int64(binary.BigEndian.Uint64(expires)), 0)) {
		return ""
	}
	return string(sealed)
}
