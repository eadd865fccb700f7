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

// ErrForged says that a record is not what a process with the master keys wrote under its
// key: whoever wrote it had access to the store alone, or moved it, or the master key is not
// given any more. It is an [ErrRecord], and never to be read as "there is none". See
// [Store.OnForged].
var ErrForged = fmt.Errorf("%w: no process with these master keys and this issuer wrote it there", ErrRecord)

// A record in the sealed form is its encoding version (2), the expiry as in the plain form,
// the name of a master key, a MAC, and the body. The MAC is HMAC-SHA-256 (RFC 2104) under a
// key that HKDF (RFC 5869) derives from the master key, cut to 128 bits. It is over what says
// where the record belongs (kind, id, issuer, the operation that wrote it) and over all of
// the record. So nothing in it can be changed, and it counts nowhere else.
const (
	plainForm  = 1
	sealedForm = 2

	macLen    = 16
	nameLen   = 4
	sealedLen = headerLen + nameLen + macLen // of the header
)

// macs computes MACs under one key. Its states are used again: a MAC costs no memory.
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

// sum is the MAC of a record: of its place, what stands before the MAC and what stands
// behind it.
func (m *macs) sum(at place, head, body []byte) (out [macLen]byte) {
	s := m.states.Get().(*macState)
	defer m.states.Put(s)
	bind := s.bind[:0]
	for _, part := range [...]string{at.kind, at.id, at.issuer} {
		bind = binary.BigEndian.AppendUint32(bind, uint32(len(part)))
		bind = append(bind, part...)
	}
	bind = append(append(bind, at.operation[:]...), head...) // both always as long
	s.hash.Reset()
	s.hash.Write(bind)
	s.hash.Write(body)
	s.bind = s.hash.Sum(bind[:0])
	return [macLen]byte(s.bind)
}

// seals reports whether records of a kind are sealed by this store.
func (s *Store) seals(kind string) bool { return len(s.sealer.keys) > 0 && !isPublic(kind) }

// frame puts the header before a body.
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

// unframe returns the expiry and the body of an item that may be believed.
func (s *Store) unframe(kind, id string, item Item) (expires uint64, body []byte, err error) {
	data := item.Data
	switch {
	case len(data) < headerLen:
		return 0, nil, s.unreadable(kind, id, errors.New("too short"))
	case data[0] == sealedForm && s.seals(kind):
		if err := s.verify(kind, id, item); err != nil {
			return 0, nil, s.forged(kind, id, err)
		}
		s.forms.raise(formSealing) // nobody writes this form before the switch
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
	return errors.New("its seal is not over what it says, where it is")
}

// underFirst reports whether a record that was verified is sealed under the first key.
func (s *Store) underFirst(item Item) bool {
	return item.Data[0] == sealedForm && [nameLen]byte(item.Data[headerLen:]) == s.sealer.keys[0].name
}

// unreadable is the error of an item that cannot be read. Where records are sealed nothing
// but the hand of a stranger makes one.
func (s *Store) unreadable(kind, id string, why error) error {
	if s.seals(kind) && (s.mustSeal || s.forms.atLeast(formSealing)) {
		return s.forged(kind, id, why)
	}
	return fmt.Errorf("storage: %s: %w: %w", kind, ErrRecord, why)
}

// forged is the error of a record that is not to be believed, and tells who listens.
func (s *Store) forged(kind, id string, why error) error {
	err := fmt.Errorf("storage: %s: %w: %w", key(kind, id), ErrForged, why)
	if listeners := s.listeners.Load(); listeners != nil {
		for _, f := range *listeners {
			f(err)
		}
	}
	return err
}

// OnForged has f called with an error that wraps [ErrForged] and names the key, each time
// that this store meets a record that is not to be believed, before the error is returned.
// Whoever runs a server should hear of it: only somebody with access to the store makes one.
// f returns soon, and may be called by many goroutines at once.
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
