package storage

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"sync"
)

// ErrForged is the error of a record that no process with the master keys wrote under its key: it
// was written by a program with access to the store alone, or moved, or its master key is not
// given any more. It is an [ErrRecord], and must not be handled as [ErrNotFound]. See
// [Store.OnForged].
var ErrForged = fmt.Errorf("%w: no process with these master keys and this issuer wrote it there", ErrRecord)

// A record in the sealed form is its encoding version (2), the expiry as in the plain form, the
// name of a master key, a MAC, and the body. The MAC is HMAC-SHA-256 (RFC 2104) under a key that
// HKDF (RFC 5869) derives from the master key, cut to 128 bits. It is over the place of the
// record (kind, id, issuer, the operation that wrote it) and over all of the record. So nothing
// in it can be changed, and it is valid nowhere else.
const (
	plainForm  = 1
	sealedForm = 2

	macLen    = 16
	nameLen   = 4
	sealedLen = headerLen + nameLen + macLen // of the header
)

// macs computes MACs under one key. Its states are reused: a MAC allocates no memory.
type macs struct{ states sync.Pool }

type macState struct {
	hash hash.Hash
	bind []byte
}

func newMACs(master []byte) (*macs, error) {
	key, err := hkdf.Key(sha256.New, master, nil, "gatehouse record mac 1", sha256.Size)
	if err != nil {
		return nil, err
	}
	return &macs{sync.Pool{New: func() any { return &macState{hash: hmac.New(sha256.New, key)} }}}, nil
}

// place is where a record belongs.
type place struct {
	issuer, kind, id string
	operation        Version
}

// sum returns the MAC of a record: of its place, the bytes before the MAC and those after it.
func (m *macs) sum(at place, head, body []byte) (out [macLen]byte) {
	s := m.states.Get().(*macState)
	defer m.states.Put(s)
	bind := s.bind[:0]
	for _, part := range [...]string{at.kind, at.id, at.issuer} {
		bind = binary.BigEndian.AppendUint32(bind, uint32(len(part)))
		bind = append(bind, part...)
	}
	bind = append(append(bind, at.operation[:]...), head...) // both have a fixed length
	s.hash.Reset()
	s.hash.Write(bind)
	s.hash.Write(body)
	s.bind = s.hash.Sum(bind[:0])
	return [macLen]byte(s.bind)
}

// seals reports whether records of a kind are sealed by this store.
func (s *Store) seals(kind string) bool { return len(s.sealer.keys) > 0 && !isPublic(kind) }

// frame prepends the header to a body.
func (s *Store) frame(f form, kind, id string, operation Version, expires uint64, body []byte) []byte {
	if f == formPlain {
		data := make([]byte, headerLen, headerLen+len(body))
		data[0] = plainForm
		putUint64(data[1:], expires)
		return append(data, body...)
	}
	first := s.sealer.keys[0]
	data := make([]byte, sealedLen, sealedLen+len(body))
	data[0] = sealedForm
	putUint64(data[1:], expires)
	copy(data[headerLen:], first.name[:])
	mac := first.macs.sum(place{s.issuer, kind, id, operation}, data[:headerLen+nameLen], body)
	copy(data[headerLen+nameLen:], mac[:])
	return append(data, body...)
}

// unframe returns the expiry and the body of an item, if it is genuine.
func (s *Store) unframe(kind, id string, item Item) (expires uint64, body []byte, err error) {
	data := item.Data
	switch {
	case len(data) < headerLen:
		return 0, nil, s.unreadable(kind, id, errors.New("too short"))
	case data[0] == sealedForm && s.seals(kind):
		if err := s.verify(kind, id, item); err != nil {
			return 0, nil, s.forged(kind, id, err)
		}
		s.forms.raise(formSealing) // before the switch no process writes this form
		return uint64At(data[1:]), data[sealedLen:], nil
	case data[0] == sealedForm && !isPublic(kind):
		return 0, nil, fmt.Errorf("storage: %s: %w: it is sealed: %w", kind, ErrRecord, ErrNoMasterKey)
	case data[0] != plainForm:
		return 0, nil, s.unreadable(kind, id, fmt.Errorf("encoding version %d is not known to this program", data[0]))
	case s.refusesPlain(kind):
		return 0, nil, s.forged(kind, id, errors.New("it is not sealed, and every record is"))
	}
	return uint64At(data[1:]), data[headerLen:], nil
}

// verify checks the MAC of an item in the sealed form.
func (s *Store) verify(kind, id string, item Item) error {
	data := item.Data
	if len(data) < sealedLen {
		return errors.New("too short")
	}
	head, mac, body := data[:headerLen+nameLen], data[headerLen+nameLen:sealedLen], data[sealedLen:]
	known := false
	for _, k := range s.sealer.keys {
		if [nameLen]byte(head[headerLen:]) != k.name {
			continue
		}
		known = true
		if sum := k.macs.sum(place{s.issuer, kind, id, item.Version}, head, body); hmac.Equal(sum[:], mac) {
			return nil
		}
	}
	if !known {
		return errors.New("none of the master keys has sealed it")
	}
	return errors.New("its seal does not fit its content and place")
}

// underFirst reports whether a record that was verified is sealed under the first key.
func (s *Store) underFirst(item Item) bool {
	return item.Data[0] == sealedForm && [nameLen]byte(item.Data[headerLen:]) == s.sealer.keys[0].name
}

// unreadable is the error of an item that cannot be read. Where records are sealed, no process
// with the keys wrote it.
func (s *Store) unreadable(kind, id string, why error) error {
	if s.seals(kind) && (s.mustSeal || s.forms.atLeast(formSealing)) {
		return s.forged(kind, id, why)
	}
	return fmt.Errorf("storage: %s: %w: %w", kind, ErrRecord, why)
}

// forged returns the error of a forged record, and calls the functions given to OnForged.
func (s *Store) forged(kind, id string, why error) error {
	err := fmt.Errorf("storage: %s: %w: %w", key(kind, id), ErrForged, why)
	if listeners := s.listeners.Load(); listeners != nil {
		for _, f := range *listeners {
			f(err)
		}
	}
	return err
}

// OnForged has f called with an error that wraps [ErrForged] and names the key, each time that
// this store reads a forged record, before the error is returned. Set it to alert the operator: a
// forged record means that an attacker can write to the store. f must return soon, and may be
// called by many goroutines at once.
func (s *Store) OnForged(f func(error)) {
	for {
		old := s.listeners.Load()
		var listeners []func(error)
		if old != nil {
			listeners = append(listeners, *old...)
		}
		listeners = append(listeners, f)
		if s.listeners.CompareAndSwap(old, &listeners) {
			return
		}
	}
}
