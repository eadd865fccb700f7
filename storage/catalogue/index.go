package catalogue

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gatehouse.example/storage"
)

// A catalogue has five orders, each with two lists: one of live rows and one of deleted rows.
// A row is in one of the two, so a page of live rows skips no deleted ones, and a page of all
// rows is merged from both.
//
// An entry of a list consists of the sort key and the number of the page that added it, which
// no other page has. The visible version of the row has the same number. The count of zeros
// before the number is the size class of the row, so that a reader knows an upper limit of the
// bytes before it reads rows.
type order string

const (
	byName    order = "name"    // name, version
	byVersion order = "version" // version, name
	byLatest  order = "latest"  // name, version; only rows that are latest
	byUpdated order = "updated" // time, name, version
	// byAge is name, then the last published version first. Earlier releases do not have this
	// order: see [Writer.Relist].
	byAge order = "age"
)

// allOrders is the number of orders.
const allOrders = 5

// entrySep separates the parts of an entry. afterSep ends a position behind a row: it sorts
// after all entries of the row and before every other row. Names and versions contain neither.
const (
	entrySep = "\x00"
	afterSep = "\x01"
)

// latestMark ends the entries of latest rows, so that a reader recognises them without reading
// the row.
const latestMark = "L"

// list returns the name of one of the two lists of an order.
func (o order) list(deleted bool) string {
	if deleted {
		return storage.CatalogueIndex("deleted", string(o))
	}
	return storage.CatalogueIndex("live", string(o))
}

// entry returns an entry of one of the two lists.
func (o order) entry(deleted bool, entry string) storage.Listing {
	return storage.Listing{Index: o.list(deleted), Entry: entry}
}

// listing has the properties of a row from which its list entries are made.
type listing struct {
	Stamp     uint64    `json:"stamp"`
	Updated   time.Time `json:"updated,omitzero"`
	Published time.Time `json:"published,omitzero"`
	Deleted   bool      `json:"deleted,omitempty"`
	Latest    bool      `json:"latest,omitempty"`
	Size      int       `json:"size,omitempty"`
}

// listing returns the listing of a version.
func (v *rowVersion) listing() *listing {
	return &listing{
		Stamp: v.Stamp, Updated: v.Updated, Published: v.Published, Deleted: v.Status == StatusDeleted, Latest: v.Latest, Size: v.Size,
	}
}

// samePlaces reports whether two listings have the same positions in the same lists.
func (l *listing) samePlaces(o *listing) bool {
	return l.Updated.Equal(o.Updated) && l.Published.Equal(o.Published) && l.Deleted == o.Deleted && l.Latest == o.Latest && l.Size == o.Size
}

// A row of size class 1 has at most sizeStep bytes, a row of each further class at most four
// times as many as the class before. Class 0 stands for an unknown size.
const (
	sizeStep    = 4 << 10
	unknownSize = 64 << 10
)

// sizeOf returns the size class of a row.
func sizeOf(bytes int) int {
	size := 1
	for most := sizeStep; bytes > most; most *= 4 {
		size++
	}
	return size
}

// weight returns the maximum number of bytes of a row of a size class.
func weight(size int) int {
	if size == 0 {
		return unknownSize
	}
	return sizeStep << (2 * (min(size, 12) - 1))
}

// entries returns the list entries of a row, none for a nil listing.
func (l *listing) entries(name, version string) []storage.Listing {
	if l == nil {
		return nil
	}
	end := entrySep + strings.Repeat("0", l.Size) + strconv.FormatUint(l.Stamp, 36)
	if l.Latest {
		end += latestMark
	}
	age := name + entrySep + inverted(entryTime(l.Published)) + entrySep + inverted(natural(version)) + entrySep + version
	all := []storage.Listing{
		byName.entry(l.Deleted, name+entrySep+version+end),
		byVersion.entry(l.Deleted, version+entrySep+name+end),
		byUpdated.entry(l.Deleted, entryTime(l.Updated)+entrySep+name+entrySep+version+end),
		byAge.entry(l.Deleted, age+end),
	}
	if l.Latest {
		all = append(all, byLatest.entry(l.Deleted, name+entrySep+version+end))
	}
	return all
}

// entryTime returns a time as text of fixed length that sorts by time: the seconds since the
// year 1 and the nanoseconds, in hexadecimal digits.
func entryTime(at time.Time) string {
	const yearOne = 62135596800 // seconds before 1970
	return fmt.Sprintf("%010x%08x", at.Unix()+yearOne, at.Nanosecond())
}

// inverted returns a text such that texts sort in reverse order. The result has no separator,
// because no text contains the inverted bytes of one.
func inverted(text string) string {
	turned := []byte(text)
	for i := range turned {
		turned[i] = ^turned[i]
	}
	return string(turned)
}

// natural returns a version as text that sorts 9 before 10: the length of each number precedes
// it. It orders versions that were published at the same time.
func natural(version string) string {
	var b strings.Builder
	for i := 0; i < len(version); {
		end := i
		for end < len(version) && '0' <= version[end] && version[end] <= '9' {
			end++
		}
		if end > i {
			b.WriteByte(byte(2 + min(end-i, 0x1d))) // sorts below all characters of versions
			b.WriteString(version[i:end])
			i = end
			continue
		}
		b.WriteByte(version[i])
		i++
	}
	return b.String()
}

// listedRow is a parsed entry of a list.
type listedRow struct {
	storage.Listing
	name, version string
	stamp         uint64
	size          int
	latest        bool
}

// mostParts is how many parts an entry has at most.
const mostParts = 5

// splitInto appends the parts of an entry to a list, as far as it has room. An entry has at least one.
func splitInto(parts []string, entry string) []string {
	for more := true; more && len(parts) < cap(parts); {
		var part string
		part, entry, more = strings.Cut(entry, entrySep)
		parts = append(parts, part)
	}
	return parts
}

// parse parses an entry of a list of this order. It returns false if the entry is malformed.
func (o order) parse(l storage.Listing) (listedRow, bool) {
	var list [mostParts + 1]string
	parts := splitInto(list[:0], l.Entry)
	switch {
	case o == byUpdated:
		parts = parts[1:]
	case o == byAge && len(parts) == mostParts:
		parts = append(parts[:1], parts[3:]...)
	}
	if len(parts) != 3 {
		return listedRow{}, false
	}
	row := listedRow{Listing: l, name: parts[0], version: parts[1]}
	if o == byVersion {
		row.name, row.version = parts[1], parts[0]
	}
	end, latest := strings.CutSuffix(parts[2], latestMark)
	stamp, err := strconv.ParseUint(end, 36, 64)
	row.stamp, row.latest, row.size = stamp, latest, len(end)-len(strings.TrimLeft(end, "0"))
	return row, err == nil
}

// id returns the id of a row that was parsed from an entry of a list of this order. Where the entry
// has name and version side by side, it is a part of the entry.
func (o order) id(r listedRow) string {
	from := 0
	switch o {
	case byName, byLatest:
	case byUpdated:
		from = strings.Index(r.Entry, entrySep) + len(entrySep)
	default:
		return rowID(r.name, r.version)
	}
	return r.Entry[from:][:len(r.name)+len(entrySep)+len(r.version)]
}

// behind returns the position behind the row in its list.
func (r listedRow) behind() string {
	return r.Entry[:strings.LastIndex(r.Entry, entrySep)] + afterSep
}
