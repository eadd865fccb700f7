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

	"gatehouse.example/registry"
	"gatehouse.example/registry/internal/rawjson"
	"gatehouse.example/storage/catalogue"
)

// shape is how an item is written.
type shape int

const (
	// shapeBoth is the record under server with _meta beside it, as the interface is
	// described, and the record's own members with its status beside those, as readers of
	// the older form expect it (requirements R-REC-1 to R-REC-7).
	shapeBoth shape = iota
	shapeWrapped
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

// voice is how this registry speaks itself: under a key of its own.
type voice struct {
	key    string
	enrich func(registry.Item) (json.RawMessage, error)
}

// owns reports the key, in whatever case, which nobody else may use.
func (v voice) owns(key string) bool { return v.key != "" && strings.EqualFold(key, v.key) }

// row is a row of the catalogue taken apart.
type row struct {
	entry   catalogue.Entry
	record  []byte           // without what it says under our key
	members []rawjson.Member // of the record, but for _meta
	own     []rawjson.Member // of _meta of the record
	said    []rawjson.Member // what registries say beside the record, but for MetaOfficial
}

var errRow = errors.New("registry: a row of the catalogue is not made of objects")

// take takes a row apart. What it says under our key is not in it any more: only we speak
// there (requirement R-REC-5).
func (v voice) take(e catalogue.Entry) (row, error) {
	r := row{entry: e, record: bytes.TrimSpace(e.Server)}
	if !rawjson.IsObject(r.record) || !json.Valid(r.record) || len(e.Meta) > 0 && (!rawjson.IsObject(e.Meta) || !json.Valid(e.Meta)) {
		return row{}, fmt.Errorf("%w: %s %s", errRow, e.Name, e.Version)
	}
	if statusOf(e).Validate() != nil { // it is not for us to say that it is fine
		return row{}, fmt.Errorf("%w: %s %s has the status %.40q", errRow, e.Name, e.Version, e.Status)
	}
	ours := func(s rawjson.Member) bool { return v.owns(s.Name) }
	r.members = rawjson.Split(r.record)
	if i := slices.IndexFunc(r.members, rawjson.Named("_meta")); i >= 0 {
		meta := r.members[i]
		r.members = slices.Delete(r.members, i, i+1)
		r.own = rawjson.Split(meta.Value)
		if slices.ContainsFunc(r.own, ours) {
			r.own = slices.DeleteFunc(r.own, ours)
			r.record = slices.Concat(r.record[:meta.At], rawjson.AppendObject(nil, r.own), r.record[meta.At+len(meta.Value):])
		}
	}
	r.said = slices.DeleteFunc(rawjson.Split(e.Meta), func(s rawjson.Member) bool { return s.Name == registry.MetaOfficial || ours(s) })
	return r, nil
}

// appendItem writes a row. The record under server has the bytes in which it came.
func (h *Handler) appendItem(b []byte, e catalogue.Entry, s shape) ([]byte, error) {
	r, err := h.speaks.take(e)
	if err != nil {
		return b, err
	}
	meta := h.metaOf(r)
	b = append(b, '{')
	if s != shapeRecord {
		b = append(append(b, `"server":`...), r.record...)
	}
	if s == shapeWrapped {
		return append(rawjson.AppendObject(append(b, `,"_meta":`...), meta), '}'), nil
	}
	for _, m := range r.members {
		if m.Name == "status" || m.Name == "server" && s == shapeBoth {
			continue // what a registry says counts
		}
		b = append(appendComma(b), m.Text...)
	}
	b = appendText(append(appendComma(b), `"status":`...), string(statusOf(e)))
	for _, m := range r.own { // registries speak over the record
		if m.Name != registry.MetaOfficial && !slices.ContainsFunc(meta, rawjson.Named(m.Name)) {
			meta = append(meta, m)
		}
	}
	return append(rawjson.AppendObject(append(b, `,"_meta":`...), meta), '}'), nil
}

// metaOf is what registries say about a row: all of it, and we last.
func (h *Handler) metaOf(r row) []rawjson.Member {
	meta := make([]rawjson.Member, 1, len(r.said)+len(r.own)+2)
	meta[0] = rawjson.Member{Name: registry.MetaOfficial, Text: appendOfficial([]byte(`"`+registry.MetaOfficial+`":`), r.entry)}
	meta = append(meta, r.said...)
	if value := h.enriched(r); value != nil {
		meta = append(meta, rawjson.New(h.speaks.key, value))
	}
	return meta
}

// enriched returns what we say about a row, nil for nothing.
func (h *Handler) enriched(r row) json.RawMessage {
	if h.speaks.enrich == nil {
		return nil
	}
	item, err := r.item()
	var value json.RawMessage
	if err == nil {
		value, err = h.speaks.enrich(item)
	}
	if err == nil && value != nil && !json.Valid(value) {
		err = errors.New("it is no JSON")
	}
	if err != nil {
		h.complain("what is said about an item is left out", "name", r.entry.Name, "version", r.entry.Version, "err", err)
		return nil
	}
	return value
}

// item returns the row as an item. The record was checked when it came.
func (r row) item() (registry.Item, error) {
	record, err := registry.StoredRecord(r.record)
	item := registry.Item{Record: record, Official: officialOf(r.entry), Meta: map[string]json.RawMessage{}}
	for _, m := range r.said {
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

// appendOfficial writes what stands under MetaOfficial. Times that are not known are left
// out.
func appendOfficial(b []byte, e catalogue.Entry) []byte {
	b = appendText(append(b, `{"status":`...), string(statusOf(e)))
	if e.StatusMessage != "" {
		b = appendText(append(b, `,"statusMessage":`...), e.StatusMessage)
	}
	for _, at := range []struct {
		name string
		time time.Time
	}{{"statusChangedAt", e.StatusChanged}, {"publishedAt", e.Published}, {"updatedAt", e.Updated}} {
		if !at.time.IsZero() {
			b = append(b, `,"`+at.name+`":"`...)
			b = append(at.time.UTC().AppendFormat(b, time.RFC3339Nano), '"')
		}
	}
	b = strconv.AppendBool(append(b, `,"isLatest":`...), e.Latest)
	return append(b, '}')
}

// writeList writes a page. Rows that cannot be written are left out. It returns for how many
// of the rows an answer has room: when that is not all of them, it is not finished.
func (h *Handler) writeList(entries []catalogue.Entry, next string, s shape) (body []byte, fitted int) {
	size := 64
	for _, e := range entries {
		size += 2*len(e.Server) + len(e.Meta) + 512
	}
	b, count := append(make([]byte, 0, size), `{"servers":[`...), 0
	for i, e := range entries {
		before := len(b)
		if count > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = h.appendItem(b, e, s); err != nil {
			h.complain("a row of the catalogue is left out", "err", err)
			b = b[:before]
			continue
		}
		if len(b) > maxAnswer && i > 0 {
			return nil, i
		}
		count++
	}
	b = append(b, `],"metadata":{`...)
	if next != "" {
		b = append(append(b, `"nextCursor":"`...), next+`",`...)
	}
	b = strconv.AppendInt(append(b, `"count":`...), int64(count), 10)
	return append(b, `}}`...), len(entries)
}

// appendText writes a string.
func appendText(b []byte, s string) []byte {
	text, _ := json.Marshal(s) // a string can be written
	return append(b, text...)
}

// appendComma writes a comma unless an object or a list has just begun.
func appendComma(b []byte) []byte {
	if last := b[len(b)-1]; last == '{' || last == '[' {
		return b
	}
	return append(b, ',')
}
