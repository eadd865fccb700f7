package admin_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// TestResourceView: the view of a resource has what it is and for whom, and neither of its secrets.
func TestResourceView(t *testing.T) {
	staff, created := storage.Allow{Groups: []string{"staff"}}, time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("", 3600))
	ada := storage.Allow{People: []string{"ada"}}
	for name, test := range map[string]struct {
		record storage.Resource
		view   admin.Resource
	}{
		"all": {
			storage.Resource{
				ID: "https://a.example.com/{}", URI: "https://a.example.com/{tenant}", Name: "A", DefaultScopes: []string{"read"}, Allow: staff, Claims: []string{"email"},
				Scopes:  []storage.ResourceScope{{Name: "read", Description: "Read", Allow: ada}, {Name: "write", Description: "Write"}},
				Created: created, Disabled: true, IntrospectionKey: storage.Sealed("sealed"),
			},
			admin.Resource{
				URI: "https://a.example.com/{tenant}", Pattern: true, Name: "A", State: "disabled", DefaultScopes: []string{"read"}, Allow: &staff, Claims: []string{"email"},
				Scopes:  []admin.ResourceScope{{Name: "read", Description: "Read", Allow: &ada}, {Name: "write", Description: "Write"}},
				Created: created.UTC(), Introspects: true,
			},
		},
		"little": {
			storage.Resource{ID: "https://b.example.com", URI: "https://b.example.com", Created: created},
			admin.Resource{URI: "https://b.example.com", State: "active", Scopes: []admin.ResourceScope{}, Created: created.UTC()},
		},
		"with a secret": {
			storage.Resource{ID: "https://b.example.com", URI: "https://b.example.com", Created: created, Secret: storage.HashSecret("secret")},
			admin.Resource{URI: "https://b.example.com", State: "active", Scopes: []admin.ResourceScope{}, Created: created.UTC(), Introspects: true},
		},
	} {
		if got := admin.ResourceOf(test.record); !reflect.DeepEqual(got, test.view) {
			t.Errorf("%s: %+v\nwant %+v", name, got, test.view)
		}
	}
}

// TestResourceVerbs: a resource is disabled, enabled and removed, and what was removed is neither
// listed nor found.
func TestResourceVerbs(t *testing.T) {
	store, ctx := newStore(t), t.Context()
	const one, other = "https://a.example.com/mcp", "https://b.example.com/mcp"
	for _, id := range []string{one, other} {
		if err := store.PutResource(ctx, storage.Resource{ID: id, URI: id}); err != nil {
			t.Fatal(err)
		}
	}
	states := func() string {
		all := ""
		for r, err := range admin.Resources(ctx, store) {
			if err != nil {
				t.Fatal(err)
			}
			all += r.URI + " " + r.State + "\n"
		}
		return all
	}
	for _, step := range []struct {
		name string
		do   func(context.Context, *storage.Store, string) error
		want string
	}{
		{"disable", admin.DisableResource, one + " disabled\n" + other + " active\n"},
		{"disable again", admin.DisableResource, one + " disabled\n" + other + " active\n"},
		{"enable", admin.EnableResource, one + " active\n" + other + " active\n"},
		{"remove", admin.RemoveResource, other + " active\n"},
	} {
		if err := step.do(ctx, store, one); err != nil || states() != step.want {
			t.Errorf("%s: %v\n%s", step.name, err, states())
		}
	}
	for name, verb := range map[string]func(context.Context, *storage.Store, string) error{
		"disable": admin.DisableResource, "enable": admin.EnableResource, "remove": admin.RemoveResource,
		"find": func(ctx context.Context, store *storage.Store, id string) error {
			_, err := admin.FindResource(ctx, store, id)
			return err
		},
	} {
		for _, id := range []string{one, "https://never.example.com"} {
			if err := verb(ctx, store, id); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("%s of %s: %v", name, id, err)
			}
		}
	}
	if r, err := admin.FindResource(ctx, store, other); err != nil || r.URI != other {
		t.Errorf("%+v, %v", r, err)
	}
	for range admin.Resources(ctx, store) {
		break // a caller may stop
	}
}
