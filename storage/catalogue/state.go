package catalogue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"gatehouse.example/storage"
)

// stateID is the id of the one record in the table of the state.
const stateID = "state"

// stateRecord is the stored state of the catalogue. The fields are the head of the record; the
// unfinished pages are the tail, so that readers need not decode them.
type stateRecord struct {
	// First is the number before the first page, Used the last number given to a page, and
	// Committed the number of the last committed page. First is the time at which the state
	// was created, in milliseconds: if the state is lost and rows remain, their numbers are
	// lower than those of the next state, and no reader sees them.
	First     uint64    `json:"first"`
	Used      uint64    `json:"used"`
	Committed uint64    `json:"committed"`
	Changed   time.Time `json:"changed,omitzero"`
	// Orders is the number of orders in which all rows are listed. An earlier release left it
	// zero.
	Orders int `json:"orders,omitempty"`

	// One of these is set, the sealed one by a store that has master keys. See
	// [storage.Table.Open] for why its name matters.
	CursorKey       []byte         `json:"cursor_key,omitempty"`
	SealedCursorKey storage.Sealed `json:"sealed_cursor_key,omitempty"`

	Progress json.RawMessage `json:"progress,omitempty"`
	Servers  int             `json:"servers"`
	Live     int             `json:"live"`
	Deleted  int             `json:"deleted"`
	Lease    *lease          `json:"lease,omitempty"`

	pages unfinished
}

// lease is the right of one writer, which is identified by the token, to write until a time.
type lease struct {
	Owner string    `json:"owner"`
	Token string    `json:"token"`
	Until time.Time `json:"until"`
}

// unfinished has the pages that need more writes. Only writers read it.
type unfinished struct {
	// Pending is announced and not committed. Done is committed; list entries that it made
	// stale may remain.
	Pending *pageRecord `json:"pending,omitempty"`
	Done    *pageRecord `json:"done,omitempty"`
}

// pageRecord is a page: the rows that it changes, with their list entries and the changes of
// the counts.
type pageRecord struct {
	Number uint64       `json:"number"`
	Rows   []changedRow `json:"rows"`
	Counts counts       `json:"counts"`
}

// changedRow is a row that a page changes. Before and After describe its list entries; both are
// nil if the entries do not change.
type changedRow struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Before  *listing `json:"was,omitempty"`
	After   *listing `json:"is,omitempty"`
}

// counts has the changes of the numbers of servers and rows by a page.
type counts struct {
	Servers int `json:"servers,omitempty"`
	Live    int `json:"live,omitempty"`
	Deleted int `json:"deleted,omitempty"`
}

// add adds n to the count of rows such as l, and nothing if l is nil.
func (c *counts) add(l *listing, n int) {
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

// readHead reads the state without the unfinished pages. It returns the zero state if there is
// none. Nothing of it must be changed.
func (c *Catalogue) readHead(ctx context.Context) (st stateRecord, err error) {
	item, err := c.state.Get(ctx, stateID)
	if errors.Is(err, storage.ErrNotFound) {
		return stateRecord{}, nil
	}
	if err != nil {
		return stateRecord{}, err
	}
	encoded, _, err := c.state.Split(item)
	if err != nil {
		return stateRecord{}, err
	}
	if last := c.lastHead.Load(); last != nil && bytes.Equal(last.encoded, encoded) {
		return last.decoded, nil
	}
	if _, err = c.state.Decode(item, &st); err == nil {
		c.lastHead.Store(&decodedHead{bytes.Clone(encoded), st})
	}
	return st, err
}

// decodedHead is the head of the state as it was read last. It is read three times for each page and
// seldom changes: the same bytes are not decoded again.
type decodedHead struct {
	encoded []byte
	decoded stateRecord // never changed
}

// decodeState decodes the state with the unfinished pages.
func (c *Catalogue) decodeState(item storage.Item) (st stateRecord, err error) {
	tail, err := c.state.Decode(item, &st)
	if err == nil && len(tail) > 0 {
		if err = json.Unmarshal(tail, &st.pages); err != nil {
			err = fmt.Errorf("storage/catalogue: state: %w: %w", storage.ErrRecord, err)
		}
	}
	return st, err
}

// writeState writes list entries and then the state. With [storage.ErrConflict] it returns the
// stored item.
func (c *Catalogue) writeState(ctx context.Context, st stateRecord, cond storage.Condition, listed ...storage.Listing) (storage.Item, error) {
	r := storage.TableRecord{ID: stateID, Head: st, Listed: listed}
	if st.pages != (unfinished{}) {
		tail, err := json.Marshal(st.pages)
		if err != nil {
			return storage.Item{}, fmt.Errorf("storage/catalogue: encode: %w", err)
		}
		r.Tail = [][]byte{tail}
	}
	return c.state.Put(ctx, r, cond)
}

// newState returns the state of a new catalogue.
func (c *Catalogue) newState() (stateRecord, error) {
	key, err := c.store.Random(32)
	if err != nil {
		return stateRecord{}, err
	}
	first := uint64(max(c.store.Now().UnixMilli(), 1))
	st := stateRecord{First: first, Used: first, Committed: first, CursorKey: key, Orders: allOrders}
	return st, c.sealCursorKey(&st)
}

// sealCursorKey seals a key that is not sealed, if the store has master keys.
func (c *Catalogue) sealCursorKey(st *stateRecord) (err error) {
	if len(st.CursorKey) == 0 || c.store.MasterKeys() == 0 {
		return nil
	}
	if st.SealedCursorKey, err = c.state.Seal(stateID, st.CursorKey); err == nil {
		st.CursorKey = nil
	}
	return err
}

func (c *Catalogue) openCursorKey(st stateRecord) ([]byte, error) {
	if len(st.SealedCursorKey) == 0 {
		return slices.Clone(st.CursorKey), nil
	}
	return c.state.Open(stateID, st.SealedCursorKey)
}
