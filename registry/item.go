package registry

import (
	"encoding/json"
	"unicode/utf8"

	"gatehouse.example/internal/strictjson"
)

// Item is one element of a list: a record and what a registry states about it.
type Item struct {
	Record   Record
	Official Official
	// Meta has the other members of _meta that registries added, by key.
	Meta map[string]json.RawMessage
}

// InvalidItem is an element of a list that cannot be used. Its fields have what could be read:
// a registry that deletes a record may leave little of it.
type InvalidItem struct {
	// Name and Version are empty if they are missing or invalid.
	Name, Version string
	// Official is the registry's statement about the record. Its Status is empty if the
	// status is missing or invalid.
	Official Official
	// Err is the reason why the item cannot be used, mostly an [*InvalidError].
	Err error
}

// maxItem is the size limit of an item in bytes: a record and as many bytes of _meta.
const maxItem = 2 * MaxRecord

var itemBounds = strictjson.Options{MaxBytes: maxItem, MaxDepth: MaxDepth + 2}

// ParseItem reads an element of a list in each of the known forms: a record in the member
// server with _meta beside it, a record that contains its status and the registry's _meta, and
// both at once. If the status occurs more than once, all occurrences must be equal.
//
// ParseItem drops unknown members that are nested too deeply and a _meta that is null. It
// removes from the record what the registry added: status, the key [MetaOfficial], and, if the
// item is the record itself, all keys of _meta but [MetaPublisher]. Every other member of the
// record keeps its bytes.
//
// The error is an [*InvalidError] in most cases.
func ParseItem(data []byte) (Item, error) {
	item, invalid := ReadItem(data)
	if invalid != nil {
		return Item{}, invalid.Err
	}
	return item, nil
}

// ReadItem reads an element of a list as [ParseItem] does. If the item cannot be used, the
// InvalidItem is not nil and has the parts that could be read.
func ReadItem(data []byte) (Item, *InvalidItem) {
	data = lenient(data)
	if err := strictjson.Valid(data, itemBounds); err != nil {
		return Item{}, &InvalidItem{Err: unreadable("item", err)}
	}
	p := splitItem(data)
	item := Item{Meta: p.meta}
	var err error
	if item.Official, err = p.readOfficial(); err == nil {
		item.Record, err = ParseRecord(p.record)
	}
	if err == nil {
		err = p.checkCopies(item.Record)
	}
	if err != nil {
		invalid := &InvalidItem{Official: item.Official, Err: err}
		invalid.Name, invalid.Version = identity(p.record)
		return Item{}, invalid
	}
	return item, nil
}

// identity returns the name and the version of an invalid record, "" for each that is missing
// or invalid.
func identity(record []byte) (name, version string) {
	var is struct {
		Name    json.RawMessage `json:"name"`
		Version json.RawMessage `json:"version"`
	}
	if strictjson.Unmarshal(record, &is, itemBounds) != nil {
		return "", ""
	}
	if json.Unmarshal(is.Name, &name) != nil || !ValidName(name) {
		name = ""
	}
	if json.Unmarshal(is.Version, &version) != nil || utf8.RuneCountInString(version) > maxVersion || wrongVersion(version) != "" {
		version = ""
	}
	return name, version
}

func invalidItem(place, reason string) error {
	return &InvalidError{What: "item", Faults: []Fault{{place, reason}}}
}
