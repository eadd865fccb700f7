package catalogue

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"gatehouse.example/storage"
)

// rowID is the id of a row in its table.
func rowID(name, version string) string { return name + entrySep + version }

// storedRow is what is stored of a row: the version that the last page wrote, and the one
// that readers saw before it. It has neither where the row of a page that was never
// committed has been taken back.
type storedRow struct {
	current, previous *rowVersion
}

// rowVersion is one version of a row: the page that wrote it, and the page that wrote its
// entries in the lists.
type rowVersion struct {
	Seq           uint64    `json:"seq"`
	Stamp         uint64    `json:"stamp"`
	Status        string    `json:"status,omitempty"`
	StatusMessage string    `json:"status_message,omitempty"`
	Published     time.Time `json:"published,omitzero"`
	Updated       time.Time `json:"updated,omitzero"`
	StatusChanged time.Time `json:"status_changed,omitzero"`
	Latest        bool      `json:"latest,omitempty"`
	Origin        string    `json:"origin,omitempty"`
	Flags         []string  `json:"flags,omitempty"`
	// Size is that of the row when its entries were written, 0 if an earlier release did.
	Size int `json:"size,omitempty"`

	// What is behind the head: so many bytes each. A version before has no record of its
	// own if it is the same.
	ServerLen int `json:"server,omitempty"`
	MetaLen   int `json:"meta,omitempty"`

	server, meta []byte
}

// rowHead is the head of a row as it is stored.
type rowHead struct {
	Current  *rowVersion `json:"current,omitempty"`
	Previous *rowVersion `json:"previous,omitempty"`
}

// versionOf is an entry as a version that a page writes.
func versionOf(e Entry, seq uint64) *rowVersion {
	return &rowVersion{
		Seq: seq, Stamp: seq, Status: e.Status, StatusMessage: e.StatusMessage,
		Published: plainTime(e.Published), Updated: plainTime(e.Updated), StatusChanged: plainTime(e.StatusChanged),
		Latest: e.Latest, Origin: e.Origin, Flags: slices.Clone(e.Flags),
		server: e.Server, meta: e.Meta,
	}
}

// plainTime is a time as it is stored: what it says is all there is of it.
func plainTime(at time.Time) time.Time { return at.UTC().Round(0) }

func (v *rowVersion) entry(name, version string) Entry {
	return Entry{
		Name: name, Version: version, Server: v.server, Meta: v.meta, Status: v.Status, StatusMessage: v.StatusMessage,
		Published: v.Published, Updated: v.Updated, StatusChanged: v.StatusChanged,
		Latest: v.Latest, Origin: v.Origin, Flags: v.Flags,
	}
}

// at returns the row version visible in a state, nil if none is.
func (r storedRow) at(st stateRecord) *rowVersion {
	for _, v := range []*rowVersion{r.current, r.previous} {
		if v != nil && v.Seq > st.First && v.Seq <= st.Committed {
			return v
		}
	}
	return nil
}

// rowHeadSize is more than the head of a row has, unless its flags or its status message are
// long.
const rowHeadSize = 1 << 10

// size is how large the row is where it is stored.
func (r storedRow) size() int {
	bytes := rowHeadSize
	for _, v := range []*rowVersion{r.current, r.previous} {
		if v != nil {
			bytes += len(v.server) + len(v.meta) + len(v.StatusMessage)
		}
	}
	return sizeOf(bytes)
}

// record returns the row as it is stored.
func (r storedRow) record(id string) storage.TableRecord {
	var head rowHead
	var tail [][]byte
	if c := r.current; c != nil {
		v := *c
		v.ServerLen, v.MetaLen = len(v.server), len(v.meta)
		head.Current, tail = &v, append(tail, v.server, v.meta)
	}
	if p := r.previous; p != nil {
		v := *p
		v.ServerLen, v.MetaLen = len(v.server), len(v.meta)
		if r.current != nil && bytes.Equal(v.server, r.current.server) {
			v.ServerLen, v.server = 0, nil
		}
		head.Previous, tail = &v, append(tail, v.server, v.meta)
	}
	return storage.TableRecord{ID: id, Head: head, Tail: tail}
}

// decodeRow reads a row. One that is not there has no version, nor has one that was taken
// back long ago.
func (c *Catalogue) decodeRow(item storage.Item) (row storedRow, err error) {
	if item.Version == (storage.Version{}) {
		return storedRow{}, nil
	}
	var head rowHead
	tail, err := c.rows.Decode(item, &head)
	if errors.Is(err, storage.ErrNotFound) {
		err = nil
	}
	if err != nil {
		return storedRow{}, err
	}
	for _, v := range []*rowVersion{head.Current, head.Previous} {
		if v == nil {
			continue
		}
		if tail, err = v.take(tail); err != nil {
			return storedRow{}, err
		}
	}
	if p := head.Previous; p != nil && p.ServerLen == 0 && head.Current != nil {
		p.server = head.Current.server
	}
	return storedRow{head.Current, head.Previous}, nil
}

// take cuts what belongs to the version from what follows the head.
func (v *rowVersion) take(tail []byte) (rest []byte, err error) {
	for _, part := range []struct {
		n  int
		to *[]byte
	}{{v.ServerLen, &v.server}, {v.MetaLen, &v.meta}} {
		if part.n < 0 || part.n > len(tail) {
			return nil, fmt.Errorf("storage/catalogue: row: %w: too short", storage.ErrRecord)
		}
		if part.n > 0 {
			*part.to = tail[:part.n:part.n]
		}
		tail = tail[part.n:]
	}
	return tail, nil
}
