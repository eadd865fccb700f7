package authz

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"time"

	"gatehouse.example/storage"
)

// A browser that signed in keeps a device cookie. It signs nobody in: it only lets whoever
// types the right password of the same person pass what strangers have used up, and it
// buys a few guesses at that person to whoever steals it.

const (
	deviceCookie = "authz_device"
	// deviceTTL is how long a browser counts as known after a sign-in.
	deviceTTL = 180 * 24 * time.Hour
)

// rememberDevice makes the browser one that has signed in as a person.
func (s *Server) rememberDevice(w http.ResponseWriter, user storage.User) error {
	expires := binary.BigEndian.AppendUint64(nil, uint64(s.cfg.Now().Add(deviceTTL).Unix()))
	sealed, err := s.cfg.Store.Seal("device", deviceID(user), expires)
	if err != nil {
		return err
	}
	s.cookies.set(w, deviceCookie, base64.RawURLEncoding.EncodeToString(sealed), deviceTTL)
	return nil
}

// deviceID is what a device cookie is bound to, besides the issuer: the person, and the
// password, so that it ends when that is changed.
func deviceID(user storage.User) string { return user.Subject + " " + user.Password }

// device returns what tells the browser apart if it has signed in as this person before,
// else "". It takes as long for nobody.
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
