package storage

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

const (
	kindCatalogue = "catalogue"
	catalogueID   = "state"
)

// catalogueState is the record on which the catalogue hangs. Readers need its head only.
type catalogueState struct {
	// First is the number before the first page, Used the last one that a page was given,
	// Committed that of the last page that was committed. First is the time in
	// milliseconds when the state began: if it is lost, with rows left behind, their
	// numbers come before those of the next one, and they are nothing.
	First     uint64    `json:"first"`
	Used      uint64    `json:"used"`
	Committed uint64    `json:"committed"`
	Changed   time.Time `json:"changed,omitzero"`
	// Orders is in how many orders all rows are listed, zero where an earlier release has
	// listed them.
	Orders int `json:"orders,omitempty"`

	// One of these is set, the sealed one by a store that has master keys.
	CursorKey       []byte `json:"cursor_key,omitempty"`
	SealedCursorKey Sealed `json:"sealed_cursor_key,omitempty"`

	Progress json.RawMessage `json:"progress,omitempty"`
	Servers  int             `json:"servers"`
	Live     int             `json:"live"`
	Deleted  int             `json:"deleted"`
	Lease    *lease          `json:"lease,omitempty"`

	pages cataloguePages
}

// lease is the right to write until a time, of whoever drew the token.
type lease struct {
	Owner string    `json:"owner"`
	Token string    `json:"token"`
	Until time.Time `json:"until"`
}

// cataloguePages are the pages that are not over. Only writers read them.
type cataloguePages struct {
	// Pending was announced and is not committed. Done is committed, and entries in lists
	// that it made stale may be left.
	Pending *cataloguePageRecord `json:"pending,omitempty"`
	Done    *cataloguePageRecord `json:"done,omitempty"`
}

// cataloguePageRecord is a page: which rows it changes, and what that means for the lists.
type cataloguePageRecord struct {
	Number uint64         `json:"number"`
	Rows   []changedRow   `json:"rows"`
	Counts catalogueCount `json:"counts"`
}

// changedRow is a row that a page changes. If the lists stay as they are, it was and is in
// none.
type changedRow struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Was     *listing `json:"was,omitempty"`
	Is      *listing `json:"is,omitempty"`
}

// catalogueCount is how many more rows there are after a page than before.
type catalogueCount struct {
	Servers int `json:"servers,omitempty"`
	Live    int `json:"live,omitempty"`
	Deleted int `json:"deleted,omitempty"`
}

// add counts one row in or out.
func (c *catalogueCount) add(l *listing, n int) {
	switch {
	case l == nil:
	case l.Deleted:
		c.Deleted += n
	case l.Latest:
		c.Servers += n
		c.Live += n
	default:
		c.Live += n
	}
}

// packed is the body of a record in parts: the length of the first one as four bytes, that
// part, which is JSON, and whatever follows it. Nothing that follows is touched: JSON
// inside JSON would be written anew.
type packed []byte

func pack(head any, tail ...[]byte) (packed, error) {
	first, err := json.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("storage: encode: %w", err)
	}
	n := 4 + len(first)
	for _, part := range tail {
		n += len(part)
	}
	out := binary.BigEndian.AppendUint32(make(packed, 0, n), uint32(len(first)))
	out = append(out, first...)
	for _, part := range tail {
		out = append(out, part...)
	}
	return out, nil
}

// unpack reads the head of an item and returns what follows it.
func (s *Store) unpack(kind string, item Item, head any) (tail []byte, err error) {
	body, err := s.body(kind, "", item) // no record of the catalogue is sealed
	if err != nil {
		return nil, err
	}
	if len(body) < 4 || uint64(len(body)-4) < uint64(binary.BigEndian.Uint32(body)) {
		return nil, fmt.Errorf("storage: %s: %w: too short", kind, ErrRecord)
	}
	n := 4 + int(binary.BigEndian.Uint32(body))
	if err := json.Unmarshal(body[4:n], head); err != nil {
		return nil, fmt.Errorf("storage: %s: %w: %w", kind, ErrRecord, err)
	}
	return body[n:], nil
}

// catalogueState reads the head of the state, zero if there is none.
func (s *Store) catalogueState(ctx context.Context) (st catalogueState, err error) {
	item, err := s.get(ctx, kindCatalogue, catalogueID)
	if errors.Is(err, ErrNotFound) {
		return catalogueState{}, nil
	}
	if err == nil {
		_, err = s.unpack(kindCatalogue, item, &st)
	}
	return st, err
}

// wholeState decodes the state with the pages that are not over.
func (s *Store) wholeState(item Item) (st catalogueState, err error) {
	tail, err := s.unpack(kindCatalogue, item, &st)
	if err == nil && len(tail) > 0 {
		if err = json.Unmarshal(tail, &st.pages); err != nil {
			err = fmt.Errorf("storage: %s: %w: %w", kindCatalogue, ErrRecord, err)
		}
	}
	return st, err
}

// writeState writes the state, and before it entries of lists. On [ErrConflict] it returns
// the item that is there.
func (s *Store) writeState(ctx context.Context, st catalogueState, cond Condition, listed ...Listing) (Item, error) {
	var tail []byte
	if st.pages != (cataloguePages{}) {
		var err error
		if tail, err = json.Marshal(st.pages); err != nil {
			return Item{}, fmt.Errorf("storage: encode: %w", err)
		}
	}
	body, err := pack(st, tail)
	if err != nil {
		return Item{}, err
	}
	return s.write(ctx, record{kind: kindCatalogue, id: catalogueID, value: body, listed: listed}, cond)
}

// newState is the state of a catalogue that begins.
func (s *Store) newState() (catalogueState, error) {
	key := make([]byte, 32)
	if _, err := io.ReadFull(s.rand, key); err != nil {
		return catalogueState{}, fmt.Errorf("storage: random: %w", err)
	}
	first := uint64(max(s.now().UnixMilli(), 1))
	st := catalogueState{First: first, Used: first, Committed: first, CursorKey: key, Orders: catalogueOrders}
	return st, s.sealCursorKey(&st)
}

// sealCursorKey seals a key that is in the clear, if the store can seal.
func (s *Store) sealCursorKey(st *catalogueState) (err error) {
	if len(st.CursorKey) == 0 || s.MasterKeys() == 0 {
		return nil
	}
	if st.SealedCursorKey, err = s.Seal(kindCatalogue, catalogueID, st.CursorKey); err == nil {
		st.CursorKey = nil
	}
	return err
}

func (s *Store) openCursorKey(st catalogueState) ([]byte, error) {
	if len(st.SealedCursorKey) == 0 {
		return slices.Clone(st.CursorKey), nil
	}
	return s.Open(kindCatalogue, catalogueID, st.SealedCursorKey)
}
