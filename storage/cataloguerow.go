package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const kindCatalogueRow = "catalogue-row"

func rowID(name, version string) string { return name + entrySep + version }

func rowKey(name, version string) string { return key(kindCatalogueRow, rowID(name, version)) }

// catalogueRow is what is under the key of a row: the version that the last page wrote, and
// the one that readers saw before it. It has neither where the row of a page that was never
// committed has been taken back.
type catalogueRow struct {
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
func versionOf(e CatalogueEntry, seq uint64) *rowVersion {
	return &rowVersion{
		Seq: seq, Stamp: seq, Status: e.Status, StatusMessage: e.StatusMessage,
		Published: plainTime(e.Published), Updated: plainTime(e.Updated), StatusChanged: plainTime(e.StatusChanged),
		Latest: e.Latest, Origin: e.Origin, Flags: slices.Clone(e.Flags),
		server: e.Server, meta: e.Meta,
	}
}

// plainTime is a time as it is stored: what it says is all there is of it.
func plainTime(at time.Time) time.Time { return at.UTC().Round(0) }

func (v *rowVersion) entry(name, version string) CatalogueEntry {
	return CatalogueEntry{
		Name: name, Version: version, Server: v.server, Meta: v.meta, Status: v.Status, StatusMessage: v.StatusMessage,
		Published: v.Published, Updated: v.Updated, StatusChanged: v.StatusChanged,
		Latest: v.Latest, Origin: v.Origin, Flags: v.Flags,
	}
}

// at returns the version that a reader of a state sees, nil for none.
func (r catalogueRow) at(st catalogueState) *rowVersion {
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
func (r catalogueRow) size() int {
	bytes := rowHeadSize
	for _, v := range []*rowVersion{r.current, r.previous} {
		if v != nil {
			bytes += len(v.server) + len(v.meta) + len(v.StatusMessage)
		}
	}
	return sizeOf(bytes)
}

// encode returns the row as it is stored.
func (r catalogueRow) encode() (packed, error) {
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
	return pack(head, tail...)
}

// decodeRow reads a row. One that is not there has no version, nor has one that was taken
// back long ago.
func (s *Store) decodeRow(item Item) (row catalogueRow, err error) {
	if item.Version == (Version{}) {
		return catalogueRow{}, nil
	}
	var head rowHead
	tail, err := s.unpack(kindCatalogueRow, item, &head)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	if err != nil {
		return catalogueRow{}, err
	}
	for _, v := range []*rowVersion{head.Current, head.Previous} {
		if v == nil {
			continue
		}
		if tail, err = v.take(tail); err != nil {
			return catalogueRow{}, err
		}
	}
	if p := head.Previous; p != nil && p.ServerLen == 0 && head.Current != nil {
		p.server = head.Current.server
	}
	return catalogueRow{head.Current, head.Previous}, nil
}

// take cuts what belongs to the version from what follows the head.
func (v *rowVersion) take(tail []byte) (rest []byte, err error) {
	for _, part := range []struct {
		n  int
		to *[]byte
	}{{v.ServerLen, &v.server}, {v.MetaLen, &v.meta}} {
		if part.n < 0 || part.n > len(tail) {
			return nil, fmt.Errorf("storage: %s: %w: too short", kindCatalogueRow, ErrRecord)
		}
		if part.n > 0 {
			*part.to = tail[:part.n:part.n]
		}
		tail = tail[part.n:]
	}
	return tail, nil
}

// manyAtOnce is how many rows are read in one round trip.
const manyAtOnce = 250

// getMany reads items, zero where there is none.
func (s *Store) getMany(ctx context.Context, keys []string) (items []Item, err error) {
	for chunk := range slices.Chunk(keys, manyAtOnce) {
		ctx, cancel := context.WithTimeout(ctx, s.attemptTime)
		some, err := s.backend.GetMany(ctx, chunk)
		cancel()
		if err != nil {
			return nil, unavailable("catalogue", err)
		}
		items = append(items, some...)
	}
	return items, nil
}
