package admin_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// storeGrants puts a person ada and two of her grants into a store, the first for client one
// and the second for client two, and returns their ids.
func storeGrants(t *testing.T) (store *storage.Store, ids [2]string) {
	t.Helper()
	store = newStore(t)
	user, err := admin.AddUser(t.Context(), store, "ada", "correct horse battery")
	if err != nil {
		t.Fatal(err)
	}
	for i, client := range []string{"one", "two"} {
		g, _, err := store.PrepareGrant(storage.NewGrant{ClientID: client, Subject: user.Subject, UserName: user.Name, CodeTTL: time.Hour})
		g.Created = g.Created.Add(time.Duration(i) * time.Minute) // lists are in this order
		if err == nil {
			err = store.CreateGrant(t.Context(), g)
		}
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = g.ID
	}
	return store, ids
}

// TestRevokeGrants: every grant that matches is revoked, and only those; the result tells a
// live grant from one that was revoked before.
func TestRevokeGrants(t *testing.T) {
	store, ids := storeGrants(t)
	for _, step := range []struct {
		filter admin.GrantFilter
		want   string
	}{
		{admin.GrantFilter{ClientID: "two"}, fmt.Sprint([]any{ids[1], true})},
		{admin.GrantFilter{User: "ada"}, fmt.Sprint([]any{ids[0], true, ids[1], false})},
	} {
		var got []any
		for r, err := range admin.RevokeGrants(t.Context(), store, step.filter) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r.Grant.ID, r.Ended)
			if stored, err := store.Grant(t.Context(), r.Grant.ID); err != nil || stored.State != storage.GrantRevoked {
				t.Errorf("grant %s is %s, %v", r.Grant.ID, stored.State, err)
			}
		}
		if fmt.Sprint(got) != step.want {
			t.Errorf("%+v: %v, want %s", step.filter, got, step.want)
		}
	}
	for _, err := range admin.RevokeGrants(t.Context(), store, admin.GrantFilter{User: "grace"}) {
		if !errors.Is(err, admin.ErrUnknownUser) {
			t.Errorf("unknown user: %v", err)
		}
	}
}

// TestRevokeGrantsForgets: what people decided to be asked no more about is forgotten with the grants
// of a filter, also where no grant is left to revoke, and nothing else is.
func TestRevokeGrantsForgets(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		filter admin.GrantFilter
		left   string
	}{
		"everything":                    {admin.GrantFilter{}, ""},
		"a person":                      {admin.GrantFilter{User: "ada"}, "grace one, grace two"},
		"a client":                      {admin.GrantFilter{ClientID: "one"}, "ada two, grace two"},
		"a client of a person":          {admin.GrantFilter{User: "ada", ClientID: "one"}, "ada two, grace one, grace two"},
		"a resource":                    {admin.GrantFilter{Resource: "https://one.example.com/"}, "ada two, grace two"},
		"a resource of a person":        {admin.GrantFilter{User: "grace", Resource: "https://two.example.com/"}, "ada one, ada two, grace one"},
		"a client without the resource": {admin.GrantFilter{ClientID: "one", Resource: "https://two.example.com/"}, "ada one, ada two, grace one, grace two"},
	} {
		store, subjects := newStore(t), map[string]string{}
		for _, person := range []string{"ada", "grace"} {
			user, err := admin.AddUser(t.Context(), store, person, "correct horse battery")
			if err != nil {
				t.Fatal(err)
			}
			subjects[person] = user.Subject
			for _, client := range []string{"one", "two"} {
				access := storage.Access{{Resource: "https://" + client + ".example.com/"}}
				c := storage.Consent{Subject: user.Subject, ClientID: client}.With(storage.Remembered{Access: access, At: time.Now()})
				if err := store.PutConsent(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, err := range admin.RevokeGrants(t.Context(), store, tt.filter) {
			if !errors.Is(err, admin.ErrUnknownClient) {
				t.Errorf("%s: %v", name, err)
			}
		}
		var left []string
		for _, person := range []string{"ada", "grace"} {
			for _, client := range []string{"one", "two"} {
				if _, err := store.Consent(t.Context(), subjects[person], client); err == nil {
					left = append(left, person+" "+client)
				}
			}
		}
		if got := strings.Join(left, ", "); got != tt.left {
			t.Errorf("%s: left are %s; want %s", name, got, tt.left)
		}
	}
}

// TestRevokeGrantsByID: an id without a grant does not keep the others alive.
func TestRevokeGrantsByID(t *testing.T) {
	store, ids := storeGrants(t)
	absent := strings.Repeat("A", len(ids[0]))
	var revoked, unknown []string
	for r, err := range admin.RevokeGrantsByID(t.Context(), store, []string{ids[0], absent, ids[1]}) {
		switch {
		case errors.Is(err, storage.ErrNotFound):
			unknown = append(unknown, r.Grant.ID)
		case err != nil:
			t.Fatal(err)
		default:
			revoked = append(revoked, r.Grant.ID)
		}
	}
	if !slices.Equal(revoked, ids[:]) || !slices.Equal(unknown, []string{absent}) {
		t.Errorf("revoked %v, unknown %v", revoked, unknown)
	}
}
