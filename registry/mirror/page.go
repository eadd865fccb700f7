package mirror

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/upstream"
)

// listing is what a page of the upstream lists of one server.
type listing struct {
	items   []registry.Item
	invalid []registry.InvalidItem
}

// has reports whether a version is listed, in whatever state.
func (l *listing) has(version string) bool {
	return hasVersion(l.items, version) ||
		slices.ContainsFunc(l.invalid, func(i registry.InvalidItem) bool { return i.Version == version })
}

// offers reports whether a version is listed that is not deleted.
func (l *listing) offers() bool {
	return slices.ContainsFunc(l.items, func(i registry.Item) bool { return i.Official.Status != registry.StatusDeleted }) ||
		slices.ContainsFunc(l.invalid, func(i registry.InvalidItem) bool { return i.Official.Status != registry.StatusDeleted })
}

// apply returns what a page changes.
func (r *round) apply(ctx context.Context, page upstream.Page) ([]change, error) {
	byName := r.sort(page)
	stamp := r.progress.stamp(r.c.Now())
	var all []change
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		changes, err := r.applyListing(ctx, name, byName[name], stamp)
		if err != nil {
			return nil, err
		}
		all = append(all, changes...)
	}
	return all, nil
}

// sort puts together what a page lists of each server, and counts what cannot be used.
func (r *round) sort(page upstream.Page) map[string]*listing {
	byName := map[string]*listing{}
	of := func(name string) *listing {
		if byName[name] == nil {
			byName[name] = &listing{}
		}
		return byName[name]
	}
	for _, item := range page.Items {
		item, err := r.admit(item)
		name, version := item.Record.Name(), item.Record.Version()
		r.noteListed(name, version, item.Official)
		if err != nil {
			r.report.addInvalid(name, version, err)
			continue
		}
		l := of(name)
		l.items = append(l.items, item)
	}
	for _, bad := range page.Invalid {
		r.report.addInvalid(bad.Name, bad.Version, bad.Err)
		if bad.Name != "" && bad.Version != "" {
			r.noteListed(bad.Name, bad.Version, bad.Official)
			l := of(bad.Name)
			l.invalid = append(l.invalid, bad)
		}
	}
	return byName
}

// noteListed remembers that a row is listed, and which was updated last.
func (r *round) noteListed(name, version string, official registry.Official) {
	r.markSeen(name, version)
	if c := r.progress.Crawl; official.UpdatedAt.After(c.Newest) {
		c.Newest, c.NewestRow = official.UpdatedAt, &rowName{name, version}
	}
}

// admit refuses what only this catalogue cannot use, and removes what no upstream may say:
// what stands under our own key of _meta, in whatever case.
func (r *round) admit(item registry.Item) (registry.Item, error) {
	if len(item.Record.Version()) > registry.MaxVersion {
		return item, fmt.Errorf("registry/mirror: a version of more than %d bytes", registry.MaxVersion)
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
	for key := range item.Record.Meta() {
		if !ours(key) {
			continue
		}
		stripped = true
		var err error
		if item.Record, err = item.Record.WithoutMeta(key); err != nil {
			return item, err
		}
	}
	if stripped {
		r.report.Stripped++
	}
	return item, nil
}

// applyListing returns what changes about one server.
func (r *round) applyListing(ctx context.Context, name string, l *listing, stamp time.Time) ([]change, error) {
	s, err := r.server(ctx, name, l.has)
	if err != nil {
		return nil, err
	}
	if r.progress.isOwn(name) {
		r.applyConflict(ctx, s, l)
	} else {
		for _, item := range l.items {
			if err := s.room(item.Record.Version()); err != nil {
				r.report.addInvalid(name, item.Record.Version(), err)
				continue
			}
			r.applyItem(ctx, s, item, stamp)
		}
		for _, bad := range l.invalid {
			r.applyInvalid(s, bad, stamp)
		}
	}
	changes := s.changes(stamp)
	for _, c := range changes {
		r.report.countChange(c)
		if live(c.entry) && c.Origin == OriginUpstream && (c.before == nil || !live(*c.before)) {
			r.gained++
		}
	}
	r.next = recentOf(s, changes)
	return changes, nil
}

// applyItem puts an item of the upstream in its place.
func (r *round) applyItem(ctx context.Context, s *server, item registry.Item, stamp time.Time) {
	there, known := s.find(item.Record.Version())
	e, raw := *there, item.Record.Raw()
	switch {
	case !known || e.Origin != OriginUpstream: // what was ours before does not bind the upstream
		e = entry{Name: s.name, Version: item.Record.Version(), Server: raw, Origin: OriginUpstream}
	case sameJSON(e.Server, raw):
		setFlags(&e, false, FlagChanged)
	case r.options.AcceptChanged:
		e.Server = raw
		setFlags(&e, false, FlagChanged)
	default:
		r.countDifferent(ctx, e, item)
		setFlags(&e, true, FlagChanged)
	}
	setFlags(&e, false, FlagVanished, FlagShadowed, FlagStatus)
	if meta := metaOf(item.Meta); !bytes.Equal(e.Meta, meta) && !sameJSON(e.Meta, meta) {
		e.Meta = meta
	}
	setOfficial(&e, item.Official, stamp)
	s.put(e)
}

// maxWarned bounds the log lines about single records in a round.
const maxWarned = 20

// countDifferent counts a record that is not the one that was seen first, and logs it the
// first time.
func (r *round) countDifferent(ctx context.Context, e entry, item registry.Item) {
	r.report.Changed++
	if r.warned++; flagged(e, FlagChanged) || r.warned > maxWarned {
		return
	}
	r.log.WarnContext(ctx, "registry: the upstream shows another record than before, which must not be: the first one stays",
		"name", e.Name, "version", e.Version, "differs_in", differsIn(e, item))
}

// applyInvalid believes what a registry says about a record that cannot be used any more. If
// it gives a status that nobody understands, the record may be unsafe, so it is hidden.
func (r *round) applyInvalid(s *server, bad registry.InvalidItem, stamp time.Time) {
	there, known := s.find(bad.Version)
	if !known || there.Origin != OriginUpstream {
		return
	}
	e := *there
	setFlags(&e, false, FlagVanished, FlagShadowed)
	setFlags(&e, bad.Official.Status == "", FlagStatus)
	if bad.Official.Status == "" {
		if live(e) {
			markDeleted(&e, messageStatus, stamp)
		}
	} else {
		setOfficial(&e, bad.Official, stamp)
	}
	s.put(e)
}

// applyConflict flags a server of our own that the upstream offers too.
func (r *round) applyConflict(ctx context.Context, s *server, l *listing) {
	r.report.Conflicts += len(l.items) + len(l.invalid)
	if !l.offers() {
		return
	}
	if r.whole {
		r.conflicts[s.name] = true
	}
	for _, e := range s.before {
		if e.Origin == OriginOwn && !flagged(e, FlagConflict) {
			r.flagConflict(ctx, &e)
			s.put(e)
		}
	}
}

// flagConflict flags a record of ours whose name the upstream has as well.
func (r *round) flagConflict(ctx context.Context, e *entry) {
	setFlags(e, true, FlagConflict)
	r.log.WarnContext(ctx, "registry: the upstream lists a server with the name of one of our own: ours stays", "name", e.Name, "version", e.Version)
}
