package storage

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gatehouse.example/internal/limited"
)

// The two kinds of public records. All other records are sealed where there are master keys.
const (
	kindCatalogue    = "catalogue"
	kindCatalogueRow = "catalogue-row"
)

// isPublic reports whether records of a kind carry no seal, even in a store with master keys.
func isPublic(kind string) bool { return kind == kindCatalogue || kind == kindCatalogueRow }

// Table is the records of one public kind. They carry no seal, because they are public and a
// program without master keys keeps them: only a secret in one is sealed by itself. Otherwise
// they are written as every record is: conditionally, and sent again when the reply is lost.
//
// A record of a table is a JSON value, its head, followed by bytes of any kind, its tail.
//
// Package storage/catalogue is built on tables. No other record of a store can be reached through
// one.
type Table struct {
	store *Store
	kind  string
}

// CatalogueTables returns the tables of a catalogue: of its state, and of its rows.
func (s *Store) CatalogueTables() (state, rows Table) {
	return Table{s, kindCatalogue}, Table{s, kindCatalogueRow}
}

// CatalogueIndex returns the key of an index of a catalogue: a list of rows in some order.
func CatalogueIndex(list, order string) string { return key(kindCatalogue+"-"+list, order) }

// TableRecord is the argument of [Table.Put].
type TableRecord struct {
	ID   string
	Head any      // encoded as JSON
	Tail [][]byte // concatenated as they are
	// Expires is the end of the record, zero for none.
	Expires time.Time
	// Listed are entries of indexes. They are added before the record is written.
	Listed []Listing
}

// Get returns an item, or [ErrNotFound].
func (t Table) Get(ctx context.Context, id string) (Item, error) { return t.store.get(ctx, t.kind, id) }

// GetMany returns the items under ids in their order, zero where there is none.
func (t Table) GetMany(ctx context.Context, ids []string) ([]Item, error) {
	return t.store.getMany(ctx, keysOf(t.kind, ids))
}

// keysOf returns the key of each id. They are parts of one text, which costs one allocation for all.
func keysOf(kind string, ids []string) []string {
	begin, size := key(kind, ""), 0
	for _, id := range ids {
		size += len(begin) + len(id)
	}
	var all strings.Builder
	all.Grow(size)
	keys := make([]string, len(ids))
	for i, id := range ids {
		from := all.Len()
		all.WriteString(begin)
		all.WriteString(id)
		keys[i] = all.String()[from:]
	}
	return keys
}

// Decode decodes the head of an item into head and returns its tail. The error is [ErrNotFound]
// if the record has expired, and [ErrRecord] if it cannot be read.
func (t Table) Decode(item Item, head any) (tail []byte, err error) {
	encoded, tail, err := t.Split(item)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(encoded, head); err != nil {
		return nil, fmt.Errorf("storage: %s: %w: %w", t.kind, ErrRecord, err)
	}
	return tail, nil
}

// Split returns the head of an item as it is stored, and its tail. Both share memory with the item.
// Its errors are those of [Table.Decode]; the head may be no JSON.
func (t Table) Split(item Item) (head, tail []byte, err error) {
	body, err := t.store.body(t.kind, "", item) // the id counts for seals only, and there is none
	if err != nil {
		return nil, nil, err
	}
	if len(body) < 4 || uint64(len(body)-4) < uint64(binary.BigEndian.Uint32(body)) {
		return nil, nil, fmt.Errorf("storage: %s: %w: too short", t.kind, ErrRecord)
	}
	n := 4 + int(binary.BigEndian.Uint32(body))
	return body[4:n:n], body[n:], nil
}

// Put writes a record if the condition holds, and returns the item that is there then. On
// [ErrConflict] it returns the item that was in the way, zero if there was none.
func (t Table) Put(ctx context.Context, r TableRecord, cond Condition) (Item, error) {
	body, err := packed(r.Head, r.Tail)
	if err != nil {
		return Item{}, err
	}
	return t.store.writeBody(ctx, record{kind: t.kind, id: r.ID, expires: r.Expires, listed: r.Listed}, formPlain, body, cond)
}

// packed returns the body of a record: the length of the head as four bytes, the head, and the
// tail. JSON in the tail keeps its bytes; as a part of the head it would be encoded anew.
func packed(head any, tail [][]byte) ([]byte, error) {
	first, err := encode(head)
	if err != nil {
		return nil, err
	}
	n := 4 + len(first)
	for _, part := range tail {
		n += len(part)
	}
	out := binary.BigEndian.AppendUint32(make([]byte, 0, n), uint32(len(first)))
	out = append(out, first...)
	for _, part := range tail {
		out = append(out, part...)
	}
	return out, nil
}

// Touch writes an unchanged item again under a new version. A late write on the condition that
// the item is [Unchanged] fails from then on. It returns what [Table.Put] does.
func (t Table) Touch(ctx context.Context, id string, item Item) (Item, error) {
	return t.store.send(ctx, t.kind, id, Put{Data: item.Data, If: Unchanged(item.Version)}, nil)
}

// Seal seals a secret in a record under the first master key. Without master keys the error
// is [ErrNoMasterKey].
func (t Table) Seal(id string, secret []byte) (Sealed, error) {
	return t.store.Seal(t.kind, id, secret)
}

// Open opens a secret that [Table.Seal] sealed for the same record. [Store.Reseal] seals such a
// secret anew if it is the member "sealed_cursor_key" of the head.
func (t Table) Open(id string, sealed Sealed) ([]byte, error) {
	return t.store.Open(t.kind, id, sealed)
}

// IndexPage returns up to limit entries of an index in ascending byte order, strictly
// greater than after.
func (t Table) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	return t.store.indexPage(ctx, index, after, limit)
}

// Unlist removes entries from indexes, the last one first.
func (t Table) Unlist(ctx context.Context, entries []Listing) error {
	return t.store.unlist(ctx, entries, nil)
}

// manyAtOnce is how many records are read in one round trip.
const manyAtOnce = 250

// getMany reads items, zero where there is none.
func (s *Store) getMany(ctx context.Context, keys []string) (items []Item, err error) {
	switch {
	case len(keys) == 0:
		return nil, nil
	case len(keys) <= manyAtOnce:
		return s.getAtOnce(ctx, keys)
	}
	for chunk := range slices.Chunk(keys, manyAtOnce) {
		some, err := s.getAtOnce(ctx, chunk)
		if err != nil {
			return nil, err
		}
		items = append(items, some...)
	}
	return items, nil
}

func (s *Store) getAtOnce(ctx context.Context, keys []string) ([]Item, error) {
	attempt := limited.Within(ctx, s.attemptTime)
	defer attempt.End()
	items, err := s.backend.GetMany(attempt, keys)
	if err != nil {
		return nil, unavailable("read", err)
	}
	return items, nil
}
