// Package catalogue keeps the records of a registry in a [storage.Store]: an ordered table of
// versions of servers, which one writer at a time fills while any number of readers read it.
//
// The rows of one commit become visible together, for every query: see [Writer.Commit]. A
// [Query] selects rows by name, version, update time or age without reading others, so a [Page]
// costs the same in a large catalogue as in a small one.
//
// Rows are public and not sealed, so a process without master keys can keep a catalogue. Only
// the [CursorKey] is sealed if the store has master keys.
package catalogue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"gatehouse.example/storage"
)

// A page, in the comments about writing, is the set of rows of one commit. It becomes visible as
// a whole, although every write of the store changes one key. The state has the number of the
// last committed page, and each row has its current version and the previous one, each with the
// number of its page. A writer
//
//  1. announces in the state a page with the next number and the rows that it will change;
//  2. adds the entries of these rows to the lists, and writes each row with that number,
//     keeping the version visible to readers;
//  3. writes the number to the state: this single write is the commit;
//  4. removes the entries that have become stale.
//
// A reader uses the version of each row that is not newer than the committed number. It reads
// the state before and after: if a page was committed in between, it starts again. It never
// waits for a writer.
//
// A number is used once, and an entry of a list has the number of the page that added it. So a
// stale entry is recognised when its row is read, and removing it, however late, removes no
// other entry.
//
// A writer holds a lease, which is part of the state. Every write of a row is conditional on the
// version read before the page was announced. A writer that takes over first changes the lease
// in the state, so that the previous writer cannot commit any more. Then it restores or rewrites
// all announced rows, so that late writes of the previous writer fail their conditions. Clocks
// only determine when a writer may take over; safety does not depend on them.
//
// Writes of rows and state wait for a replica as other records do, although a row could be
// fetched again: after a commit the mirror continues with the next page, and would read this one
// again in the next full crawl at best. Each row is acknowledged before the write of the state
// that commits it, so a failover that keeps acknowledged writes loses no part of a page. A
// failover that loses acknowledged writes leaves an earlier, complete catalogue, if one server
// holds all keys. The writer detects it at its next write and returns an error, and the next
// writer continues from the stored progress.

// Catalogue is the catalogue of a store. It is safe for concurrent use.
type Catalogue struct {
	store       *storage.Store
	state, rows storage.Table
	lastHead    atomic.Pointer[decodedHead] // nil before the first read
}

// New returns the catalogue of a store. The catalogue has no state before the first call of
// [Catalogue.OpenWriter].
func New(store *storage.Store) *Catalogue {
	c := &Catalogue{store: store}
	c.state, c.rows = store.CatalogueTables()
	return c
}

// StatusDeleted is the status of deleted rows, which queries return only with Query.Deleted.
// Other statuses have no meaning for this package.
const StatusDeleted = "deleted"

// Entry is a row: one version of one server.
type Entry struct {
	Name, Version string
	// Server is the record and Meta the data beside it. Both are stored byte for byte and need
	// not be JSON.
	Server, Meta json.RawMessage

	Status, StatusMessage             string
	Published, Updated, StatusChanged time.Time
	// Latest marks the latest version of the server. The writer chooses it; when another
	// version becomes the latest, the writer must commit both rows.
	Latest bool
	// Origin is the source of the row, Flags are marks for the operator. The writer defines
	// both.
	Origin string
	Flags  []string
}

// CursorKey is a secret for authenticating the cursors of readers.
type CursorKey []byte

// String returns a text without the key.
func (k CursorKey) String() string { return "[redacted]" }

// GoString returns a text without the key.
func (k CursorKey) GoString() string { return k.String() }

// LogValue returns a value without the key.
func (k CursorKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalJSON returns a string without the key.
func (k CursorKey) MarshalJSON() ([]byte, error) { return json.Marshal(k.String()) }

// State is the state of the catalogue as a whole. It is zero before the first call of
// [Catalogue.OpenWriter].
type State struct {
	// Committed is the number of the last commit. It increases with every commit that changes
	// a row, not always by one.
	Committed uint64
	Changed   time.Time // the time of that commit
	// CursorKey has 32 random bytes, drawn when the catalogue was created.
	CursorKey CursorKey
	// Progress is the argument of the last [Writer.Commit]. It is read with every page, so it
	// should be short.
	Progress json.RawMessage
	// Live and Deleted count rows that are not deleted and that are, Servers the live rows
	// that are the latest of their servers.
	Servers, Live, Deleted int
	// ByAge reports whether versions are listed by age. It is false in a catalogue of an
	// earlier release until [Writer.Relist] has listed all rows.
	ByAge bool
	// Leased reports whether a writer holds the lease. Owner is the writer that holds it or
	// held it last, LeaseUntil the end of the lease.
	Leased     bool
	Owner      string
	LeaseUntil time.Time
}

// State reads the state. The error is [storage.ErrNoMasterKey] if the cursor key is sealed and
// this process has no master key.
func (c *Catalogue) State(ctx context.Context) (State, error) {
	st, err := c.readHead(ctx)
	if err != nil {
		return State{}, err
	}
	return c.export(st)
}

// export returns a stored state as a State.
func (c *Catalogue) export(st stateRecord) (State, error) {
	out := State{
		Committed: st.Committed, Changed: st.Changed, Progress: slices.Clone(st.Progress),
		Servers: st.Servers, Live: st.Live, Deleted: st.Deleted, ByAge: st.Orders >= allOrders,
	}
	if l := st.Lease; l != nil {
		out.Leased, out.Owner, out.LeaseUntil = c.store.Now().Before(l.Until), l.Owner, l.Until
	}
	var err error
	if out.CursorKey, err = c.openCursorKey(st); err != nil {
		return State{}, err
	}
	return out, nil
}

// Entry returns one row, deleted or not. The error is [storage.ErrNotFound] if there is none.
func (c *Catalogue) Entry(ctx context.Context, name, version string) (Entry, error) {
	for range readAttempts {
		st, err := c.readHead(ctx)
		if err != nil {
			return Entry{}, err
		}
		items, err := c.rows.GetMany(ctx, []string{rowID(name, version)})
		if err != nil {
			return Entry{}, err
		}
		row, err := c.decodeRow(items[0])
		if err != nil {
			return Entry{}, err
		}
		if v := row.visibleIn(st); v != nil {
			return v.entry(name, version), nil
		}
		if row.previous == nil || row.previous.Seq <= st.Committed {
			return Entry{}, storage.ErrNotFound
		} // otherwise two pages were committed since the state was read
	}
	return Entry{}, errChanging
}

// Versions returns the rows of a server, deleted ones included, ordered by version as text, at
// most [MaxVersions]. For an unknown server it returns none. whole selects the versions whose
// Server and Meta are returned; the others omit them to save memory. nil selects all. If a row
// is damaged, the error is [storage.ErrRecord] and the other rows are returned with it.
func (c *Catalogue) Versions(ctx context.Context, name string, whole func(version string) bool) ([]Entry, error) {
	all := scan{order: byName, deleted: true, prefix: name + entrySep, limit: MaxVersions, size: 64, bytes: math.MaxInt, whole: whole}
	page, err := c.read(ctx, all, "")
	if err == nil && page.Unreadable > 0 {
		err = fmt.Errorf("storage/catalogue: %w: a version of %s", storage.ErrRecord, name)
	}
	return page.Entries, err
}

// MaxVersions is the maximum number of versions of one server that [Catalogue.Versions]
// returns.
const MaxVersions = 10000

// Latest returns the latest row of a server, deleted or not. The error is [storage.ErrNotFound]
// if there is none.
func (c *Catalogue) Latest(ctx context.Context, name string) (Entry, error) {
	latest := scan{order: byLatest, deleted: true, prefix: name + entrySep, limit: 1, size: 4, bytes: maxPageBytes}
	page, err := c.read(ctx, latest, "")
	switch {
	case err != nil:
		return Entry{}, err
	case page.Unreadable > 0:
		return Entry{}, fmt.Errorf("storage/catalogue: %w: the latest version of %s", storage.ErrRecord, name)
	case len(page.Entries) == 0:
		return Entry{}, storage.ErrNotFound
	}
	return page.Entries[0], nil
}

// maxNameLen is the length limit of names and versions in bytes.
const maxNameLen = 512

// ErrEntry is returned for entries and progress that cannot be committed.
var ErrEntry = errors.New("storage/catalogue: not an entry of a catalogue")

// check returns an error for invalid entries. Names and versions become parts of list entries,
// so they must not contain the separators.
func (e Entry) check() error {
	for what, s := range map[string]string{"name": e.Name, "version": e.Version} {
		if s == "" || len(s) > maxNameLen || !utf8.ValidString(s) || bytes.ContainsFunc([]byte(s), isControl) {
			return fmt.Errorf("%w: the %s %.80q is empty, longer than %d bytes or not plain text", ErrEntry, what, s, maxNameLen)
		}
	}
	for _, at := range []time.Time{e.Published, e.Updated, e.StatusChanged} {
		if year := at.UTC().Year(); year < 1 || year > 9999 {
			return fmt.Errorf("%w: %q %q has a time in the year %d", ErrEntry, e.Name, e.Version, year)
		}
	}
	if len(e.Server) == 0 {
		return fmt.Errorf("%w: %q %q has no record", ErrEntry, e.Name, e.Version)
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// same reports whether two entries of one row are equal.
func (e Entry) same(o Entry) bool {
	return bytes.Equal(e.Server, o.Server) && bytes.Equal(e.Meta, o.Meta) &&
		e.Status == o.Status && e.StatusMessage == o.StatusMessage && e.Latest == o.Latest && e.Origin == o.Origin &&
		e.Published.Equal(o.Published) && e.Updated.Equal(o.Updated) && e.StatusChanged.Equal(o.StatusChanged) &&
		slices.Equal(e.Flags, o.Flags)
}
