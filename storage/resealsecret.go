package storage

import (
	"encoding/json"
	"errors"
	"fmt"
)

// resealSecret seals the secret of a record under the first key, if it is sealed under another one.
// It returns the body of the record in a form, and whether the secret has changed.
func (s *Store) resealSecret(f form, kind, id string, body []byte) (out []byte, changed bool, err error) {
	switch kind {
	case kindUser:
		return s.resealFactor(id, body)
	case kindGrant:
		return s.resealGrant(f, id, body)
	case kindResource:
		return s.resealIn(kind, id, body, &Resource{})
	case kindProviderToken:
		return s.resealIn(kind, id, body, &ProviderToken{})
	case kindACME:
		return s.resealIn(kind, id, body, &storedACME{})
	}
	return body, false, nil
}

// sealedIn is a record with one sealed secret.
type sealedIn interface {
	sealed() *Sealed
}

func (s *Store) resealIn(kind, id string, body []byte, record sealedIn) (out []byte, changed bool, err error) {
	if err := json.Unmarshal(body, record); err != nil {
		return body, false, fmt.Errorf("storage: %s: %w: %w", kind, ErrRecord, err)
	}
	changed, err = s.reseal(kind, id, record.sealed())
	if err != nil || !changed {
		return body, false, err
	}
	body, err = encode(record)
	return body, true, err
}

// resealGrant is resealIn for a grant. The seed of a revoked one is never opened again, so no key has
// to open it.
func (s *Store) resealGrant(f form, id string, body []byte) (out []byte, changed bool, err error) {
	g, err := grantOf(id, body)
	if err != nil {
		return body, false, fmt.Errorf("storage: %s: %w: %w", kindGrant, ErrRecord, err)
	}
	changed, err = s.reseal(kindGrant, id, &g.Seed)
	if errors.Is(err, ErrRecord) && g.State == GrantRevoked {
		changed, err = false, nil
	}
	if err != nil {
		return body, false, err
	}
	if out, err = encodeIn(f, g); err != nil {
		return body, false, fmt.Errorf("storage: %s: %w: %w", kindGrant, ErrRecord, err)
	}
	return out, changed, nil
}

// reseal seals one secret under the first key if it is sealed under another one.
func (s *Store) reseal(kind, id string, secret *Sealed) (changed bool, err error) {
	if len(*secret) == 0 {
		return false, nil
	}
	plain, err := s.Open(kind, id, *secret)
	switch {
	case err != nil || s.sealer.first(*secret):
		return false, err
	case kind == kindGrant && secret.isPadded():
		*secret = s.pad(id, [shortSeed]byte(plain))
		return true, nil
	}
	*secret, err = s.Seal(kind, id, plain)
	return err == nil, err
}
