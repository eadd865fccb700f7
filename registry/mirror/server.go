package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
)

// server has all versions of one server: as stored (before) and with the changes of the round
// (after). The stored versions come first in after, in the same order. A server may have many
// large versions, so records that are not compared are read only when they are written.
type server struct {
	name          string
	before, after []entry
}

func newServer(name string, stored []entry) *server {
	return &server{name: name, before: stored, after: slices.Clone(stored)}
}

// find returns a version with the changes of the round, and whether it exists. If it does not,
// the returned entry is new and not part of the server.
func (s *server) find(version string) (*entry, bool) {
	i := slices.IndexFunc(s.after, func(e entry) bool { return e.Version == version })
	if i < 0 {
		return &entry{Name: s.name, Version: version}, false
	}
	return &s.after[i], true
}

// checkCapacity returns an error if a version is new and the server has the maximum number of
// versions.
func (s *server) checkCapacity(version string) error {
	if _, known := s.find(version); known || len(s.after) < catalogue.MaxVersions {
		return nil
	}
	return fmt.Errorf("registry/mirror: the server has %d versions already", catalogue.MaxVersions)
}

// put replaces or adds a version.
func (s *server) put(e entry) {
	if stored, ok := s.find(e.Version); ok {
		*stored = e
		return
	}
	s.after = append(s.after, e)
}

// change is a version that has to be written.
type change struct {
	entry
	before *entry // nil if the version is new
}

// changes marks the latest version and returns the versions that differ from their stored
// state. If readers can see the difference, the update time becomes the stamp.
func (s *server) changes(stamp time.Time) []change {
	electLatest(s.after)
	var out []change
	for i, after := range s.after {
		if i >= len(s.before) {
			after.Updated = stamp
			out = append(out, change{after, nil})
			continue
		}
		before := s.before[i]
		visible := differs(before, after)
		if visible {
			after.Updated = stamp
		}
		if visible || !slices.Equal(before.Flags, after.Flags) {
			out = append(out, change{after, &before})
		}
	}
	return out
}

// electLatest marks the latest version of a server: the highest that is not deleted, or the
// highest if all are. The upstream's isLatest is ignored: pages are read at different times,
// and the upstream does not know which versions this catalogue holds.
func electLatest(rows []entry) {
	latest := -1
	for i, e := range rows {
		rows[i].Latest = false
		if latest < 0 || higher(e, rows[latest]) {
			latest = i
		}
	}
	if latest >= 0 {
		rows[latest].Latest = true
	}
}

func higher(a, b entry) bool {
	if live(a) != live(b) {
		return live(a)
	}
	return registry.CompareReleases(a.Version, a.Published, b.Version, b.Published) > 0
}

// recent caches the last server of the previous page, without records. The next page often
// continues with its versions, of which there may be thousands.
type recent struct {
	name string
	rows []entry
}

// noRecords selects no version, so that no record is read.
func noRecords(string) bool { return false }

// server reads all versions of a server, with the records of the versions that whole selects.
func (r *round) server(ctx context.Context, name string, whole func(version string) bool) (*server, error) {
	if r.recent.name != name {
		return r.readServer(ctx, name, whole)
	}
	rows := slices.Clone(r.recent.rows)
	for i := range rows {
		if !whole(rows[i].Version) {
			continue
		}
		err := r.retry(ctx, func() error { return r.loadRecord(ctx, &rows[i]) })
		if errors.Is(err, storage.ErrRecord) || errors.Is(err, storage.ErrNotFound) {
			return r.readServer(ctx, name, whole)
		}
		if err != nil {
			return nil, err
		}
	}
	return newServer(name, rows), nil
}

func (r *round) readServer(ctx context.Context, name string, whole func(version string) bool) (*server, error) {
	var rows []entry
	err := r.retry(ctx, func() (err error) {
		rows, err = r.c.Catalogue.Versions(ctx, name, whole)
		return err
	})
	if errors.Is(err, storage.ErrRecord) { // a damaged row counts as missing, so that the upstream's item replaces it
		r.log.ErrorContext(ctx, "registry: a stored record is damaged: the next full crawl replaces it", "name", name, "error", err)
		err = nil
	}
	return newServer(name, rows), err
}

// loadRecord reads the record of an entry that was read without it.
func (r *round) loadRecord(ctx context.Context, e *entry) error {
	if e.Server != nil {
		return nil
	}
	row, err := r.c.Catalogue.Entry(ctx, e.Name, e.Version)
	e.Server, e.Meta = row.Server, row.Meta
	return err
}

// recentOf returns the cache entry of a server for the time after its changes are committed.
func recentOf(s *server, changes []change) recent {
	rows := slices.Clone(s.after)
	for i := range rows {
		rows[i].Server, rows[i].Meta = nil, nil
		if at := slices.IndexFunc(changes, func(c change) bool { return c.Version == rows[i].Version }); at >= 0 {
			rows[i].Updated = changes[at].Updated
		}
	}
	return recent{s.name, rows}
}
