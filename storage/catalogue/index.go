package catalogue

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gatehouse.example/storage"
)

// A catalogue has five orders, each in two lists: of the rows that are live, and of those
// that are deleted. A row is in one of the two, so that a page of live rows never meets a
// deleted one, and a page of all is merged from both.
//
// An entry is what orders it, then the number of the page that added it, which is never
// that of another one. The visible version of the row says which number that is. Zeros
// before the number say how large the row is, so that whoever reads rows knows before how
// much that will be.
type order string

const (
	byName    order = "name"    // name, version
	byVersion order = "version" // version, name
	byLatest  order = "latest"  // name, version; only rows that are latest
	byUpdated order = "updated" // time, name, version
	// byAge is name, version, the last published first. An earlier release did not have it:
	// see [Writer.Relist].
	byAge order = "age"
)

// allOrders is how many orders there are.
const allOrders = 5

// entrySep stands between the parts of an entry, and afterSep behind a row that was read:
// it comes after all its entries and before every other row. No name and no version has
// either.
const (
	entrySep = "\x00"
	afterSep = "\x01"
)

// latestMark ends the entries of rows that are latest, so that nobody reads a row to learn
// that it is not.
const latestMark = "L"

// list names one of the two lists of an order.
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

// listing is what the entries of a row in the lists are made of.
type listing struct {
	Stamp     uint64    `json:"stamp"`
	Updated   time.Time `json:"updated,omitzero"`
	Published time.Time `json:"published,omitzero"`
	Deleted   bool      `json:"deleted,omitempty"`
	Latest    bool      `json:"latest,omitempty"`
	Size      int       `json:"size,omitempty"`
}

// listing is that of a version.
func (v *rowVersion) listing() *listing {
	return &listing{
		Stamp: v.Stamp, Updated: v.Updated, Published: v.Published, Deleted: v.Status == StatusDeleted, Latest: v.Latest, Size: v.Size,
	}
}

// alike reports whether two rows would be in the same lists at the same places.
func (l *listing) alike(o *listing) bool {
	return l.Updated.Equal(o.Updated) && l.Published.Equal(o.Published) && l.Deleted == o.Deleted && l.Latest == o.Latest && l.Size == o.Size
}

// A row of a size has sizeStep bytes at most, and four times as many with every further
// size. The size 0 is that of a row whose size is not known.
const (
	sizeStep    = 4 << 10
	unknownSize = 64 << 10
)

// sizeOf returns the size of a row of so many bytes.
func sizeOf(bytes int) int {
	size := 1
	for most := sizeStep; bytes > most; most *= 4 {
		size++
	}
	return size
}

// weight is how many bytes a row of a size may have.
func weight(size int) int {
	if size == 0 {
		return unknownSize
	}
	return sizeStep << (2 * (min(size, 12) - 1))
}

// entries returns the entries of a row, none without a listing.
func (l *listing) entries(name, version string) []storage.Listing {
	if l == nil {
		return nil
	}
	end := entrySep + strings.Repeat("0", l.Size) + strconv.FormatUint(l.Stamp, 36)
	if l.Latest {
		end += latestMark
	}
	age := name + entrySep + backwards(entryTime(l.Published)) + entrySep + backwards(natural(version)) + entrySep + version
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

// entryTime is a time as text of one length, in the order of time: seconds since the year
// 1, and nanoseconds.
func entryTime(at time.Time) string {
	const yearOne = 62135596800 // seconds before 1970
	return fmt.Sprintf("%010x%08x", at.Unix()+yearOne, at.Nanosecond())
}

// backwards turns the order of texts around. What it returns has neither separator, because
// no text has the bytes that would become one.
func backwards(text string) string {
	turned := []byte(text)
	for i := range turned {
		turned[i] = ^turned[i]
	}
	return string(turned)
}

// natural is a version as text in whose order 9 comes before 10: each number has its length
// before it. It orders versions that were published at the same time.
func natural(version string) string {
	var b strings.Builder
	for i := 0; i < len(version); {
		end := i
		for end < len(version) && '0' <= version[end] && version[end] <= '9' {
			end++
		}
		if end > i {
			b.WriteByte(byte(2 + min(end-i, 0x1d))) // below everything that a version has
			b.WriteString(version[i:end])
			i = end
			continue
		}
		b.WriteByte(version[i])
		i++
	}
	return b.String()
}

// listedRow is an entry of a list taken apart.
type listedRow struct {
	storage.Listing
	name, version string
	stamp         uint64
	size          int
	latest        bool
}

// parse takes an entry of this order apart. What is no entry is none.
func (o order) parse(l storage.Listing) (listedRow, bool) {
	parts := strings.Split(l.Entry, entrySep)
	switch {
	case o == byUpdated:
		parts = parts[1:]
	case o == byAge && len(parts) == 5:
		parts = []string{parts[0], parts[3], parts[4]}
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

// behind is the place after a row in its list.
func (r listedRow) behind() string {
	return r.Entry[:strings.LastIndex(r.Entry, entrySep)] + afterSep
}
