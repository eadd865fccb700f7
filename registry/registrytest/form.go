package registrytest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatehouse.example/registry"
)

// Form is the form of an upstream's answers.
type Form int

const (
	// Official is the form of the official registry: the record in the member server, _meta
	// beside it, and errors as problems (RFC 9457).
	Official Form = iota
	// Flat is the older form: the item is the record and contains its status and _meta. There
	// are no times, and an error is an object with the member error.
	Flat
	// Both is the official form with the members of the record repeated beside server.
	Both
)

// members is an object whose values keep their bytes.
type members map[string]json.RawMessage

func cloned(m members) members {
	if m == nil {
		return nil
	}
	return maps.Clone(m)
}

// String returns the object as JSON, its members sorted by name.
func (m members) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quoted(name) + ":" + string(m[name]))
	}
	return "{" + b.String() + "}"
}

func quoted(text string) string {
	raw, _ := json.Marshal(text) // cannot fail for a string
	return string(raw)
}

// page returns a list as JSON.
func (s snapshot) page(rows []*row, next string) []byte {
	items := slices.Clone(s.faults.Invalid)
	for _, r := range rows {
		item := s.form.item(r)
		items = append(items, item)
		if s.faults.Duplicates {
			items = append(items, item)
		}
	}
	count := len(items)
	if s.faults.Miscount {
		count++
	}
	metadata := members{"count": json.RawMessage(strconv.Itoa(count))}
	if next != "" {
		metadata["nextCursor"] = json.RawMessage(quoted(next))
	}
	return []byte(`{"servers":[` + strings.Join(items, ",") + `],"metadata":` + metadata.String() + `}`)
}

// item returns a row as JSON.
func (f Form) item(r *row) string {
	beside := members{}
	maps.Copy(beside, r.meta)
	if f != Flat {
		beside[registry.MetaOfficial] = r.official()
	}
	if f == Official {
		return `{"server":` + r.record + `,"_meta":` + beside.String() + `}`
	}
	flat, merged := members{}, members{}
	_ = json.Unmarshal([]byte(r.record), &flat) // cannot fail: Publish checked that it is an object
	_ = json.Unmarshal(flat["_meta"], &merged)
	maps.Copy(merged, beside)
	flat["status"] = json.RawMessage(quoted(string(r.status)))
	if len(merged) > 0 {
		flat["_meta"] = json.RawMessage(merged.String())
	}
	if f == Both {
		flat["server"] = json.RawMessage(r.record)
	}
	return flat.String()
}

// official returns the value of registry.MetaOfficial for a row.
func (r *row) official() json.RawMessage {
	at := func(t time.Time) json.RawMessage { return json.RawMessage(quoted(t.UTC().Format(time.RFC3339Nano))) }
	statement := members{
		"status": json.RawMessage(quoted(string(r.status))), "statusChangedAt": at(r.changed),
		"publishedAt": at(r.published), "updatedAt": at(r.updated), "isLatest": json.RawMessage(strconv.FormatBool(r.latest)),
	}
	if r.message != "" {
		statement["statusMessage"] = json.RawMessage(quoted(r.message))
	}
	return json.RawMessage(statement.String())
}

// refuse writes an error: a problem (RFC 9457), or in the flat form an object with error.
func (f Form) refuse(w http.ResponseWriter, status int, detail string) {
	body := members{"error": json.RawMessage(quoted(detail))}
	w.Header().Set("Content-Type", "application/json")
	if f == Official {
		body = members{
			"title": json.RawMessage(quoted(http.StatusText(status))), "status": json.RawMessage(strconv.Itoa(status)),
			"detail": json.RawMessage(quoted(detail)),
		}
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body.String()))
}
