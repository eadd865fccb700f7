package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/registry/internal/rawjson"
	"gatehouse.example/storage/catalogue"
)

// entry is a row of the catalogue.
type entry = catalogue.Entry

// Where a row of the catalogue comes from: its Origin.
const (
	// OriginUpstream is a row that an upstream registry lists, or did.
	OriginUpstream = "upstream"
	// OriginOwn is a server of our own. No upstream changes it.
	OriginOwn = "own"
)

// What is to be known about a row: its Flags.
const (
	// FlagChanged: the upstream shows another record under this name and version than it
	// did. The first one stays.
	FlagChanged = "changed"
	// FlagConflict: the upstream lists a server with the name of this one, which is ours.
	FlagConflict = "conflict"
	// FlagVanished: the upstream does not list it any more, and never said that it was
	// deleted.
	FlagVanished = "vanished"
	// FlagStatus: what the upstream says about its status cannot be understood, so it is
	// hidden.
	FlagStatus = "status"
	// FlagShadowed: it is hidden, because a server of our own has its name.
	FlagShadowed = "shadowed"
)

// What readers are told about rows that no registry has deleted.
const (
	sayVanished = "The upstream registry does not list it any more."
	sayStatus   = "The upstream registry gives it a status that this registry does not know."
	sayShadowed = "This registry has a server of its own with this name."
	sayGone     = "This registry does not offer it any more."
)

// family is all versions of one server: as they are on record, and as they are to be. The
// versions that are on record come first, in the same order. A server may have many large
// ones: records that nobody looks at are left out, until they are written.
type family struct {
	name    string
	was, is []entry
}

func newFamily(name string, was []entry) *family {
	return &family{name: name, was: was, is: slices.Clone(was)}
}

// find returns a version as it is to be, and whether there is one.
func (f *family) find(version string) (*entry, bool) {
	i := slices.IndexFunc(f.is, func(e entry) bool { return e.Version == version })
	if i < 0 {
		return &entry{Name: f.name, Version: version}, false
	}
	return &f.is[i], true
}

// room refuses a version more than a server may have.
func (f *family) room(version string) error {
	if _, known := f.find(version); known || len(f.is) < catalogue.MaxVersions {
		return nil
	}
	return fmt.Errorf("registry: aggregator: the server has %d versions already", catalogue.MaxVersions)
}

// put replaces or adds a version.
func (f *family) put(e entry) {
	if there, ok := f.find(e.Version); ok {
		*there = e
		return
	}
	f.is = append(f.is, e)
}

// change is a version that has to be written.
type change struct {
	entry
	was *entry // nil if it is new
}

// changes decides which version is the latest, and returns those that are not as they are on
// record. Where readers can see the difference, the time of the update is the stamp.
func (f *family) changes(stamp time.Time) []change {
	elect(f.is)
	var out []change
	for i, is := range f.is {
		if i >= len(f.was) {
			is.Updated = stamp
			out = append(out, change{is, nil})
			continue
		}
		was := f.was[i]
		visible := differs(was, is)
		if visible {
			is.Updated = stamp
		}
		if visible || !slices.Equal(was.Flags, is.Flags) {
			out = append(out, change{is, &was})
		}
	}
	return out
}

// differs reports whether readers can see a difference between two states of a row.
func differs(a, b entry) bool {
	return !bytes.Equal(a.Server, b.Server) || !bytes.Equal(a.Meta, b.Meta) || a.Status != b.Status || a.StatusMessage != b.StatusMessage ||
		!a.Published.Equal(b.Published) || !a.StatusChanged.Equal(b.StatusChanged) || a.Latest != b.Latest || a.Origin != b.Origin
}

// elect decides which version of a server is the latest: the highest of those that are not
// deleted, or of all if all are. What an upstream says about it is not looked at: it says
// so at another time than we read it, and does not know the versions that we hold.
func elect(rows []entry) {
	latest := -1
	for i, e := range rows {
		rows[i].Latest = false
		if latest < 0 || higher(e, rows[latest]) {
			latest = i
		}
	}
	if latest >= 0 {
		rows[latest].Latest = true
	}
}

func higher(a, b entry) bool {
	if live(a) != live(b) {
		return live(a)
	}
	return CompareReleases(a.Version, a.Published, b.Version, b.Published) > 0
}

func live(e entry) bool { return e.Status != catalogue.StatusDeleted }

func flagged(e entry, flag string) bool { return slices.Contains(e.Flags, flag) }

// flag sets or takes away a flag. The list of the entry is shared, so it gets a new one.
func flag(e *entry, flag string, on bool) {
	rest := slices.DeleteFunc(slices.Clone(e.Flags), func(f string) bool { return f == flag })
	if on {
		rest = append(rest, flag)
		slices.Sort(rest)
	}
	if len(rest) == 0 {
		rest = nil
	}
	e.Flags = rest
}

// bury marks a row as deleted by us.
func bury(e *entry, message string, at time.Time) {
	e.Status, e.StatusMessage, e.StatusChanged = catalogue.StatusDeleted, message, at
}

// describe sets what a registry says about a row. It is now for what it says without a time,
// unless it has said it before.
func describe(e *entry, said Official, now time.Time) {
	changed := said.StatusChangedAt
	if changed.IsZero() {
		changed = e.StatusChanged
		if changed.IsZero() || e.Status != string(said.Status) {
			changed = now
		}
	}
	published := said.PublishedAt
	if published.IsZero() {
		published = e.Published
	}
	if published.IsZero() {
		published = now
	}
	e.Status, e.StatusMessage, e.StatusChanged, e.Published = string(said.Status), said.StatusMessage, changed, published
}

// metaOf writes the further keys of an item as one object, nil if there are none. Values
// keep their bytes.
func metaOf(meta map[string]json.RawMessage) json.RawMessage {
	if len(meta) == 0 {
		return nil
	}
	var all []rawjson.Member
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		all = append(all, rawjson.New(key, meta[key]))
	}
	return rawjson.Object(all)
}

// sameJSON reports whether two values say the same. Order and white space do not count.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var inA, inB any
	return strictjson.Unmarshal(a, &inA, itemBounds) == nil && strictjson.Unmarshal(b, &inB, itemBounds) == nil && reflect.DeepEqual(inA, inB)
}
