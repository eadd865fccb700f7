// Package catalogue keeps the records of a registry in a [storage.Store]: one ordered table of
// versions of servers, which one writer at a time fills page by page while anybody reads it.
//
// What is committed together becomes visible together, for every query and at every moment:
// see [Writer.Commit]. A [Query] chooses rows by name, version, time or age without reading
// others, and a [Page] costs the same in a large catalogue as in a small one.
//
// The records are public and carry no seal, so a process without master keys can keep a
// catalogue. Only the [CursorKey] is sealed where there are some.
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
	"time"
	"unicode/utf8"

	"gatehouse.example/storage"
)

// A page is visible as a whole or not at all, although every write is about one key. What
// readers see hangs on one number in one record: the state says up to which page all is
// committed, and each row holds, beside its current version, the one before. A writer
//
//  1. announces in the state a page with the next number, and which rows it will touch;
//  2. adds the entries of these rows to the lists, and writes each row with that number,
//     keeping the version that readers see;
//  3. says in the state that the page is committed: this one write is the commit;
//  4. removes the entries that are stale then.
//
// A reader takes from each row the version that is not newer than what is committed, and
// looks at the state before and after: if a page was committed in between it starts again.
// It never waits for a writer.
//
// A number is used once, and an entry of a list carries the number of the page that added
// it. So a stale entry is recognised when its row is read, and whoever removes it, however
// late, removes nothing else.
//
// A writer holds a lease, which is in the state as well. Every write of a row is conditional
// on what was there when the page was announced. Whoever takes over from a writer that is
// gone first takes the state from it, which lets it commit nothing more, and then puts back
// or rewrites all rows that it had announced, after which its late writes find something
// else than they expect. Clocks decide only when that may happen, never whether it is safe.
//
// Rows and state wait for a replica like other records, though a row could be fetched again:
// whoever is told that a page is committed goes on with the next one, and comes back to this
// one in the next full crawl at best. Each row is acknowledged before the state is written
// that commits its page, so a failover that keeps what was acknowledged leaves no hole. One
// that forgets more takes rows and state back together where one server has them all: what
// is there is an earlier catalogue, whole. The writer notices by its next write and is told,
// and the next one goes on from the progress that is on record.

// Catalogue is the catalogue of a store. It is safe for concurrent use.
type Catalogue struct {
	store       *storage.Store
	state, rows storage.Table
}

// New returns the catalogue of a store. It has no state until somebody opens it to write.
func New(store *storage.Store) *Catalogue {
	c := &Catalogue{store: store}
	c.state, c.rows = store.CatalogueTables()
	return c
}

// StatusDeleted is the status of a row that readers see only if they ask for deleted
// ones. Any other status is for the caller to define.
const StatusDeleted = "deleted"

// Entry is a row: one version of one server.
type Entry struct {
	Name, Version string
	// Server is the record, kept byte for byte, and Meta what was said about it. Neither
	// needs to be JSON for the store.
	Server, Meta json.RawMessage

	Status, StatusMessage             string
	Published, Updated, StatusChanged time.Time
	// Latest says that this is the version of the server to be used. Who commits decides
	// that, and commits the version that was the latest before as well.
	Latest bool
	// Origin says where the row came from, Flags what is to be known about it.
	Origin string
	Flags  []string
}

// CursorKey is a secret with which the positions that readers hold are authenticated.
type CursorKey []byte

// String hides the key.
func (k CursorKey) String() string { return "[redacted]" }

// GoString hides the key as well.
func (k CursorKey) GoString() string { return k.String() }

// LogValue does the same for logs.
func (k CursorKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalJSON hides it where a state is printed.
func (k CursorKey) MarshalJSON() ([]byte, error) { return json.Marshal(k.String()) }

// State is what is known about the catalogue as a whole. It is zero before
// somebody opened the catalogue to write for the first time.
type State struct {
	// Committed is the number of the last page that was committed. It grows with every
	// page that changed a row, not always by one.
	Committed uint64
	Changed   time.Time // when that was
	// CursorKey is 32 random bytes, drawn when the catalogue began.
	CursorKey CursorKey
	// Progress is what the writer committed together with the last page. It is read with
	// every page, so it should be short.
	Progress json.RawMessage
	// Live and Deleted count rows, Servers those that are latest and live.
	Servers, Live, Deleted int
	// ByAge says that versions are listed by age. It is false in a catalogue of an earlier
	// release until somebody has called [Writer.Relist].
	ByAge bool
	// Owner is who has leased the catalogue, until LeaseUntil. The lease is over if Leased
	// is false.
	Leased     bool
	Owner      string
	LeaseUntil time.Time
}

// State reads the state. [storage.ErrNoMasterKey] means that its key is sealed.
func (c *Catalogue) State(ctx context.Context) (State, error) {
	st, err := c.readHead(ctx)
	if err != nil {
		return State{}, err
	}
	return c.export(st)
}

// catalogueStateOf is what others see of a state.
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

// Entry reads one row, deleted or not, or returns [storage.ErrNotFound].
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
		if v := row.at(st); v != nil {
			return v.entry(name, version), nil
		}
		if row.previous == nil || row.previous.Seq <= st.Committed {
			return Entry{}, storage.ErrNotFound
		} // otherwise two pages were committed since the state was read
	}
	return Entry{}, errRestless
}

// Versions reads the rows of a server, deleted ones included, in the order of
// their versions as text, at most [MaxVersions]. Of versions that whole does not choose,
// Server and Meta are left out, so that no more is in memory than is wanted; nil chooses
// all. There are none of a server that is not known. A row that cannot be read is an error
// beside the others.
func (c *Catalogue) Versions(ctx context.Context, name string, whole func(version string) bool) ([]Entry, error) {
	all := scan{order: byName, deleted: true, prefix: name + entrySep, limit: MaxVersions, size: 64, bytes: math.MaxInt, whole: whole}
	page, err := c.read(ctx, all, "")
	if err == nil && page.Unreadable > 0 {
		err = fmt.Errorf("storage/catalogue: %w: a version of %s", storage.ErrRecord, name)
	}
	return page.Entries, err
}

// MaxVersions is how many versions of one server are read at most.
const MaxVersions = 10000

// Latest reads the latest row of a server, deleted or not, or returns
// [storage.ErrNotFound].
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

// maxNameLen bounds names and versions.
const maxNameLen = 512

// ErrEntry says that an entry cannot be in the catalogue.
var ErrEntry = errors.New("storage/catalogue: not an entry of a catalogue")

// check refuses what would not be found again: names and versions are parts of entries in
// lists, between characters that they must not have.
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

// same reports whether two entries say the same.
func (e Entry) same(o Entry) bool {
	return e.Name == o.Name && e.Version == o.Version && bytes.Equal(e.Server, o.Server) && bytes.Equal(e.Meta, o.Meta) &&
		e.Status == o.Status && e.StatusMessage == o.StatusMessage && e.Latest == o.Latest && e.Origin == o.Origin &&
		e.Published.Equal(o.Published) && e.Updated.Equal(o.Updated) && e.StatusChanged.Equal(o.StatusChanged) &&
		slices.Equal(e.Flags, o.Flags)
}
