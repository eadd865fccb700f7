package authz

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"gatehouse.example/authz/internal/uripattern"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// NewResource is the input of [AddResource].
type NewResource struct {
	// Resource is what to store, without Default, which only a configuration can set. The ID of
	// its Introspection is not used: the client_id of a resource in the store is its URI.
	Resource Resource
	// Disabled stores it so that nobody can use it yet. One for a URI that a pattern covers takes
	// that URI out of the pattern.
	Disabled bool
	// Replace replaces the resource that is there. What people allowed stays, as far as the scopes
	// are still defined, and without Introspection its credential stays too.
	Replace bool
	// Configured are the resources of the server's configuration, nil if they are not known. The
	// new resource must not contradict them.
	Configured []Resource
}

// The bounds of a resource in the store: all are in the memory of each server.
const (
	maxResourceName   = 200
	maxResourceScopes = 100
	maxScopeSentence  = 500
)

// AddResource stores a resource and returns it as it is stored, with Created unless it cannot be
// read back. Running servers see it within seconds. The error wraps
// [storage.ErrConflict] if there is one of that URI or, for a pattern, of the same shape, and
// [storage.ErrNotFound] if there is none to replace; otherwise it says what is wrong with the
// resource.
func AddResource(ctx context.Context, store *storage.Store, n NewResource) (storage.Resource, error) {
	r, err := n.record(store)
	if err != nil {
		return storage.Resource{}, err
	}
	list, err := ReadResources(ctx, store, n.Configured)
	if err != nil {
		return storage.Resource{}, err
	}
	if why := list.Refuses(r); why != "" {
		return storage.Resource{}, fmt.Errorf("authz: resource %s: %s", r.URI, why)
	}
	before, err := n.before(ctx, store, r.ID)
	if err != nil {
		return storage.Resource{}, fmt.Errorf("authz: resource %s: %w", r.URI, err)
	}
	if n.Replace && n.Resource.Introspection == nil {
		r.Secret, r.IntrospectionKey = before.Secret, before.IntrospectionKey
	}
	if err := store.PutResource(ctx, before.Again(r)); err != nil {
		return storage.Resource{}, err
	}
	stored, err := store.Resource(ctx, r.ID) // the store has set the time
	if err != nil || stored.Removed {
		return r, nil // it was added, and the secret of the caller must not be lost
	}
	return stored, nil
}

// before returns the record that is under an ID, zero if there never was one. One to replace must
// be there, and otherwise none.
func (n NewResource) before(ctx context.Context, store *storage.Store, id string) (storage.Resource, error) {
	r, err := store.Resource(ctx, id)
	missing := errors.Is(err, storage.ErrNotFound)
	switch {
	case err != nil && !missing:
		return storage.Resource{}, err
	case n.Replace && (missing || r.Removed):
		return storage.Resource{}, storage.ErrNotFound
	case !n.Replace && !missing && !r.Removed:
		return storage.Resource{}, storage.ErrConflict
	}
	return r, nil
}

// record returns the record of a resource, after the checks that need no other one.
func (n NewResource) record(store *storage.Store) (storage.Resource, error) {
	r := storage.Resource{
		ID: n.Resource.URI, URI: n.Resource.URI, Name: n.Resource.Name, DefaultScopes: n.Resource.DefaultScopes,
		Allow: storage.Allow(n.Resource.Allow), Claims: n.Resource.Claims, Disabled: n.Disabled,
	}
	for _, s := range n.Resource.Scopes {
		r.Scopes = append(r.Scopes, storage.ResourceScope{Name: s.Name, Description: s.Description, Allow: storage.Allow(s.Allow)})
	}
	if err := n.tooLarge(); err != nil {
		return storage.Resource{}, err
	}
	if errs := append(n.Resource.validate(map[string]bool{}, map[string]string{}), n.Resource.allowMistakes(nil)...); len(errs) > 0 {
		return storage.Resource{}, errors.Join(errs...)
	}
	id, err := ResourceID(r.URI)
	if err != nil {
		return storage.Resource{}, err
	}
	r.ID = id
	switch i := n.Resource.Introspection; {
	case i == nil:
	case uripattern.Is(r.URI):
		r.IntrospectionKey, err = store.SealIntrospectionKey(r.ID, i.Secret)
	default:
		r.Secret = storage.HashSecret(i.Secret)
	}
	return r, err
}

func (n NewResource) tooLarge() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("authz: resource %s: "+format, append([]any{printable(n.Resource.URI)}, args...)...)
	}
	switch {
	case utf8.RuneCountInString(n.Resource.Name) > maxResourceName:
		return fail("its name has more than %d characters", maxResourceName)
	case len(n.Resource.Scopes) > maxResourceScopes:
		return fail("it has more than %d scopes", maxResourceScopes)
	}
	for _, s := range n.Resource.Scopes {
		if utf8.RuneCountInString(s.Description) > maxScopeSentence {
			return fail("the description of %s has more than %d characters", printable(s.Name), maxScopeSentence)
		}
	}
	return nil
}

// ResourceID returns the ID of the record of a resource ([storage.Resource]) in the store: the
// canonical form of a URI, and the shape of a pattern.
func ResourceID(uri string) (string, error) {
	if !uripattern.Is(uri) {
		return metadata.Canonical(uri)
	}
	p, err := uripattern.Parse(uri)
	if err != nil {
		return "", fmt.Errorf("authz: resource %q: %w", uri, err)
	}
	return p.Shape(), nil
}
