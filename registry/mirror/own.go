package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"gatehouse.example/registry"
)

// digestOf tells sets of own servers apart.
func digestOf(items []registry.Item) string {
	h := sha256.New()
	for _, item := range items {
		raw := item.Record.Raw()
		fmt.Fprintf(h, "%d %s%s %d %s", len(raw), raw, item.Official.Status, len(item.Official.StatusMessage), item.Official.StatusMessage)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// publishOwn brings the servers of our own into the catalogue, if they are others than those
// that are there and this process has not done so before. Of several processes with
// different ones, that which started or changed last prevails.
func (r *round) publishOwn(ctx context.Context) error {
	if r.c.Own == nil {
		return nil
	}
	items := r.c.Own()
	if err := registry.CheckOwn(items); err != nil {
		return err
	}
	digest := digestOf(items)
	r.mu.Lock()
	known := r.published == digest && r.progress.OwnDigest != ""
	r.mu.Unlock()
	if !known && r.progress.OwnDigest != digest || r.options.AcceptChanged {
		if err := r.replaceOwn(ctx, items, digest); err != nil {
			return err
		}
	}
	r.mu.Lock()
	r.published = digest
	r.mu.Unlock()
	return nil
}

// replaceOwn commits all servers of our own at once.
func (r *round) replaceOwn(ctx context.Context, items []registry.Item, digest string) error {
	p := &r.progress
	wanted := map[string][]registry.Item{}
	var own []string
	for _, item := range items {
		name := item.Record.Name()
		if wanted[name] == nil {
			own = append(own, name)
		}
		wanted[name] = append(wanted[name], item)
	}
	slices.Sort(own)
	stamp := p.stamp(r.c.Now())
	var all []change
	for _, name := range union(own, p.Own) {
		s, err := r.server(ctx, name, func(version string) bool { return hasVersion(wanted[name], version) })
		if err != nil {
			return err
		}
		if len(wanted[name]) == 0 && hidesUpstream(s) { // what the upstream has with that name may come back
			p.FullDue, p.Tag = true, ""
		}
		r.setOwn(ctx, s, wanted[name], stamp)
		changes := s.changes(stamp)
		for _, c := range changes {
			r.report.countChange(c)
		}
		all = append(all, changes...)
	}
	p.Own, p.OwnDigest = own, digest
	return r.commit(ctx, all)
}

func union(a, b []string) []string {
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}

func hasVersion(items []registry.Item, version string) bool {
	return slices.ContainsFunc(items, func(item registry.Item) bool { return item.Record.Version() == version })
}

// hidesUpstream reports whether the upstream has something under a name that was ours.
func hidesUpstream(s *server) bool {
	return slices.ContainsFunc(s.before, func(e entry) bool { return flagged(e, FlagConflict) || flagged(e, FlagShadowed) })
}

// listedUpstream reports whether a row shows that the upstream has a server with this name.
func listedUpstream(e entry) bool {
	return flagged(e, FlagConflict) || flagged(e, FlagShadowed) || e.Origin == OriginUpstream && live(e)
}

// setOwn makes a server what it is to be: the versions that are wanted, and no others.
func (r *round) setOwn(ctx context.Context, s *server, wanted []registry.Item, stamp time.Time) {
	conflict := slices.ContainsFunc(s.before, listedUpstream)
	for i := range s.after {
		e := &s.after[i]
		if hasVersion(wanted, e.Version) || !live(*e) {
			continue
		}
		if e.Origin == OriginOwn {
			markDeleted(e, messageGone, stamp)
			e.Flags = nil
		} else if len(wanted) > 0 {
			markDeleted(e, messageShadowed, stamp)
			setFlags(e, true, FlagShadowed)
		}
	}
	for _, item := range wanted {
		there, known := s.find(item.Record.Version())
		e := *there
		if !known || e.Origin != OriginOwn {
			e = entry{Name: s.name, Version: item.Record.Version(), Origin: OriginOwn}
		}
		r.setOwnRecord(ctx, &e, item)
		e.Meta = metaOf(item.Meta)
		setOfficial(&e, item.Official, stamp)
		if conflict && !flagged(e, FlagConflict) {
			r.flagConflict(ctx, &e)
		}
		s.put(e)
	}
}

// setOwnRecord puts a record of ours in its place. Another one under a name and version that
// readers have seen is refused, as an upstream's is: versions do not change
// (requirement R-STA-1), and mirrors keep the first one that they read.
func (r *round) setOwnRecord(ctx context.Context, e *entry, item registry.Item) {
	raw := item.Record.Raw()
	if e.Server == nil || r.options.AcceptChanged || sameJSON(e.Server, raw) {
		if e.Server == nil || !sameJSON(e.Server, raw) {
			e.Server = raw
		}
		setFlags(e, false, FlagChanged)
		return
	}
	r.report.Changed++
	setFlags(e, true, FlagChanged)
	r.log.ErrorContext(ctx, "registry: the record of one of our servers is another one than before, and is refused: the first one stays; give the changed one another version",
		"name", e.Name, "version", e.Version, "differs_in", differsIn(*e, item))
}
