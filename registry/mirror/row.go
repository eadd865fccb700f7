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

// Values of catalogue.Entry.Origin: the source of a row.
const (
	// OriginUpstream marks a row that an upstream registry lists or has listed.
	OriginUpstream = "upstream"
	// OriginOwn marks an own server. No upstream changes it.
	OriginOwn = "own"
)

// Values of catalogue.Entry.Flags: conditions of a row that the operator should check.
const (
	// FlagChanged: the upstream lists another record under this name and version than at
	// first. The first one stays.
	FlagChanged = "changed"
	// FlagConflict: this is an own server, and the upstream lists a server with its name.
	FlagConflict = "conflict"
	// FlagVanished: the upstream does not list the row any more, without having deleted it.
	// The row is hidden.
	FlagVanished = "vanished"
	// FlagStatus: the upstream gives the row an unknown status. The row is hidden.
	FlagStatus = "status"
	// FlagShadowed: an own server has the name of this row of the upstream. The row is hidden.
	FlagShadowed = "shadowed"
)

// Status messages of rows that the mirror deleted, not the upstream.
const (
	messageVanished = "The upstream registry does not list it any more."
	messageStatus   = "The upstream registry gives it a status that this registry does not know."
	messageShadowed = "This registry has a server of its own with this name."
	messageGone     = "This registry does not offer it any more."
)

func live(e entry) bool { return e.Status != catalogue.StatusDeleted }

func flagged(e entry, flag string) bool { return slices.Contains(e.Flags, flag) }

// setFlags sets or removes flags. Other copies of the entry share its slice of flags, so
// setFlags makes a new one.
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

// setOfficial applies a registry's statement to a row. A time that the statement lacks stays
// as it was, or is set to now if the row had none or, for the time of the status, if the status
// changed.
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

// differs reports whether two states of a row differ for readers.
func differs(a, b entry) bool {
	return !bytes.Equal(a.Server, b.Server) || !bytes.Equal(a.Meta, b.Meta) || a.Status != b.Status || a.StatusMessage != b.StatusMessage ||
		!a.Published.Equal(b.Published) || !a.StatusChanged.Equal(b.StatusChanged) || a.Latest != b.Latest || a.Origin != b.Origin
}

// differsIn returns the names of the members in which the record of a row differs from that of
// an item, separated by spaces.
func differsIn(e entry, item registry.Item) string {
	before, _ := registry.StoredRecord(e.Server) // Differs needs the bytes alone
	return strings.Join(before.Differs(item.Record), " ")
}

// metaOf returns Item.Meta as a JSON object, nil if it is empty. Values keep their bytes.
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

// rowBounds are the limits of the JSON values of a row, the same as those of an item.
var rowBounds = strictjson.Options{MaxBytes: 2 * registry.MaxRecord, MaxDepth: registry.MaxDepth + 2}

// sameJSON reports whether two values are equal apart from the order of members and white
// space.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var inA, inB any
	return strictjson.Unmarshal(a, &inA, rowBounds) == nil && strictjson.Unmarshal(b, &inB, rowBounds) == nil && reflect.DeepEqual(inA, inB)
}
