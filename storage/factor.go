package storage

import (
	"encoding/json"
	"fmt"
	"time"
)

// SecondFactor is what a person needs besides the password: one-time codes of an app (RFC 6238),
// or a recovery code.
type SecondFactor struct {
	// Secret is the shared secret of the app, sealed by [Store.SealFactor].
	Secret Sealed `json:"secret"`
	// LastStep is the time step of the last accepted code. No code of that step or an earlier one
	// is accepted.
	LastStep int64 `json:"last_step,omitempty"`
	// Recovery are the recovery codes that are left.
	Recovery []SecretHash `json:"recovery,omitempty"`
	Created  time.Time    `json:"created"`
}

// Invitation is a link that was given to a person, once, outside of this server.
type Invitation struct {
	// Token is the hash of the secret in the link.
	Token   SecretHash `json:"token"`
	Created time.Time  `json:"created"`
	Expires time.Time  `json:"expires"`
}

// SealFactor seals the shared secret of a second factor for the person of a name.
func (s *Store) SealFactor(userName string, secret []byte) (Sealed, error) {
	return s.Seal(kindUser, userName, secret)
}

// OpenFactor returns the shared secret of the person's second factor. The error is [ErrNotFound] if
// there is none, and wraps [ErrRecord] if no master key opens it.
func (s *Store) OpenFactor(u User) ([]byte, error) {
	if u.SecondFactor == nil {
		return nil, ErrNotFound
	}
	return s.Open(kindUser, u.Name, u.SecondFactor.Secret)
}

// resealFactor seals the secret of a person's second factor under the first key, if it is sealed
// under another one.
func (s *Store) resealFactor(name string, body []byte) (out []byte, changed bool, err error) {
	var u User
	if err := json.Unmarshal(body, &u); err != nil {
		return body, false, fmt.Errorf("storage: %s: %w: %w", kindUser, ErrRecord, err)
	}
	if u.SecondFactor == nil {
		return body, false, nil
	}
	if changed, err = s.reseal(kindUser, name, &u.SecondFactor.Secret); err != nil || !changed {
		return body, false, err
	}
	body, err = encode(u)
	return body, true, err
}
