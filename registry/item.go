package registry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/registry/internal/rawjson"
)

// Status is what a registry says about whether a server should be used. Any status may
// follow any other.
type Status string

// The statuses.
const (
	StatusActive     Status = "active"
	StatusDeprecated Status = "deprecated" // still there, but better not begun with
	StatusDeleted    Status = "deleted"    // taken away, mostly for what was in it
)

// Validate refuses a status that is none of the three.
func (s Status) Validate() error {
	switch s {
	case StatusActive, StatusDeprecated, StatusDeleted:
		return nil
	}
	return fmt.Errorf("registry: the status %.40q is none", string(s))
}

// maxStatusMessage is how many characters the message of a status may have.
const maxStatusMessage = 500

// Official is what a registry says about a record, under the key [MetaOfficial]. A time
// that it does not tell is zero.
type Official struct {
	Status          Status
	StatusMessage   string
	StatusChangedAt time.Time
	PublishedAt     time.Time
	UpdatedAt       time.Time
	IsLatest        bool
}

// Item is a record with what a registry says about it: one element of a list.
type Item struct {
	Record   Record
	Official Official
	// Meta are the further keys under which registries speak about the record.
	Meta map[string]json.RawMessage
}

// InvalidItem is an element of a list that cannot be used. What could be read of it says
// what it is about: a registry that takes a record away may leave little of it.
type InvalidItem struct {
	// Name and Version are empty if they cannot be read, or are none.
	Name, Version string
	// Official is what the registry says about the record. Its Status is empty if that
	// cannot be read.
	Official Official
	// Err says what is wrong, mostly as an [*InvalidError].
	Err error
}

// maxItem is how many bytes an item may have: a record, and again as much about it.
const maxItem = 2 * MaxRecord

var itemBounds = strictjson.Options{MaxBytes: maxItem, MaxDepth: MaxDepth + 2}

// ParseItem reads an element of a list in the forms that there are: a record under server
// with _meta beside it, a record with its status and everything about it inside, and both
// at once. Where the status stands more than once, it must be the same.
//
// A member that nobody knows and that is nested too deep is left out, and so is a _meta that
// is null: the record is as good without it.
//
// What a registry says is taken out of the record: status, the key [MetaOfficial], and of a
// record without anything beside it all keys of _meta but [MetaPublisher]. Every other
// member of the record stays byte for byte.
func ParseItem(data []byte) (Item, error) {
	item, invalid := ReadItem(data)
	if invalid != nil {
		return Item{}, invalid.Err
	}
	return item, nil
}

// ReadItem reads an element of a list as [ParseItem] does. Of one that cannot be used it
// returns as much as can be read.
func ReadItem(data []byte) (Item, *InvalidItem) {
	data = lenient(data)
	if err := strictjson.Valid(data, itemBounds); err != nil {
		return Item{}, &InvalidItem{Err: unreadable("item", err)}
	}
	p := takeApart(data)
	item := Item{Meta: p.meta}
	var err error
	if item.Official, err = p.official(); err == nil {
		item.Record, err = ParseRecord(p.record)
	}
	if err == nil {
		err = p.contradiction(item.Record)
	}
	if err != nil {
		invalid := &InvalidItem{Official: item.Official, Err: err}
		invalid.Name, invalid.Version = identity(p.record)
		return Item{}, invalid
	}
	return item, nil
}

// parts is an item taken apart.
type parts struct {
	outer  []rawjson.Member           // of the item
	record []byte                     // without what is said about it
	said   []json.RawMessage          // under MetaOfficial, what counts first
	status []json.RawMessage          // outside of it
	meta   map[string]json.RawMessage // beside the record, without MetaOfficial
	both   bool                       // the record stands under server
}

func takeApart(data []byte) parts {
	p := parts{outer: rawjson.Members(data), record: data, meta: map[string]json.RawMessage{}}
	beside := rawjson.Members(rawjson.Find(p.outer, "_meta"))
	if server := rawjson.Find(p.outer, "server"); rawjson.IsObject(server) {
		p.record, p.both = server, true
		p.hear(rawjson.Find(p.outer, "status"))
		p.listen(beside)
	}
	inner := p.outer
	if p.both {
		inner = rawjson.Members(p.record)
	}
	if status := rawjson.Find(inner, "status"); status != nil {
		p.hear(status)
		p.record = rawjson.Without(p.record, "status")
	}
	if own := rawjson.Find(inner, "_meta"); rawjson.IsObject(own) {
		p.fromRecord(rawjson.Members(own))
	}
	return p
}

// hear notes a status that stands outside of MetaOfficial.
func (p *parts) hear(status json.RawMessage) {
	if status != nil {
		p.status = append(p.status, status)
	}
}

// listen takes what a registry says beside a record.
func (p *parts) listen(beside []rawjson.Member) {
	for _, m := range beside {
		switch m.Name {
		case MetaOfficial:
			p.said = append(p.said, m.Value)
		case "status": // written without its key, as in examples of the interface
			p.hear(m.Value)
		default:
			p.meta[m.Name] = bytes.Clone(m.Value) // whoever keeps it does not keep the whole page
		}
	}
}

// fromRecord takes what a registry says out of _meta of the record.
func (p *parts) fromRecord(own []rawjson.Member) {
	publishers := func(m rawjson.Member) bool { return m.Name == MetaPublisher || p.both && m.Name != MetaOfficial }
	registrys := slices.DeleteFunc(slices.Clone(own), publishers)
	own = slices.DeleteFunc(own, func(m rawjson.Member) bool { return !publishers(m) })
	for _, m := range own {
		// Beside the record, what the record says itself may be told again.
		if string(p.meta[m.Name]) == string(m.Value) {
			delete(p.meta, m.Name)
		}
	}
	p.listen(registrys)
	switch {
	case len(registrys) == 0:
	case len(own) == 0:
		p.record = rawjson.Without(p.record, "_meta")
	default:
		p.record = rawjson.With(p.record, "_meta", rawjson.Object(own))
	}
}

// official reads what the registry says about the record, and refuses what contradicts
// itself. Without a word the record is active. What can be read comes with the error.
func (p *parts) official() (Official, error) {
	o, err := p.heard()
	if err != nil {
		return o, err
	}
	o.Status = cmp.Or(o.Status, StatusActive)
	if beside := rawjson.Find(p.outer, "_meta"); beside != nil && !rawjson.IsObject(beside) {
		return o, invalidItem("_meta", "it must be an object")
	}
	for _, key := range slices.Sorted(maps.Keys(p.meta)) {
		if wrong := wrongKey(key); wrong != "" {
			return o, invalidItem("_meta", wrong)
		}
	}
	return o, nil
}

func (p *parts) heard() (o Official, err error) {
	for i, raw := range p.said {
		said, err := parseOfficial(raw)
		if err != nil {
			return said, err
		}
		if i > 0 && !said.equal(o) {
			return Official{}, invalidItem("_meta", MetaOfficial+" says two different things")
		}
		o = said
	}
	for _, raw := range p.status {
		var status Status
		if json.Unmarshal(raw, &status) != nil {
			return Official{}, invalidItem("status", "it must be a string")
		}
		if err := wrongStatus("status", status); err != nil {
			return Official{}, err
		}
		if o.Status = cmp.Or(o.Status, status); o.Status != status {
			return Official{}, invalidItem("status", fmt.Sprintf("it is %s in one place and %s in another", o.Status, status))
		}
	}
	return o, nil
}

// contradiction refuses members beside a record that say something else than the record:
// older readers go by them.
func (p *parts) contradiction(r Record) error {
	if !p.both {
		return nil
	}
	for name, value := range map[string]string{"name": r.Name(), "version": r.Version()} {
		beside := rawjson.Find(p.outer, name)
		var text string
		if beside != nil && (json.Unmarshal(beside, &text) != nil || text != value) {
			return invalidItem(name, "it is another one than in server")
		}
	}
	return nil
}

func parseOfficial(raw json.RawMessage) (Official, error) {
	var said struct {
		Status          *Status `json:"status"`
		StatusMessage   string  `json:"statusMessage"`
		StatusChangedAt string  `json:"statusChangedAt"`
		PublishedAt     string  `json:"publishedAt"`
		UpdatedAt       string  `json:"updatedAt"`
		IsLatest        bool    `json:"isLatest"`
	}
	if err := strictjson.Unmarshal(raw, &said, itemBounds); err != nil {
		invalid := unreadable("item", err)
		invalid.Faults[0].Place = strings.TrimSuffix("_meta."+MetaOfficial+"."+invalid.Faults[0].Place, ".")
		return Official{Status: statusAlone(raw)}, invalid
	}
	o := Official{StatusMessage: said.StatusMessage, IsLatest: said.IsLatest}
	var errs [5]error
	if said.Status != nil {
		if errs[0] = wrongStatus("_meta."+MetaOfficial+".status", *said.Status); errs[0] == nil {
			o.Status = *said.Status
		}
	}
	if utf8.RuneCountInString(o.StatusMessage) > maxStatusMessage {
		o.StatusMessage = ""
		errs[1] = invalidItem("_meta."+MetaOfficial+".statusMessage", fmt.Sprintf("it must have %d characters at most", maxStatusMessage))
	}
	o.StatusChangedAt, errs[2] = moment("statusChangedAt", said.StatusChangedAt)
	o.PublishedAt, errs[3] = moment("publishedAt", said.PublishedAt)
	o.UpdatedAt, errs[4] = moment("updatedAt", said.UpdatedAt)
	return o, cmp.Or(errs[:]...)
}

// statusAlone reads the status where something else cannot be read. It is empty unless it is
// one of the three.
func statusAlone(raw json.RawMessage) Status {
	var s Status
	if json.Unmarshal(rawjson.Find(rawjson.Members(raw), "status"), &s) != nil || s.Validate() != nil {
		return ""
	}
	return s
}

func wrongStatus(place string, s Status) error {
	if s.Validate() == nil {
		return nil
	}
	return invalidItem(place, "it must be active, deprecated or deleted")
}

// moment reads a time of RFC 3339, in UTC. None is zero.
func moment(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	// RFC 3339 section 1: years have four digits, in UTC as well.
	if t = t.UTC(); err != nil || t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}, invalidItem("_meta."+MetaOfficial+"."+name, "it must be a time of RFC 3339")
	}
	return t, nil
}

func (o Official) equal(other Official) bool {
	return o.Status == other.Status && o.StatusMessage == other.StatusMessage && o.IsLatest == other.IsLatest &&
		o.StatusChangedAt.Equal(other.StatusChangedAt) && o.PublishedAt.Equal(other.PublishedAt) && o.UpdatedAt.Equal(other.UpdatedAt)
}

// identity reads the name and the version of a record that cannot be used otherwise.
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
