package admin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

func members(t *testing.T, store *storage.Store, group string) string {
	t.Helper()
	var names []string
	for u, err := range admin.Members(t.Context(), store, group) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, u.Name)
	}
	return strings.Join(names, " ")
}

// TestGroups: groups have one spelling, people join and leave, and a group that is made again has
// nobody of before.
func TestGroups(t *testing.T) {
	store := newStore(t)
	ctx := t.Context()
	wants := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	for _, name := range []string{"ada", "ben"} {
		if _, err := admin.AddUser(ctx, store, name, "correct horse battery"); err != nil {
			t.Fatal(err)
		}
	}
	wants("a person of a provider", store.CreateUser(ctx, storage.User{Name: "company/ada", Subject: "c"}), nil)
	first, err := admin.AddGroup(ctx, store, "admins")
	wants("AddGroup", err, nil)
	_, err = admin.AddGroup(ctx, store, "admins")
	wants("AddGroup again", err, storage.ErrConflict)
	_, err = admin.AddGroup(ctx, store, "company/admins")
	wants("AddGroup of a provider", err, admin.ErrGroupName)
	for _, name := range []string{"ADA", "ada", "company/ada"} {
		wants("JoinGroup", admin.JoinGroup(ctx, store, "admins", name), nil)
	}
	if got := members(t, store, "admins"); got != "ada company/ada" {
		t.Errorf("members: %s", got)
	}
	wants("JoinGroup of no group", admin.JoinGroup(ctx, store, "nobodies", "ada"), admin.ErrUnknownGroup)
	wants("JoinGroup of nobody", admin.JoinGroup(ctx, store, "admins", "nobody"), admin.ErrUnknownUser)
	wants("JoinGroup without a name", admin.JoinGroup(ctx, store, "admins", "/"), admin.ErrUserName)
	wants("LeaveGroup of nobody", admin.LeaveGroup(ctx, store, "admins", "nobody"), admin.ErrUnknownUser)
	wants("LeaveGroup of one who is not in it", admin.LeaveGroup(ctx, store, "admins", "ben"), admin.ErrNotMember)
	_, err = admin.AddGroup(ctx, store, "staff")
	wants("AddGroup of another", err, nil)
	wants("JoinGroup of another", admin.JoinGroup(ctx, store, "staff", "company/ada"), nil)
	wants("LeaveGroup", admin.LeaveGroup(ctx, store, "admins", "company/ada"), nil)
	if got := members(t, store, "admins") + ", " + members(t, store, "staff"); got != "ada, company/ada" {
		t.Errorf("members after one left: %s", got)
	}
	wants("RemoveGroup of another", admin.RemoveGroup(ctx, store, "staff"), nil)
	wants("RemoveGroup", admin.RemoveGroup(ctx, store, "admins"), nil)
	wants("RemoveGroup again", admin.RemoveGroup(ctx, store, "admins"), admin.ErrUnknownGroup)
	for _, err := range admin.Members(ctx, store, "admins") {
		wants("Members of no group", err, admin.ErrUnknownGroup)
	}
	second, err := admin.AddGroup(ctx, store, "admins")
	if wants("AddGroup once more", err, nil); first.ID == second.ID || members(t, store, "admins") != "" {
		t.Error("the group that was made again is the one of before")
	}
	wants("JoinGroup once more", admin.JoinGroup(ctx, store, "admins", "ada"), nil)
	if ada, err := store.User(ctx, "ada"); err != nil || len(ada.Groups) != 1 || ada.Groups[0].ID != second.ID {
		t.Errorf("the record has %+v, %v", ada.Groups, err)
	}
	names := ""
	for g, err := range admin.Groups(ctx, store) {
		wants("Groups", err, nil)
		names += g.Name
	}
	if names != "admins" {
		t.Errorf("groups: %s", names)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := admin.JoinGroup(over, store, "admins", "ada"); err == nil || errors.Is(err, admin.ErrUnknownGroup) {
		t.Errorf("without time: %v", err)
	}
}

// TestManyGroups: a person is a member of a bounded number of groups, of which those that are gone
// take no place.
func TestManyGroups(t *testing.T) {
	store := newStore(t)
	ctx := t.Context()
	if _, err := admin.AddUser(ctx, store, "ada", "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	for i := range 101 {
		name := fmt.Sprintf("g%d", i)
		if _, err := admin.AddGroup(ctx, store, name); err != nil {
			t.Fatal(err)
		}
		if err := admin.JoinGroup(ctx, store, name, "ada"); (i == 100) != errors.Is(err, admin.ErrManyGroups) || i < 100 && err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if ada, err := store.User(ctx, "ada"); err != nil || len(ada.Groups) != 100 || members(t, store, "g100") != "" {
		t.Errorf("the record has %d groups, %v", len(ada.Groups), err)
	}
	if err := admin.JoinGroup(ctx, store, "g5", "ada"); err != nil {
		t.Errorf("a member of as many as can be joins one of them: %v", err)
	}
	if err := admin.RemoveGroup(ctx, store, "g7"); err != nil {
		t.Fatal(err)
	}
	if err := admin.JoinGroup(ctx, store, "g100", "ada"); err != nil || members(t, store, "g100") != "ada" {
		t.Errorf("after one was removed: %v", err)
	}
}
