package registry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"gatehouse.example/registry/internal/rawjson"
)

// parts is an item, divided into the record and what the registry added to it.
type parts struct {
	members  []rawjson.Member           // of the item
	record   []byte                     // without the registry's members
	official []json.RawMessage          // values of MetaOfficial, the one outside of the record first
	status   []json.RawMessage          // values of members named status, outside of MetaOfficial
	meta     map[string]json.RawMessage // the registry's other members of _meta
	wrapped  bool                       // the record is the member server of the item
}

func splitItem(data []byte) parts {
	p := parts{members: rawjson.Members(data), record: data, meta: map[string]json.RawMessage{}}
	beside := rawjson.Members(rawjson.Find(p.members, "_meta"))
	if server := rawjson.Find(p.members, "server"); rawjson.IsObject(server) {
		p.record, p.wrapped = server, true
		p.addStatus(rawjson.Find(p.members, "status"))
		p.addMeta(beside)
	}
	inner := p.members
	if p.wrapped {
		inner = rawjson.Members(p.record)
	}
	if status := rawjson.Find(inner, "status"); status != nil {
		p.addStatus(status)
		p.record = rawjson.Without(p.record, "status")
	}
	if own := rawjson.Find(inner, "_meta"); rawjson.IsObject(own) {
		p.takeMeta(rawjson.Members(own))
	}
	return p
}

// addStatus adds a status found outside of MetaOfficial. A nil status is ignored.
func (p *parts) addStatus(status json.RawMessage) {
	if status != nil {
		p.status = append(p.status, status)
	}
}

// addMeta adds members of _meta that the registry wrote.
func (p *parts) addMeta(members []rawjson.Member) {
	for _, m := range members {
		switch m.Name {
		case MetaOfficial:
			p.official = append(p.official, m.Value)
		case "status": // written without MetaOfficial, as in examples of the interface
			p.addStatus(m.Value)
		default:
			p.meta[m.Name] = bytes.Clone(m.Value) // a copy, so that the item does not keep the whole page in memory
		}
	}
}

// takeMeta moves the registry's members from _meta of the record to the parts. The argument is
// _meta of the record.
func (p *parts) takeMeta(own []rawjson.Member) {
	publishers := func(m rawjson.Member) bool { return m.Name == MetaPublisher || p.wrapped && m.Name != MetaOfficial }
	registrys := slices.DeleteFunc(slices.Clone(own), publishers)
	own = slices.DeleteFunc(own, func(m rawjson.Member) bool { return !publishers(m) })
	for _, m := range own {
		// A registry may repeat the record's members of _meta beside the record.
		if string(p.meta[m.Name]) == string(m.Value) {
			delete(p.meta, m.Name)
		}
	}
	p.addMeta(registrys)
	switch {
	case len(registrys) == 0:
	case len(own) == 0:
		p.record = rawjson.Without(p.record, "_meta")
	default:
		p.record = rawjson.With(p.record, "_meta", rawjson.Object(own))
	}
}

// readOfficial returns the registry's statement about the record. The status is active by
// default. Contradictions are errors; the values read before the error are returned with it.
func (p *parts) readOfficial() (Official, error) {
	o, err := p.mergeOfficial()
	if err != nil {
		return o, err
	}
	o.Status = cmp.Or(o.Status, StatusActive)
	if beside := rawjson.Find(p.members, "_meta"); beside != nil && !rawjson.IsObject(beside) {
		return o, invalidItem("_meta", "it must be an object")
	}
	for _, key := range slices.Sorted(maps.Keys(p.meta)) {
		if wrong := wrongKey(key); wrong != "" {
			return o, invalidItem("_meta", wrong)
		}
	}
	return o, nil
}

// mergeOfficial parses all statements of the registry and returns the one value on which they
// agree.
func (p *parts) mergeOfficial() (o Official, err error) {
	for i, raw := range p.official {
		next, err := parseOfficial(raw)
		if err != nil {
			return next, err
		}
		if i > 0 && !next.equal(o) {
			return Official{}, invalidItem("_meta", MetaOfficial+" occurs with two different values")
		}
		o = next
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

// checkCopies refuses a name or version beside the record that differs from the record's:
// older clients read the one beside it.
func (p *parts) checkCopies(r Record) error {
	if !p.wrapped {
		return nil
	}
	for name, value := range map[string]string{"name": r.Name(), "version": r.Version()} {
		beside := rawjson.Find(p.members, name)
		var text string
		if beside != nil && (json.Unmarshal(beside, &text) != nil || text != value) {
			return invalidItem(name, "it differs from the one in server")
		}
	}
	return nil
}
