package storage

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
)

// The catalogue is one ordered table of records of servers, many versions of each, that
// one writer at a time fills page by page while anybody reads it.
//
// A page is visible as a whole or not at all, although every write is about one key. What
// readers see hangs on one number in one record: the state says up to which page all is
// committed, and each row holds, beside its current version, the one before. A writer
//
//  1. announces in the state a page with the next number, and which rows it will touch;
//  2. adds the entries of these rows to the lists, and writes each row with that number,
//     keeping the version that readers see;
//  3. says in the state that the page is committed: this one write is the commit;
//  4. removes the entries that no longer hold.
//
// A reader takes from each row the version that is not newer than what is committed, and
// looks at the state before and after: if a page was committed in between it starts again.
// It never waits for a writer.
//
// A number is used once, and an entry of a list carries the number of the page that added
// it. So an entry that no longer holds is recognised when its row is read, and whoever
// removes it, however late, removes nothing else.
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

// CatalogueDeleted is the status of a row that readers see only if they ask for deleted
// ones. Any other status is for the caller to define.
const CatalogueDeleted = "deleted"

// CatalogueEntry is a row of the catalogue: one version of one server.
type CatalogueEntry struct {
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

// CatalogueState is what is known about the catalogue as a whole. It is zero before
// somebody opened the catalogue to write for the first time.
type CatalogueState struct {
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
	// release until somebody has called [CatalogueWriter.Relist].
	ByAge bool
	// Owner is who has leased the catalogue, until LeaseUntil. The lease is over if Leased
	// is false.
	Leased     bool
	Owner      string
	LeaseUntil time.Time
}

// CatalogueState reads the state. [ErrNoMasterKey] means that its key is sealed.
func (s *Store) CatalogueState(ctx context.Context) (CatalogueState, error) {
	st, err := s.catalogueState(ctx)
	if err != nil {
		return CatalogueState{}, err
	}
	return s.catalogueStateOf(st)
}

// catalogueStateOf is what others see of a state.
func (s *Store) catalogueStateOf(st catalogueState) (CatalogueState, error) {
	out := CatalogueState{
		Committed: st.Committed, Changed: st.Changed, Progress: slices.Clone(st.Progress),
		Servers: st.Servers, Live: st.Live, Deleted: st.Deleted, ByAge: st.Orders >= catalogueOrders,
	}
	if l := st.Lease; l != nil {
		out.Leased, out.Owner, out.LeaseUntil = s.now().Before(l.Until), l.Owner, l.Until
	}
	var err error
	if out.CursorKey, err = s.openCursorKey(st); err != nil {
		return CatalogueState{}, err
	}
	return out, nil
}

// CatalogueEntry reads one row, deleted or not, or returns [ErrNotFound].
func (s *Store) CatalogueEntry(ctx context.Context, name, version string) (CatalogueEntry, error) {
	for range readAttempts {
		st, err := s.catalogueState(ctx)
		if err != nil {
			return CatalogueEntry{}, err
		}
		items, err := s.getMany(ctx, []string{rowKey(name, version)})
		if err != nil {
			return CatalogueEntry{}, err
		}
		row, err := s.decodeRow(items[0])
		if err != nil {
			return CatalogueEntry{}, err
		}
		if v := row.at(st); v != nil {
			return v.entry(name, version), nil
		}
		if row.previous == nil || row.previous.Seq <= st.Committed {
			return CatalogueEntry{}, ErrNotFound
		} // otherwise two pages were committed since the state was read
	}
	return CatalogueEntry{}, errRestless
}

// CatalogueVersions reads the rows of a server, deleted ones included, in the order of
// their versions as text, at most [MaxVersions]. Of versions that whole does not choose,
// Server and Meta are left out, so that no more is in memory than is wanted; nil chooses
// all. There are none of a server that is not known. A row that cannot be read is an error
// beside the others.
func (s *Store) CatalogueVersions(ctx context.Context, name string, whole func(version string) bool) ([]CatalogueEntry, error) {
	scan := catalogueScan{order: byName, deleted: true, prefix: name + entrySep, limit: MaxVersions, size: 64, bytes: math.MaxInt, whole: whole}
	page, err := s.scanCatalogue(ctx, scan, "")
	if err == nil && page.Unreadable > 0 {
		err = fmt.Errorf("storage: catalogue: %w: a version of %s", ErrRecord, name)
	}
	return page.Entries, err
}

// MaxVersions is how many versions of one server are read at most.
const MaxVersions = 10000

// CatalogueLatest reads the latest row of a server, deleted or not, or returns
// [ErrNotFound].
func (s *Store) CatalogueLatest(ctx context.Context, name string) (CatalogueEntry, error) {
	scan := catalogueScan{order: byLatest, deleted: true, prefix: name + entrySep, limit: 1, size: 4, bytes: maxPageBytes}
	page, err := s.scanCatalogue(ctx, scan, "")
	switch {
	case err != nil:
		return CatalogueEntry{}, err
	case page.Unreadable > 0:
		return CatalogueEntry{}, fmt.Errorf("storage: catalogue: %w: the latest version of %s", ErrRecord, name)
	case len(page.Entries) == 0:
		return CatalogueEntry{}, ErrNotFound
	}
	return page.Entries[0], nil
}

// maxNameLen bounds names and versions.
const maxNameLen = 512

// ErrEntry says that an entry cannot be in the catalogue.
var ErrEntry = errors.New("storage: not an entry of the catalogue")

// check refuses what would not be found again: names and versions are parts of entries in
// lists, between characters that they must not have.
func (e CatalogueEntry) check() error {
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
func (e CatalogueEntry) same(o CatalogueEntry) bool {
	return e.Name == o.Name && e.Version == o.Version && bytes.Equal(e.Server, o.Server) && bytes.Equal(e.Meta, o.Meta) &&
		e.Status == o.Status && e.StatusMessage == o.StatusMessage && e.Latest == o.Latest && e.Origin == o.Origin &&
		e.Published.Equal(o.Published) && e.Updated.Equal(o.Updated) && e.StatusChanged.Equal(o.StatusChanged) &&
		slices.Equal(e.Flags, o.Flags)
}
