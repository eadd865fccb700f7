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

// storedRow is a row as stored: the version that the last page wrote, and the version visible
// before it. Both are nil if the row is new in a page that was undone.
type storedRow struct {
	current, previous *rowVersion
}

// rowVersion is one version of a row.
type rowVersion struct {
	Seq           uint64    `json:"seq"`   // the page that wrote it
	Stamp         uint64    `json:"stamp"` // the page that wrote its list entries
	Status        string    `json:"status,omitempty"`
	StatusMessage string    `json:"status_message,omitempty"`
	Published     time.Time `json:"published,omitzero"`
	Updated       time.Time `json:"updated,omitzero"`
	StatusChanged time.Time `json:"status_changed,omitzero"`
	Latest        bool      `json:"latest,omitempty"`
	Origin        string    `json:"origin,omitempty"`
	Flags         []string  `json:"flags,omitempty"`
	// Size is the size class of the row when its entries were written, 0 if an earlier release
	// wrote them. See sizeOf.
	Size int `json:"size,omitempty"`

	// ServerLen and MetaLen are the lengths of server and meta behind the head. ServerLen is 0
	// for a previous version whose record equals the current one.
	ServerLen int `json:"server,omitempty"`
	MetaLen   int `json:"meta,omitempty"`

	server, meta []byte
}

// rowHead is the head of a row as it is stored.
type rowHead struct {
	Current  *rowVersion `json:"current,omitempty"`
	Previous *rowVersion `json:"previous,omitempty"`
}

// versionOf returns the version of a row that the page seq writes for an entry.
func versionOf(e Entry, seq uint64) *rowVersion {
	return &rowVersion{
		Seq: seq, Stamp: seq, Status: e.Status, StatusMessage: e.StatusMessage,
		Published: storedTime(e.Published), Updated: storedTime(e.Updated), StatusChanged: storedTime(e.StatusChanged),
		Latest: e.Latest, Origin: e.Origin, Flags: slices.Clone(e.Flags),
		server: e.Server, meta: e.Meta,
	}
}

// plainTime returns a time in UTC without a monotonic clock reading, so that it equals its
// stored form.
func storedTime(at time.Time) time.Time { return at.UTC().Round(0) }

func (v *rowVersion) entry(name, version string) Entry {
	return Entry{
		Name: name, Version: version, Server: v.server, Meta: v.meta, Status: v.Status, StatusMessage: v.StatusMessage,
		Published: v.Published, Updated: v.Updated, StatusChanged: v.StatusChanged,
		Latest: v.Latest, Origin: v.Origin, Flags: v.Flags,
	}
}

// visibleIn returns the version of the row that is visible in a state, nil if there is none.
func (r storedRow) visibleIn(st stateRecord) *rowVersion {
	for _, v := range []*rowVersion{r.current, r.previous} {
		if v != nil && v.Seq > st.First && v.Seq <= st.Committed {
			return v
		}
	}
	return nil
}

// rowHeadSize is an upper estimate of the head of a row in bytes, without a long status message
// and long flags.
const rowHeadSize = 1 << 10

// size returns the size class of the stored row.
func (r storedRow) size() int {
	bytes := rowHeadSize
	for _, v := range []*rowVersion{r.current, r.previous} {
		if v != nil {
			bytes += len(v.server) + len(v.meta) + len(v.StatusMessage)
		}
	}
	return sizeOf(bytes)
}

// record returns the record to store for the row.
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

// rowRoom is memory for both versions of a row.
type rowRoom [2]rowVersion

// decodeRow decodes a row. A missing row, and one that was undone long ago, has no version.
func (c *Catalogue) decodeRow(item storage.Item) (storedRow, error) {
	return c.decodeRowInto(&rowRoom{}, item)
}

// decodeRowInto is decodeRow with memory that may be used again: the row is valid until then.
func (c *Catalogue) decodeRowInto(room *rowRoom, item storage.Item) (row storedRow, err error) {
	if item.Version == (storage.Version{}) {
		return storedRow{}, nil
	}
	encoded, tail, err := c.rows.Split(item)
	if errors.Is(err, storage.ErrNotFound) {
		return storedRow{}, nil
	}
	var head rowHead
	if err == nil {
		head, err = readRowHead(room, encoded)
	}
	if err != nil {
		return storedRow{}, err
	}
	for _, v := range []*rowVersion{head.Current, head.Previous} {
		if v == nil {
			continue
		}
		if tail, err = v.cutTail(tail); err != nil {
			return storedRow{}, err
		}
	}
	if p := head.Previous; p != nil && p.ServerLen == 0 && head.Current != nil {
		p.server = head.Current.server
	}
	return storedRow{head.Current, head.Previous}, nil
}

// cutTail sets server and meta from the tail of a record and returns the rest of the tail.
func (v *rowVersion) cutTail(tail []byte) (rest []byte, err error) {
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
