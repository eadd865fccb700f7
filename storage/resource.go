package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
)

const (
	kindResource      = "resource"
	kindResourceState = "resource-state"
)

var resourceIndex = key("resources", "all")

const (
	resourceStateID = "all"
	// maxResources bounds the list of resources, those that were removed lately included.
	maxResources = 50000
	// resourcesAtOnce is how many entries of the list are read in one round trip.
	resourcesAtOnce = 1000
	// resourceMemory is how long the removal of a resource is on record. No grant should live
	// longer.
	resourceMemory = 400 * 24 * time.Hour
)

// ErrTooManyResources means that the list of resources is full.
var ErrTooManyResources = fmt.Errorf("storage: there are %d resources, those removed in the last 400 days included: no more can be added", maxResources)

// Resource is a protected server that the operator keeps in the store, or a pattern for many. In
// a record of one that was removed everything but the ID and the times is left out.
type Resource struct {
	// ID is what the record is stored under: the URI or, for a pattern, its shape, so that there
	// is one record for all patterns that match the same URIs.
	ID string `json:"id"`
	// URI is the resource identifier in canonical form, or a pattern as the operator wrote it.
	URI  string `json:"uri,omitempty"`
	Name string `json:"name,omitempty"`
	// Scopes are in the order in which people see them. DefaultScopes are granted to requests
	// without a scope; nil means all.
	Scopes        []ResourceScope `json:"scopes,omitempty"`
	DefaultScopes []string        `json:"default_scopes,omitempty"`
	// Allow names who may use the resource; the zero value is everybody.
	Allow Allow `json:"allow,omitzero"`
	// Claims are what the resource learns about a person: "groups", "email", "name".
	Claims []string `json:"claims,omitempty"`
	// Secret is that of the resource server at /introspect, nil for none. A pattern has none, and
	// has IntrospectionKey in its place: the sealed key from which the secret of each of its URIs
	// is derived.
	Secret           SecretHash `json:"secret,omitempty"`
	IntrospectionKey Sealed     `json:"introspection_key,omitempty"`

	Created  time.Time `json:"created"`
	Disabled bool      `json:"disabled,omitempty"`
	// Ended is when a resource of this ID was removed last, zero if none was. What people allowed
	// before does not count afterwards.
	Ended time.Time `json:"ended,omitzero"`
	// Removed says that there is no such resource any more.
	Removed bool `json:"removed,omitempty"`

	version Version
}

// ResourceScope is a scope of a resource with the sentence that people read at consent.
type ResourceScope struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Allow names who may have the scope, among those who may use the resource.
	Allow Allow `json:"allow,omitzero"`
}

// Allow names people: by group and by name. Values of one kind are alternatives, and each kind that
// has any must match.
type Allow struct {
	Groups []string `json:"groups,omitempty"`
	People []string `json:"people,omitempty"`
}

// resourceState is a record whose version changes after each change of a resource, so that
// servers see with one small read whether there was any.
type resourceState struct {
	Changed time.Time `json:"changed"`
}

// PutResource stores a resource: a new one, or one that was read before in another form. It sets
// Created of a new one. The error is [ErrConflict] if there is a resource of that ID or it was
// changed meanwhile, and [ErrTooManyResources] if the list is full. After any other error the
// resource may be stored, and servers may see it up to a minute later.
func (s *Store) PutResource(ctx context.Context, r Resource) error {
	if r.version == (Version{}) || r.Created.IsZero() {
		n, err := s.indexLen(ctx, resourceIndex)
		if err != nil {
			return err
		}
		if n >= maxResources {
			return ErrTooManyResources
		}
		r.Created = s.now().UTC()
	}
	return s.storeResource(ctx, r, time.Time{}, Unchanged(r.version))
}

// RemoveResource removes a resource that was read before, or returns [ErrConflict]. What people
// allowed for it does not count any more, also when a resource of the same ID is added later.
func (s *Store) RemoveResource(ctx context.Context, r Resource) error {
	now := s.now().UTC()
	gone := Resource{ID: r.ID, Created: r.Created, Ended: now, Removed: true}
	return s.storeResource(ctx, gone, now.Add(resourceMemory), Unchanged(r.version))
}

// RemoveUnreadableResource is [Store.RemoveResource] for a record that cannot be read. It replaces
// whatever is stored under the ID.
func (s *Store) RemoveUnreadableResource(ctx context.Context, id string) error {
	now := s.now().UTC()
	return s.storeResource(ctx, Resource{ID: id, Created: now, Ended: now, Removed: true}, now.Add(resourceMemory), Always)
}

// Again returns the resource next as the successor of r, a record of the same ID: what people
// allowed before r was removed does not count for it.
func (r Resource) Again(next Resource) Resource {
	next.Ended, next.version = r.Ended, r.version
	if !r.Removed {
		next.Created = r.Created
	}
	return next
}

// storeResource stores a resource and then says that there was a change.
func (s *Store) storeResource(ctx context.Context, r Resource, expires time.Time, cond Condition) error {
	_, err := s.write(ctx, record{
		kind: kindResource, id: r.ID, value: r, expires: expires,
		listed: []Listing{{resourceIndex, entryOf(r.Created, r.ID)}},
	}, cond)
	if err != nil {
		return err
	}
	_, err = s.write(ctx, record{kind: kindResourceState, id: resourceStateID, value: resourceState{s.now().UTC()}}, Always)
	return err
}

// Resource returns the record of an ID, or [ErrNotFound]. It may say that the resource was
// removed.
func (s *Store) Resource(ctx context.Context, id string) (Resource, error) {
	var r Resource
	version, err := s.read(ctx, kindResource, id, &r)
	if err != nil {
		return Resource{}, err
	}
	r.version = version
	return r, nil
}

// ResourcesVersion returns a version that changes whenever a resource does: the zero version if
// there never was any. It is one round trip.
func (s *Store) ResourcesVersion(ctx context.Context) (Version, error) {
	version, err := s.read(ctx, kindResourceState, resourceStateID, &resourceState{})
	if errors.Is(err, ErrNotFound) {
		return Version{}, nil
	}
	return version, err
}

// Resources lists the records of all resources, the oldest first, and of those that were removed
// in the last 400 days. A record that cannot be read is an error that wraps [ErrRecord], beside a
// Resource that has an ID and nothing else; the iteration may go on after it.
func (s *Store) Resources(ctx context.Context) iter.Seq2[Resource, error] {
	return func(yield func(Resource, error) bool) {
		after := ""
		for {
			page, err := s.indexPage(ctx, resourceIndex, after, resourcesAtOnce)
			if err != nil {
				yield(Resource{}, err)
				return
			}
			if len(page) == 0 || !s.yieldResources(ctx, page, yield) {
				return
			}
			after = page[len(page)-1]
		}
	}
}

// yieldResources yields the resources of some entries, and reports whether to go on.
func (s *Store) yieldResources(ctx context.Context, entries []string, yield func(Resource, error) bool) bool {
	entries = slices.DeleteFunc(entries, func(entry string) bool { return len(entry) <= entryTimeLen })
	keys := make([]string, len(entries))
	for i, entry := range entries {
		keys[i] = key(kindResource, entry[entryTimeLen:])
	}
	items, err := s.getMany(ctx, keys)
	if err != nil {
		yield(Resource{}, err)
		return false
	}
	for i, item := range items {
		r, err := s.listedResource(ctx, entries[i], item)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if !yield(r, err) || ends(err) {
			return false
		}
	}
	return true
}

// listedResource decodes the resource of an entry. It is [ErrNotFound] if it is gone, and if it
// was added again later, when it has a later entry.
func (s *Store) listedResource(ctx context.Context, entry string, item Item) (Resource, error) {
	id := entry[entryTimeLen:]
	if item.Version == (Version{}) {
		return Resource{}, s.forgetResource(ctx, entry, id)
	}
	r := Resource{version: item.Version}
	err := s.mayBePlain(ctx, kindResource, item)
	if err == nil {
		err = s.decode(kindResource, id, item, &r)
	}
	switch {
	case err != nil:
		return Resource{ID: id}, err
	case entryOf(r.Created, r.ID) != entry:
		return Resource{}, ErrNotFound
	}
	return r, nil
}

// forgetResource removes the entry of a removal that is not on record any more. An entry that is
// young may be that of a record which is about to be written.
func (s *Store) forgetResource(ctx context.Context, entry, id string) error {
	if s.now().Sub(timeOf(entry)) < resourceMemory {
		return ErrNotFound
	}
	if there, err := s.exists(ctx, key(kindResource, id)); there || err != nil {
		return errors.Join(err, ErrNotFound)
	}
	if err := s.indexRemove(ctx, resourceIndex, entry); err != nil {
		return err
	}
	return ErrNotFound
}

// SealIntrospectionKey seals the key from which the introspection secrets of the URIs of a pattern
// are derived.
func (s *Store) SealIntrospectionKey(id string, secret string) (Sealed, error) {
	return s.Seal(kindResource, id, []byte(secret))
}

// OpenIntrospectionKey opens what [Store.SealIntrospectionKey] sealed; it is "" if the resource has
// no key.
func (s *Store) OpenIntrospectionKey(r Resource) (string, error) {
	if len(r.IntrospectionKey) == 0 {
		return "", nil
	}
	secret, err := s.Open(kindResource, r.ID, r.IntrospectionKey)
	return string(secret), err
}

// sealed returns the secret for [Store.Reseal].
func (r *Resource) sealed() *Sealed { return &r.IntrospectionKey }
