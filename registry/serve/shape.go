package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatehouse.example/internal/appendjson"
	"gatehouse.example/registry"
	"gatehouse.example/registry/internal/rawjson"
	"gatehouse.example/storage/catalogue"
)

// shape is the form of an item in answers.
type shape int

const (
	// shapeBoth has the members of both other shapes, for clients of the current interface and
	// of the older form (requirements R-REC-1 to R-REC-7).
	shapeBoth shape = iota
	// shapeWrapped has the record in the member server and _meta beside it, as the interface
	// is described.
	shapeWrapped
	// shapeRecord has the members of the record with status and _meta: the older form.
	shapeRecord
)

func parseShape(text string) (shape, error) {
	switch text {
	case "":
		return shapeBoth, nil
	case "wrapped":
		return shapeWrapped, nil
	case "record":
		return shapeRecord, nil
	}
	return 0, unprocessable("shape must be wrapped or record. Without it an item has both.")
}

// ownMeta is this registry's own key of _meta and the function that returns its values.
type ownMeta struct {
	key    string
	enrich func(registry.Item) (json.RawMessage, error)
}

// owns reports whether key is the registry's own key, in any case of letters.
func (o ownMeta) owns(key string) bool { return o.key != "" && strings.EqualFold(key, o.key) }

// row is a row of the catalogue, divided into members.
type row struct {
	entry      catalogue.Entry
	record     []byte           // without the registry's own key of _meta
	members    []rawjson.Member // of the record, without _meta
	recordMeta []rawjson.Member // of _meta of the record
	itemMeta   []rawjson.Member // of _meta beside the record, without MetaOfficial
}

var errRow = errors.New("registry: a row of the catalogue does not consist of objects")

// split divides a row into members and drops the registry's own key of _meta: only Enrich
// supplies values for that key (requirement R-REC-5).
func (o ownMeta) split(e catalogue.Entry) (row, error) { return o.splitInto(&lists{}, e) }

// lists are lists of members, and a text, that are used for one row after another.
type lists struct {
	members, recordMeta, itemMeta, meta []rawjson.Member
	official                            []byte
}

// splitInto is split with lists that are used anew: a row is valid until the next one.
func (o ownMeta) splitInto(l *lists, e catalogue.Entry) (row, error) {
	r := row{entry: e, record: bytes.TrimSpace(e.Server)}
	isOwnKey := func(m rawjson.Member) bool { return o.owns(m.Name) }
	var valid, validMeta bool
	l.members, l.recordMeta, valid = rawjson.AppendInside("_meta", l.members[:0], l.recordMeta[:0], r.record)
	l.itemMeta, validMeta = rawjson.AppendMembers(l.itemMeta[:0], e.Meta)
	if !valid || len(e.Meta) > 0 && (!validMeta || !rawjson.IsObject(e.Meta)) {
		return row{}, fmt.Errorf("%w: %s %s", errRow, e.Name, e.Version)
	}
	if statusOf(e).Validate() != nil { // a row with an unknown status must not be served as active
		return row{}, fmt.Errorf("%w: %s %s has the status %.40q", errRow, e.Name, e.Version, e.Status)
	}
	r.members = l.members
	if i := slices.IndexFunc(r.members, rawjson.Named("_meta")); i >= 0 {
		meta := r.members[i]
		r.members = slices.Delete(r.members, i, i+1)
		r.recordMeta = l.recordMeta
		if slices.ContainsFunc(r.recordMeta, isOwnKey) {
			r.recordMeta = slices.DeleteFunc(r.recordMeta, isOwnKey)
			r.record = slices.Concat(r.record[:meta.At], rawjson.AppendObject(nil, r.recordMeta), r.record[meta.At+len(meta.Value):])
		}
	}
	r.itemMeta = slices.DeleteFunc(l.itemMeta, func(m rawjson.Member) bool { return m.Name == registry.MetaOfficial || isOwnKey(m) })
	return r, nil
}

// appendItem appends a row as a JSON item. The member server has the record's original bytes.
func (h *Handler) appendItem(b []byte, e catalogue.Entry, s shape) ([]byte, error) {
	return h.appendItemWith(&lists{}, b, e, s)
}

func (h *Handler) appendItemWith(l *lists, b []byte, e catalogue.Entry, s shape) ([]byte, error) {
	r, err := h.ownMeta.splitInto(l, e)
	if err != nil {
		return b, err
	}
	meta := h.metaOf(l, r)
	defer func() { l.meta = meta }()
	b = append(b, '{')
	if s != shapeRecord {
		b = append(append(b, `"server":`...), r.record...)
	}
	if s == shapeWrapped {
		return append(rawjson.AppendObject(append(b, `,"_meta":`...), meta), '}'), nil
	}
	for _, m := range r.members {
		if m.Name == "status" || m.Name == "server" && s == shapeBoth {
			continue // the registry's value is written instead
		}
		b = append(appendComma(b), m.Text...)
	}
	b = appendjson.String(append(appendComma(b), `"status":`...), string(statusOf(e)))
	for _, m := range r.recordMeta { // the values of registries take precedence over the record's
		if m.Name != registry.MetaOfficial && !slices.ContainsFunc(meta, rawjson.Named(m.Name)) {
			meta = append(meta, m)
		}
	}
	return append(rawjson.AppendObject(append(b, `,"_meta":`...), meta), '}'), nil
}

// metaOf returns the members of _meta beside the record: MetaOfficial, those of the upstream, and
// this registry's own. They are valid until the next row.
func (h *Handler) metaOf(l *lists, r row) []rawjson.Member {
	l.official = appendOfficial(append(l.official[:0], `"`+registry.MetaOfficial+`":`...), r.entry)
	meta := append(l.meta[:0], rawjson.Member{Name: registry.MetaOfficial, Text: l.official})
	meta = append(meta, r.itemMeta...)
	if value := h.enriched(r); value != nil {
		meta = append(meta, rawjson.New(h.ownMeta.key, value))
	}
	return meta
}

// enriched returns the value for the registry's own key, nil for none.
func (h *Handler) enriched(r row) json.RawMessage {
	if h.ownMeta.enrich == nil {
		return nil
	}
	item, err := r.item()
	var value json.RawMessage
	if err == nil {
		value, err = h.ownMeta.enrich(item)
	}
	if err == nil && value != nil && !json.Valid(value) {
		err = errors.New("it is not valid JSON")
	}
	if err != nil {
		h.logFault("the registry's own data about an item is left out", "name", r.entry.Name, "version", r.entry.Version, "err", err)
		return nil
	}
	return value
}

// item returns the row as an item. The record was validated before it was stored.
func (r row) item() (registry.Item, error) {
	record, err := registry.StoredRecord(r.record)
	item := registry.Item{Record: record, Official: officialOf(r.entry), Meta: map[string]json.RawMessage{}}
	for _, m := range r.itemMeta {
		item.Meta[m.Name] = m.Value
	}
	return item, err
}

func officialOf(e catalogue.Entry) registry.Official {
	return registry.Official{
		Status: statusOf(e), StatusMessage: e.StatusMessage, StatusChangedAt: e.StatusChanged,
		PublishedAt: e.Published, UpdatedAt: e.Updated, IsLatest: e.Latest,
	}
}

func statusOf(e catalogue.Entry) registry.Status {
	return cmp.Or(registry.Status(e.Status), registry.StatusActive)
}

// appendOfficial appends the value of MetaOfficial. Unknown times are left out.
func appendOfficial(b []byte, e catalogue.Entry) []byte {
	b = appendjson.String(append(b, `{"status":`...), string(statusOf(e)))
	if e.StatusMessage != "" {
		b = appendjson.String(append(b, `,"statusMessage":`...), e.StatusMessage)
	}
	for _, at := range [...]struct {
		name string
		time time.Time
	}{{`,"statusChangedAt":"`, e.StatusChanged}, {`,"publishedAt":"`, e.Published}, {`,"updatedAt":"`, e.Updated}} {
		if !at.time.IsZero() {
			b = append(b, at.name...)
			b = append(at.time.UTC().AppendFormat(b, time.RFC3339Nano), '"')
		}
	}
	b = strconv.AppendBool(append(b, `,"isLatest":`...), e.Latest)
	return append(b, '}')
}

// writeList returns a page as JSON and the number of rows written: rows that cannot be written are
// left out. If the page exceeds maxAnswer, body is nil and fitted is the number of rows that fit;
// otherwise fitted is the number of entries.
func (h *Handler) writeList(entries []catalogue.Entry, next string, s shape) (body []byte, fitted, written int) {
	d := drafts.Get().(*draft)
	if fitted, written = h.draftList(d, entries, next, s); fitted < len(entries) {
		return nil, fitted, written // so large a draft is not used again
	}
	return d.finish(), fitted, written
}

// draftList writes the page to a draft, and returns the number of rows that fit and that are written.
func (h *Handler) draftList(d *draft, entries []catalogue.Entry, next string, s shape) (fitted, written int) {
	size, times := 64, 1
	if s == shapeBoth {
		times = 2 // an item has the record in both forms
	}
	for _, e := range entries {
		size += times*len(e.Server) + len(e.Meta) + 512
	}
	d.text = append(slices.Grow(d.text[:0], size), `{"servers":[`...)
	b := d.text
	for i, e := range entries {
		before := len(b)
		if written > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = h.appendItemWith(&d.lists, b, e, s); err != nil {
			h.logFault("a row of the catalogue is left out", "err", err)
			b = b[:before]
			continue
		}
		if len(b) > maxAnswer && i > 0 {
			return i, written
		}
		written++
	}
	b = append(b, `],"metadata":{`...)
	if next != "" {
		b = append(append(b, `"nextCursor":"`...), next+`",`...)
	}
	b = strconv.AppendInt(append(b, `"count":`...), int64(written), 10)
	d.text = append(b, `}}`...)
	return len(entries), written
}

// appendComma appends a comma unless b ends with the beginning of an object or a list.
func appendComma(b []byte) []byte {
	if last := b[len(b)-1]; last == '{' || last == '[' {
		return b
	}
	return append(b, ',')
}
