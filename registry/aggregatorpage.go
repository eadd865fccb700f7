package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"gatehouse.example/registry/internal/rawjson"
	"maps"
	"slices"
	"strings"
	"time"
)

// said is what a page says about one server.
type said struct {
	items   []Item
	invalid []InvalidItem
}

// about reports whether something is said about a version.
func (s *said) about(version string) bool {
	return slices.ContainsFunc(s.items, func(i Item) bool { return i.Record.Version() == version }) ||
		slices.ContainsFunc(s.invalid, func(i InvalidItem) bool { return i.Version == version })
}

// lists reports whether a version is said to be there.
func (s *said) lists() bool {
	return slices.ContainsFunc(s.items, func(i Item) bool { return i.Official.Status != StatusDeleted }) ||
		slices.ContainsFunc(s.invalid, func(i InvalidItem) bool { return i.Official.Status != StatusDeleted })
}

// apply returns what a page changes.
func (r *round) apply(ctx context.Context, page Page) ([]change, error) {
	about := r.sort(page)
	stamp := r.ledger.stamp(r.c.Now())
	var all []change
	for _, name := range slices.Sorted(maps.Keys(about)) {
		changes, err := r.listen(ctx, name, about[name], stamp)
		if err != nil {
			return nil, err
		}
		all = append(all, changes...)
	}
	return all, nil
}

// sort puts together what a page says about each server, and counts what cannot be used.
func (r *round) sort(page Page) map[string]*said {
	about := map[string]*said{}
	on := func(name string) *said {
		if about[name] == nil {
			about[name] = &said{}
		}
		return about[name]
	}
	for _, item := range page.Items {
		item, err := r.admit(item)
		name, version := item.Record.Name(), item.Record.Version()
		r.note(name, version, item.Official)
		if err != nil {
			r.report.invalid(name, version, err)
			continue
		}
		s := on(name)
		s.items = append(s.items, item)
	}
	for _, bad := range page.Invalid {
		r.report.invalid(bad.Name, bad.Version, bad.Err)
		if bad.Name != "" && bad.Version != "" {
			r.note(bad.Name, bad.Version, bad.Official)
			s := on(bad.Name)
			s.invalid = append(s.invalid, bad)
		}
	}
	return about
}

// note remembers that a row is listed, and which was updated last.
func (r *round) note(name, version string, said Official) {
	r.see(name, version)
	if c := r.ledger.Crawl; said.UpdatedAt.After(c.Newest) {
		c.Newest, c.NewestRow = said.UpdatedAt, &rowName{name, version}
	}
}

// maxStoredVersion is how many bytes the store has for a version.
const maxStoredVersion = 512

// admit refuses what only this catalogue cannot use, and takes away what an upstream has no
// business to say: what stands under our own key of _meta, in whatever case.
func (r *round) admit(item Item) (Item, error) {
	if len(item.Record.Version()) > maxStoredVersion {
		return item, fmt.Errorf("registry: aggregator: a version of more than %d bytes", maxStoredVersion)
	}
	ours := func(key string) bool { return r.c.MetaKey != "" && strings.EqualFold(key, r.c.MetaKey) }
	stripped := false
	for key := range item.Meta {
		stripped = stripped || ours(key)
	}
	if stripped {
		item.Meta = maps.Clone(item.Meta)
		maps.DeleteFunc(item.Meta, func(key string, _ json.RawMessage) bool { return ours(key) })
	}
	for key := range item.Record.known.Meta {
		if !ours(key) {
			continue
		}
		stripped = true
		var err error
		if item.Record, err = item.Record.withoutMeta(key); err != nil {
			return item, err
		}
	}
	if stripped {
		r.report.Stripped++
	}
	return item, nil
}

// withoutMeta returns the record without a key of its _meta. All the rest keeps its bytes.
func (r Record) withoutMeta(key string) (Record, error) {
	raw := []byte(r.raw)
	if own := rawjson.Without(rawjson.Find(rawjson.Members(raw), "_meta"), key); len(rawjson.Members(own)) > 0 {
		raw = rawjson.With(raw, "_meta", own)
	} else {
		raw = rawjson.Without(raw, "_meta")
	}
	return ParseRecord(raw)
}

// listen returns what changes about one server.
func (r *round) listen(ctx context.Context, name string, s *said, stamp time.Time) ([]change, error) {
	f, err := r.family(ctx, name, s.about)
	if err != nil {
		return nil, err
	}
	if r.ledger.isOwn(name) {
		r.conflict(ctx, f, s)
	} else {
		for _, item := range s.items {
			if err := f.room(item.Record.Version()); err != nil {
				r.report.invalid(name, item.Record.Version(), err)
				continue
			}
			r.hear(ctx, f, item, stamp)
		}
		for _, bad := range s.invalid {
			r.hearOf(f, bad, stamp)
		}
	}
	changes := f.changes(stamp)
	for _, c := range changes {
		r.report.became(c)
		if live(c.entry) && c.Origin == OriginUpstream && (c.was == nil || !live(*c.was)) {
			r.gained++
		}
	}
	r.next = recentOf(f, changes)
	return changes, nil
}

// hear puts what an upstream says about a version in its place.
func (r *round) hear(ctx context.Context, f *family, item Item, stamp time.Time) {
	there, known := f.find(item.Record.Version())
	e, raw := *there, item.Record.Raw()
	switch {
	case !known || e.Origin != OriginUpstream: // one that was ours and is not any more is no promise of theirs
		e = entry{Name: f.name, Version: item.Record.Version(), Server: raw, Origin: OriginUpstream}
	case sameJSON(e.Server, raw):
		flag(&e, FlagChanged, false)
	case r.order.AcceptChanged:
		e.Server = raw
		flag(&e, FlagChanged, false)
	default:
		r.changed(ctx, e, item)
		flag(&e, FlagChanged, true)
	}
	flag(&e, FlagVanished, false)
	flag(&e, FlagShadowed, false)
	flag(&e, FlagStatus, false)
	if meta := metaOf(item.Meta); !bytes.Equal(e.Meta, meta) && !sameJSON(e.Meta, meta) {
		e.Meta = meta
	}
	describe(&e, item.Official, stamp)
	f.put(e)
}

// maxWarned bounds the log lines about single records in a round.
const maxWarned = 20

// changed counts a record that is not what it was, and says so when that is news.
func (r *round) changed(ctx context.Context, e entry, item Item) {
	r.report.Changed++
	if r.warned++; flagged(e, FlagChanged) || r.warned > maxWarned {
		return
	}
	before := Record{raw: string(e.Server)}
	r.log.WarnContext(ctx, "registry: the upstream shows another record than before, which must not be: the first one stays",
		"name", e.Name, "version", e.Version, "differs_in", strings.Join(before.Differs(item.Record), " "))
}

// hearOf believes what a registry says about a record that cannot be used any more. When it
// gives a status that nobody understands, the record may be anything but fine: it is hidden.
func (r *round) hearOf(f *family, bad InvalidItem, stamp time.Time) {
	there, known := f.find(bad.Version)
	if !known || there.Origin != OriginUpstream {
		return
	}
	e := *there
	flag(&e, FlagVanished, false)
	flag(&e, FlagShadowed, false)
	flag(&e, FlagStatus, bad.Official.Status == "")
	if bad.Official.Status == "" {
		if live(e) {
			bury(&e, sayStatus, stamp)
		}
	} else {
		describe(&e, bad.Official, stamp)
	}
	f.put(e)
}

// conflict flags a server of our own that the upstream lists too. What it has deleted it does
// not list.
func (r *round) conflict(ctx context.Context, f *family, s *said) {
	r.report.Conflicts += len(s.items) + len(s.invalid)
	if !s.lists() {
		return
	}
	if r.whole {
		r.conflicts[f.name] = true
	}
	for _, e := range f.was {
		if e.Origin == OriginOwn && !flagged(e, FlagConflict) {
			r.contest(ctx, &e)
			f.put(e)
		}
	}
}

// contest flags a record of ours whose name the upstream has as well.
func (r *round) contest(ctx context.Context, e *entry) {
	flag(e, FlagConflict, true)
	r.log.WarnContext(ctx, "registry: the upstream lists a server with the name of one of our own: ours stays", "name", e.Name, "version", e.Version)
}
