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

// listing has the items of one server on a page of the upstream.
type listing struct {
	items   []registry.Item
	invalid []registry.InvalidItem
}

// has reports whether a version is listed, valid or not, deleted or not.
func (l *listing) has(version string) bool {
	return hasVersion(l.items, version) ||
		slices.ContainsFunc(l.invalid, func(i registry.InvalidItem) bool { return i.Version == version })
}

// offers reports whether the listing has a version that is not deleted.
func (l *listing) offers() bool {
	return slices.ContainsFunc(l.items, func(i registry.Item) bool { return i.Official.Status != registry.StatusDeleted }) ||
		slices.ContainsFunc(l.invalid, func(i registry.InvalidItem) bool { return i.Official.Status != registry.StatusDeleted })
}

// apply returns the changes of a page.
func (r *round) apply(ctx context.Context, page upstream.Page) ([]change, error) {
	byName := r.groupByName(page)
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

// groupByName groups the items of a page by server, and counts those that cannot be used.
func (r *round) groupByName(page upstream.Page) map[string]*listing {
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

// noteListed records that the upstream lists a row, whether it is the anchor, and which row was updated last.
func (r *round) noteListed(name, version string, official registry.Official) {
	r.markSeen(name, version)
	c, row := r.progress.Crawl, rowName{name, version}
	if anchor := r.progress.Anchor; anchor != nil && row == *anchor {
		c.AnchorSeen = true
	}
	if official.UpdatedAt.After(c.Newest) {
		c.Newest, c.NewestRow = official.UpdatedAt, &row
	}
}

// admit refuses items that do not fit into the catalogue, and removes the registry's own key of
// _meta, in any case of letters, from an item of the upstream.
func (r *round) admit(item registry.Item) (registry.Item, error) {
	if len(item.Record.Version()) > registry.MaxVersion {
		return item, fmt.Errorf("registry/mirror: a version of more than %d bytes", registry.MaxVersion)
	}
	isOwnKey := func(key string) bool { return r.c.MetaKey != "" && strings.EqualFold(key, r.c.MetaKey) }
	stripped := false
	for key := range item.Meta {
		stripped = stripped || isOwnKey(key)
	}
	if stripped {
		item.Meta = maps.Clone(item.Meta)
		maps.DeleteFunc(item.Meta, func(key string, _ json.RawMessage) bool { return isOwnKey(key) })
	}
	for key := range item.Record.Meta() {
		if !isOwnKey(key) {
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

// applyListing returns the changes of one server on a page.
func (r *round) applyListing(ctx context.Context, name string, l *listing, stamp time.Time) ([]change, error) {
	s, err := r.server(ctx, name, l.has)
	if err != nil {
		return nil, err
	}
	if r.progress.isOwn(name) {
		r.applyConflict(ctx, s, l)
	} else {
		for _, item := range l.items {
			if err := s.checkCapacity(item.Record.Version()); err != nil {
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
			r.newlyVisible++
		}
	}
	r.next = recentOf(s, changes)
	return changes, nil
}

// applyItem applies an item of the upstream to its row.
func (r *round) applyItem(ctx context.Context, s *server, item registry.Item, stamp time.Time) {
	stored, ok := s.find(item.Record.Version())
	e, raw := *stored, item.Record.Raw()
	switch {
	case !ok || e.Origin != OriginUpstream: // the record of a former own server need not be kept
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

// maxWarned is the maximum number of log lines about single records in a round.
const maxWarned = 20

// countDifferent counts a record that differs from the first one under its name and version.
// It logs the row once, when it is not flagged yet.
func (r *round) countDifferent(ctx context.Context, e entry, item registry.Item) {
	r.report.Changed++
	if r.warned++; flagged(e, FlagChanged) || r.warned > maxWarned {
		return
	}
	r.log.WarnContext(ctx, "registry: the upstream has changed a record under the same version, which no registry may do: the first record stays",
		"name", e.Name, "version", e.Version, "differs_in", differsIn(e, item))
}

// applyInvalid applies the status of an item that cannot be used to its row, if there is one.
// An unknown status may mean that the record is unsafe, so the row is hidden.
func (r *round) applyInvalid(s *server, bad registry.InvalidItem, stamp time.Time) {
	stored, ok := s.find(bad.Version)
	if !ok || stored.Origin != OriginUpstream {
		return
	}
	e := *stored
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

// applyConflict flags an own server whose name the upstream offers too.
func (r *round) applyConflict(ctx context.Context, s *server, l *listing) {
	r.report.Conflicts += len(l.items) + len(l.invalid)
	if !l.offers() {
		return
	}
	if r.uninterrupted {
		r.conflicts[s.name] = true
	}
	for _, e := range s.before {
		if e.Origin == OriginOwn && !flagged(e, FlagConflict) {
			r.flagConflict(ctx, &e)
			s.put(e)
		}
	}
}

// flagConflict flags and logs an own server whose name the upstream lists too.
func (r *round) flagConflict(ctx context.Context, e *entry) {
	setFlags(e, true, FlagConflict)
	r.log.WarnContext(ctx, "registry: the upstream lists a server with the name of an own server: the own server stays", "name", e.Name, "version", e.Version)
}
