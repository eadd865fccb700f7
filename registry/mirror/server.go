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

// server is all versions of one server: as they are stored, and as they are to be. The
// versions that are stored come first, in the same order. A server may have many large
// ones, so records that nobody looks at are left out until they are written.
type server struct {
	name          string
	before, after []entry
}

func newServer(name string, stored []entry) *server {
	return &server{name: name, before: stored, after: slices.Clone(stored)}
}

// find returns a version as it is to be, and whether there is one.
func (s *server) find(version string) (*entry, bool) {
	i := slices.IndexFunc(s.after, func(e entry) bool { return e.Version == version })
	if i < 0 {
		return &entry{Name: s.name, Version: version}, false
	}
	return &s.after[i], true
}

// room refuses a new version of a server that has as many as it may have.
func (s *server) room(version string) error {
	if _, known := s.find(version); known || len(s.after) < catalogue.MaxVersions {
		return nil
	}
	return fmt.Errorf("registry/mirror: the server has %d versions already", catalogue.MaxVersions)
}

// put replaces or adds a version.
func (s *server) put(e entry) {
	if there, ok := s.find(e.Version); ok {
		*there = e
		return
	}
	s.after = append(s.after, e)
}

// change is a version that has to be written.
type change struct {
	entry
	before *entry // nil if it is new
}

// changes decides which version is the latest, and returns those that are not as they are
// stored. Where readers can see the difference, the time of the update is the stamp.
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

// electLatest decides which version of a server is the latest: the highest of those that are
// not deleted, or of all if all are. What an upstream says about it is not looked at: it says
// so at another time than we read it, and does not know the versions that we hold.
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

// recent is the last server of the page before, without records. The next page often goes on
// with its versions, of which there may be thousands.
type recent struct {
	name string
	rows []entry
}

// noRecords chooses no version of which the record is read.
func noRecords(string) bool { return false }

// server reads all versions of a server, with the records of those that whole chooses.
func (r *round) server(ctx context.Context, name string, whole func(version string) bool) (*server, error) {
	if r.recent.name != name {
		return r.readServer(ctx, name, whole)
	}
	rows := slices.Clone(r.recent.rows)
	for i := range rows {
		if !whole(rows[i].Version) {
			continue
		}
		err := r.retry(ctx, func() error { return r.complete(ctx, &rows[i]) })
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
	if errors.Is(err, storage.ErrRecord) { // what cannot be read is as good as lost, and can be replaced
		r.log.ErrorContext(ctx, "registry: a record on file is damaged; it is replaced when the upstream is read in full", "name", name, "error", err)
		err = nil
	}
	return newServer(name, rows), err
}

// complete reads the record of an entry that was left out.
func (r *round) complete(ctx context.Context, e *entry) error {
	if e.Server != nil {
		return nil
	}
	row, err := r.c.Catalogue.Entry(ctx, e.Name, e.Version)
	e.Server, e.Meta = row.Server, row.Meta
	return err
}

// recentOf returns a server as it is stored once its changes are committed.
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
