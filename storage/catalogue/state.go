package catalogue

import (
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

// stateRecord is the record on which the catalogue hangs. It is the head of the record;
// the pages that are not finished are the tail, so that readers need not decode them.
type stateRecord struct {
	// First is the number before the first page, Used the last one that a page was given,
	// Committed that of the last page that was committed. First is the time in
	// milliseconds when the state began: if it is lost, with rows left behind, their
	// numbers come before those of the next one, and no reader sees them.
	First     uint64    `json:"first"`
	Used      uint64    `json:"used"`
	Committed uint64    `json:"committed"`
	Changed   time.Time `json:"changed,omitzero"`
	// Orders is in how many orders all rows are listed, zero where an earlier release has
	// listed them.
	Orders int `json:"orders,omitempty"`

	// One of these is set, the sealed one by a store that has master keys. [storage.Table.Open]
	// says why its name matters.
	CursorKey       []byte         `json:"cursor_key,omitempty"`
	SealedCursorKey storage.Sealed `json:"sealed_cursor_key,omitempty"`

	Progress json.RawMessage `json:"progress,omitempty"`
	Servers  int             `json:"servers"`
	Live     int             `json:"live"`
	Deleted  int             `json:"deleted"`
	Lease    *lease          `json:"lease,omitempty"`

	pages unfinished
}

// lease is the right to write until a time, of whoever drew the token.
type lease struct {
	Owner string    `json:"owner"`
	Token string    `json:"token"`
	Until time.Time `json:"until"`
}

// unfinished are the pages that still need work. Only writers read them.
type unfinished struct {
	// Pending was announced and is not committed. Done is committed, and entries in lists
	// that it made stale may be left.
	Pending *pageRecord `json:"pending,omitempty"`
	Done    *pageRecord `json:"done,omitempty"`
}

// pageRecord is a page: which rows it changes, and what that means for the lists.
type pageRecord struct {
	Number uint64       `json:"number"`
	Rows   []changedRow `json:"rows"`
	Counts counts       `json:"counts"`
}

// changedRow is a row that a page changes. Was and Is are nil if its entries in the lists
// stay as they are.
type changedRow struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Was     *listing `json:"was,omitempty"`
	Is      *listing `json:"is,omitempty"`
}

// counts is how many more rows there are after a page than before.
type counts struct {
	Servers int `json:"servers,omitempty"`
	Live    int `json:"live,omitempty"`
	Deleted int `json:"deleted,omitempty"`
}

// add adds n for a row with these entries, or nothing without entries.
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

// readHead reads the state without the unfinished pages, zero if there is none.
func (c *Catalogue) readHead(ctx context.Context) (st stateRecord, err error) {
	item, err := c.state.Get(ctx, stateID)
	if errors.Is(err, storage.ErrNotFound) {
		return stateRecord{}, nil
	}
	if err == nil {
		_, err = c.state.Decode(item, &st)
	}
	return st, err
}

// wholeState decodes the state with the unfinished pages.
func (c *Catalogue) wholeState(item storage.Item) (st stateRecord, err error) {
	tail, err := c.state.Decode(item, &st)
	if err == nil && len(tail) > 0 {
		if err = json.Unmarshal(tail, &st.pages); err != nil {
			err = fmt.Errorf("storage/catalogue: state: %w: %w", storage.ErrRecord, err)
		}
	}
	return st, err
}

// writeState writes the state, and before it entries of lists. On [storage.ErrConflict] it
// returns the item that is there.
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

// newState is the state of a catalogue that begins.
func (c *Catalogue) newState() (stateRecord, error) {
	key, err := c.store.Random(32)
	if err != nil {
		return stateRecord{}, err
	}
	first := uint64(max(c.store.Now().UnixMilli(), 1))
	st := stateRecord{First: first, Used: first, Committed: first, CursorKey: key, Orders: allOrders}
	return st, c.sealCursorKey(&st)
}

// sealCursorKey seals a key that is in the clear, if the store can seal.
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
