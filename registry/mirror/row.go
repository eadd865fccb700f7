package mirror

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/registry"
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

// What an operator should know about a row: its Flags.
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

// Status messages of rows that no registry has deleted.
const (
	messageVanished = "The upstream registry does not list it any more."
	messageStatus   = "The upstream registry gives it a status that this registry does not know."
	messageShadowed = "This registry has a server of its own with this name."
	messageGone     = "This registry does not offer it any more."
)

func live(e entry) bool { return e.Status != catalogue.StatusDeleted }

func flagged(e entry, flag string) bool { return slices.Contains(e.Flags, flag) }

// setFlags sets or removes flags. The list of the entry is shared, so it gets a new one.
func setFlags(e *entry, on bool, flags ...string) {
	rest := slices.DeleteFunc(slices.Clone(e.Flags), func(f string) bool { return slices.Contains(flags, f) })
	if on {
		rest = append(rest, flags...)
		slices.Sort(rest)
	}
	if len(rest) == 0 {
		rest = nil
	}
	e.Flags = rest
}

// markDeleted marks a row as deleted by this registry.
func markDeleted(e *entry, message string, at time.Time) {
	e.Status, e.StatusMessage, e.StatusChanged = catalogue.StatusDeleted, message, at
}

// setOfficial sets what a registry says about a row. A time that it leaves out is the one that
// it gave before, or else now.
func setOfficial(e *entry, official registry.Official, now time.Time) {
	changed := official.StatusChangedAt
	if changed.IsZero() {
		changed = e.StatusChanged
		if changed.IsZero() || e.Status != string(official.Status) {
			changed = now
		}
	}
	published := official.PublishedAt
	if published.IsZero() {
		published = e.Published
	}
	if published.IsZero() {
		published = now
	}
	e.Status, e.StatusMessage, e.StatusChanged, e.Published = string(official.Status), official.StatusMessage, changed, published
}

// differs reports whether readers can see a difference between two states of a row.
func differs(a, b entry) bool {
	return !bytes.Equal(a.Server, b.Server) || !bytes.Equal(a.Meta, b.Meta) || a.Status != b.Status || a.StatusMessage != b.StatusMessage ||
		!a.Published.Equal(b.Published) || !a.StatusChanged.Equal(b.StatusChanged) || a.Latest != b.Latest || a.Origin != b.Origin
}

// differsIn names the members in which the record of a row differs from that of an item.
func differsIn(e entry, item registry.Item) string {
	before, _ := registry.StoredRecord(e.Server) // its bytes are enough
	return strings.Join(before.Differs(item.Record), " ")
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

// rowBounds are the bounds of everything that a row holds: those of an item.
var rowBounds = strictjson.Options{MaxBytes: 2 * registry.MaxRecord, MaxDepth: registry.MaxDepth + 2}

// sameJSON reports whether two values are equal but for order and white space.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var inA, inB any
	return strictjson.Unmarshal(a, &inA, rowBounds) == nil && strictjson.Unmarshal(b, &inB, rowBounds) == nil && reflect.DeepEqual(inA, inB)
}
