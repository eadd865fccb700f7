package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"gatehouse.example/storage"
)

// Resource is the view of a resource in the store, without its secrets.
type Resource struct {
	URI string `json:"uri"`
	// Pattern says that URI has placeholders and stands for many resources.
	Pattern       bool            `json:"pattern"`
	Name          string          `json:"name,omitempty"`
	State         string          `json:"state"` // "active" or "disabled"
	Scopes        []ResourceScope `json:"scopes"`
	DefaultScopes []string        `json:"default_scopes,omitempty"`
	Allow         *storage.Allow  `json:"allow,omitempty"`
	Claims        []string        `json:"claims,omitempty"`
	// Introspects says that the resource server has a credential. Its client_id is the URI of the
	// resource.
	Introspects bool      `json:"introspects"`
	Created     time.Time `json:"created,omitzero"` // zero if it is not known
}

// ResourceScope is the view of a scope of a resource.
type ResourceScope struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Allow       *storage.Allow `json:"allow,omitempty"`
}

// ResourceOf returns the view of a resource.
func ResourceOf(r storage.Resource) Resource {
	v := Resource{
		URI: r.URI, Pattern: strings.Contains(r.ID, "{}"), Name: r.Name, State: "active", Scopes: []ResourceScope{}, DefaultScopes: r.DefaultScopes,
		Allow: allowOf(r.Allow), Claims: r.Claims, Introspects: len(r.Secret) > 0 || len(r.IntrospectionKey) > 0, Created: r.Created.UTC(),
	}
	if r.Disabled {
		v.State = "disabled"
	}
	for _, s := range r.Scopes {
		v.Scopes = append(v.Scopes, ResourceScope{Name: s.Name, Description: s.Description, Allow: allowOf(s.Allow)})
	}
	return v
}

func allowOf(a storage.Allow) *storage.Allow {
	if len(a.Groups) == 0 && len(a.People) == 0 {
		return nil
	}
	return &a
}

// Resources lists the resources in the store, the oldest first. The list is read while the
// caller iterates. For a record that cannot be read, Resources yields an error that wraps
// [storage.ErrRecord] in its place; every other error ends the list.
func Resources(ctx context.Context, store *storage.Store) iter.Seq2[Resource, error] {
	return func(yield func(Resource, error) bool) {
		for r, err := range store.Resources(ctx) {
			if err == nil && r.Removed {
				continue
			}
			if !yield(ResourceOf(r), err) {
				return
			}
		}
	}
}

// FindResource returns the resource with an ID (see [storage.Resource]). The error wraps
// [storage.ErrNotFound] if there is none.
func FindResource(ctx context.Context, store *storage.Store, id string) (storage.Resource, error) {
	r, err := store.Resource(ctx, id)
	if err == nil && r.Removed {
		err = storage.ErrNotFound
	}
	if err != nil {
		return storage.Resource{}, fmt.Errorf("authz: resource %s: %w", id, err)
	}
	return r, nil
}

// DisableResource takes a resource out of use: tokens for it are not active any more, and none
// are issued. EnableResource ends that, and what people allowed counts again. The error of both
// wraps [storage.ErrNotFound] if there is no resource with that ID.
func DisableResource(ctx context.Context, store *storage.Store, id string) error {
	return changeResource(ctx, store, id, func(r storage.Resource) error {
		r.Disabled = true
		return store.PutResource(ctx, r)
	})
}

// EnableResource ends what DisableResource began.
func EnableResource(ctx context.Context, store *storage.Store, id string) error {
	return changeResource(ctx, store, id, func(r storage.Resource) error {
		r.Disabled = false
		return store.PutResource(ctx, r)
	})
}

// RemoveResource removes a resource, also one whose record cannot be read. What people allowed for it does not count any more, also if
// one with the same URI is added later. The error wraps [storage.ErrNotFound] if there is no
// resource with that ID.
func RemoveResource(ctx context.Context, store *storage.Store, id string) error {
	err := changeResource(ctx, store, id, func(r storage.Resource) error { return store.RemoveResource(ctx, r) })
	if errors.Is(err, storage.ErrRecord) {
		return store.RemoveUnreadableResource(ctx, id)
	}
	return err
}

// changeResource changes a resource, and tries again if another writer changed it meanwhile.
func changeResource(ctx context.Context, store *storage.Store, id string, change func(storage.Resource) error) error {
	for range 8 {
		r, err := FindResource(ctx, store, id)
		if err != nil {
			return err
		}
		if err := change(r); !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("authz: resource %s: %w", id, storage.ErrConflict)
}
