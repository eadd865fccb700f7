package registry

import (
	"context"
	"errors"
	"slices"

	"gatehouse.example/storage"
)

// recent is the server of which the last page told last, without records. The next page
// mostly goes on with its versions, of which there may be thousands.
type recent struct {
	name string
	rows []entry
}

func nothing(string) bool { return false }

// family reads all versions of a server, with the records of those that are asked for.
func (r *round) family(ctx context.Context, name string, whole func(version string) bool) (*family, error) {
	if r.recent.name != name {
		return r.readFamily(ctx, name, whole)
	}
	rows := slices.Clone(r.recent.rows)
	for i := range rows {
		if !whole(rows[i].Version) {
			continue
		}
		err := r.insist(ctx, func() error { return r.complete(ctx, &rows[i]) })
		if errors.Is(err, storage.ErrRecord) || errors.Is(err, storage.ErrNotFound) {
			return r.readFamily(ctx, name, whole)
		}
		if err != nil {
			return nil, err
		}
	}
	return newFamily(name, rows), nil
}

func (r *round) readFamily(ctx context.Context, name string, whole func(version string) bool) (*family, error) {
	var rows []entry
	err := r.insist(ctx, func() (err error) {
		rows, err = r.c.Catalogue.Versions(ctx, name, whole)
		return err
	})
	if errors.Is(err, storage.ErrRecord) { // what cannot be read is as good as lost, and can be replaced
		r.log.ErrorContext(ctx, "registry: a record on file is damaged; it is replaced when the upstream is read in full", "name", name, "error", err)
		err = nil
	}
	return newFamily(name, rows), err
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

// recentOf is what a page has come to about a server, once it is committed.
func recentOf(f *family, changes []change) recent {
	rows := slices.Clone(f.is)
	for i := range rows {
		rows[i].Server, rows[i].Meta = nil, nil
		if at := slices.IndexFunc(changes, func(c change) bool { return c.Version == rows[i].Version }); at >= 0 {
			rows[i].Updated = changes[at].Updated
		}
	}
	return recent{f.name, rows}
}
