package storagetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// newerResources stores a resource, which also stores the state of all resources.
func (f *fixture) newerResources(t *testing.T) map[string]newerRecord {
	t.Helper()
	ctx := t.Context()
	const id = "https://notes.example.com/mcp"
	sealed, err := f.SealIntrospectionKey(id, "secret")
	wantError(t, "SealIntrospectionKey", err, nil)
	stateKey := f.last(t, f.PutResource(ctx, storage.Resource{ID: id, URI: id, IntrospectionKey: sealed}))
	r, err := f.Resource(ctx, id)
	wantError(t, "Resource", err, nil)
	readable := func() error {
		_, err := resourceIDs(ctx, f.Store)
		return err
	}
	return map[string]newerRecord{
		"resource": {"gatehouse:resource:" + id, map[string]func() error{
			"Resource":  func() error { _, err := f.Resource(ctx, id); return err },
			"Resources": readable,
		}, map[string]func() error{
			"PutResource":            func() error { return f.PutResource(ctx, r) },
			"PutResource of another": func() error { return f.PutResource(ctx, storage.Resource{ID: id}) },
			"RemoveResource":         func() error { return f.RemoveResource(ctx, r) },
		}},
		"state of resources": {stateKey, map[string]func() error{
			"ResourcesVersion": func() error { _, err := f.ResourcesVersion(ctx); return err },
		}, nil},
	}
}

// resourceIDs returns the ids in the list of resources, and the first error in it.
func resourceIDs(ctx context.Context, s *storage.Store) (ids []string, first error) {
	for r, err := range s.Resources(ctx) {
		if first == nil {
			first = err
		}
		if !r.Removed {
			ids = append(ids, r.ID)
		}
	}
	return ids, first
}

// testResources: a resource is listed once while it is there, each change changes the version of
// all, and its removal is remembered by the next one of the same ID.
func testResources(t *testing.T, f *fixture) {
	ctx := t.Context()
	var last storage.Version
	changed := func(what string, err error, want ...string) {
		t.Helper()
		wantError(t, what, err, nil)
		version, err := f.ResourcesVersion(ctx)
		wantError(t, "ResourcesVersion", err, nil)
		if version == last {
			t.Errorf("%s changes no version", what)
		}
		last = version
		ids, err := resourceIDs(ctx, f.Store)
		wantError(t, "Resources", err, nil)
		if !slices.Equal(ids, want) {
			t.Errorf("after %s the list is %v; want %v", what, ids, want)
		}
	}
	read := func(id string) storage.Resource {
		t.Helper()
		r, err := f.Resource(ctx, id)
		wantError(t, "Resource", err, nil)
		return r
	}
	if ids, err := resourceIDs(ctx, f.Store); len(ids) > 0 || err != nil {
		t.Errorf("a new store lists %v, %v", ids, err)
	}
	const notes, tasks = "https://notes.example.com/mcp", "https://tasks.example.com/mcp"
	changed("adding one", f.PutResource(ctx, storage.Resource{ID: notes, URI: notes, Scopes: []storage.ResourceScope{{Name: "notes:read"}}}), notes)
	wantError(t, "adding it again", f.PutResource(ctx, storage.Resource{ID: notes, URI: notes}), storage.ErrConflict)
	f.clock.advance(time.Second)
	changed("adding another", f.PutResource(ctx, storage.Resource{ID: tasks, URI: tasks}), notes, tasks)

	first := read(notes)
	next := first
	next.Name = "Notes"
	changed("a change", f.PutResource(ctx, next), notes, tasks)
	wantError(t, "a change of what was changed meanwhile", f.PutResource(ctx, first), storage.ErrConflict)
	wantError(t, "the removal of what was changed meanwhile", f.RemoveResource(ctx, first), storage.ErrConflict)

	f.clock.advance(time.Second)
	changed("a removal", f.RemoveResource(ctx, read(notes)), tasks)
	gone := read(notes)
	if !gone.Removed || !gone.Ended.Equal(f.clock.Now()) || gone.URI != "" || gone.Scopes != nil {
		t.Errorf("a removed resource is %+v", gone)
	}
	wantError(t, "adding it as if it was new", f.PutResource(ctx, storage.Resource{ID: notes, URI: notes}), storage.ErrConflict)
	f.clock.advance(time.Second)
	changed("adding it again", f.PutResource(ctx, gone.Again(storage.Resource{ID: notes, URI: notes})), tasks, notes)
	if back := read(notes); back.Removed || !back.Ended.Equal(gone.Ended) || !back.Created.After(gone.Created) {
		t.Errorf("a resource that came back is %+v", back)
	}
	f.clock.advance(401 * 24 * time.Hour)
	changed("a removal without looking", f.RemoveUnreadableResource(ctx, tasks), notes)
	if back := read(notes); back.URI != notes {
		t.Errorf("a resource that came back ends with the record of its removal: %+v", back)
	}
	f.clock.advance(401 * 24 * time.Hour)
	if _, err := f.Resource(ctx, tasks); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the record of a removal after more than a year: %v", err)
	}
}
