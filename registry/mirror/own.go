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

// digestOf returns a digest of a set of own servers.
func digestOf(items []registry.Item) string {
	h := sha256.New()
	for _, item := range items {
		raw := item.Record.Raw()
		fmt.Fprintf(h, "%d %s%s %d %s", len(raw), raw, item.Official.Status, len(item.Official.StatusMessage), item.Official.StatusMessage)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// publishOwn writes the own servers to the catalogue if they differ from those in it and this
// process has not published the same set before. If processes have different own servers, those
// of the process that started or changed last prevail.
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

// replaceOwn replaces all own servers in the catalogue in one commit.
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
		if len(wanted[name]) == 0 && hidesUpstream(s) { // the upstream's server of that name becomes visible again
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

// hidesUpstream reports whether an own server hides a server of the upstream.
func hidesUpstream(s *server) bool {
	return slices.ContainsFunc(s.before, func(e entry) bool { return flagged(e, FlagConflict) || flagged(e, FlagShadowed) })
}

// listedUpstream reports whether a row proves that the upstream has a server with its name.
func listedUpstream(e entry) bool {
	return flagged(e, FlagConflict) || flagged(e, FlagShadowed) || e.Origin == OriginUpstream && live(e)
}

// setOwn changes the versions of a server to the wanted ones. It deletes all other versions if
// they are own ones, and hides those of the upstream unless no version is wanted.
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
		stored, ok := s.find(item.Record.Version())
		e := *stored
		if !ok || e.Origin != OriginOwn {
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

// setOwnRecord sets the record of an own server. A changed record under the same name and
// version is refused, as one of an upstream is: versions are immutable
// (requirement R-STA-1), and readers may have kept the first record.
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
	r.log.ErrorContext(ctx, "registry: the record of an own server was changed without a new version and is refused: the first record stays; give the changed record another version",
		"name", e.Name, "version", e.Version, "differs_in", differsIn(*e, item))
}
