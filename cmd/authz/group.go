package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// groupVerbs administer the groups of people in the store. A running server sees at once who joins
// and leaves, and within seconds that a group is removed. Groups of the file are not in the store.
type groupVerbs struct {
	Add   groupAdd   `cmd:"" help:"Make a group without members."`
	Ls    groupLs    `cmd:"" help:"List all groups, or the members of one."`
	Rm    groupRm    `cmd:"" help:"Remove a group; nobody is a member of it any more."`
	Join  groupJoin  `cmd:"" help:"Make a person a member of a group."`
	Leave groupLeave `cmd:"" help:"End the membership of a person in a group."`
}

type groupAdd struct {
	storeSettings
	Name string `arg:"" help:"The name of the group, for allow in the configuration."`
	JSON bool   `name:"json" help:"Print the record as JSON."`
}

// Run makes a group.
func (v *groupAdd) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	group, err := admin.AddGroup(ctx, store, v.Name)
	switch {
	case errors.Is(err, storage.ErrConflict):
		return fmt.Errorf("there is already a group with the name %s: let people in with authz group join %[1]s PERSON", v.Name)
	case err != nil:
		return err
	case v.JSON:
		return p.printJSON(group)
	}
	_, err = fmt.Fprintf(p.stdout, "added the group %s; let people in with: authz group join %s PERSON\n", group.Name, group.Name)
	return err
}

type groupLs struct {
	storeSettings
	Name string `arg:"" optional:"" help:"A group whose members are listed."`
	JSON bool   `name:"json" help:"Print the records as a JSON array."`
}

// Run lists all groups, or the members of one.
func (v *groupLs) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	if v.Name != "" {
		list := newRecordList(p.stdout, v.JSON, userHead, userLine)
		return groupError(printAll(list, "user", admin.Members(ctx, store, v.Name)), v.Name, "")
	}
	list := newRecordList(p.stdout, v.JSON, "NAME\tCREATED\tID", groupLine)
	return printAll(list, "group", admin.Groups(ctx, store))
}

// printAll prints records of one kind, and reports those that cannot be read at the end.
func printAll[T any](list recordList[T], kind string, records iter.Seq2[T, error]) error {
	damaged := &unreadable{kind: kind}
	for r, err := range records {
		if err == nil {
			err = list.print(r)
		}
		if err = damaged.without(err); err != nil {
			return errors.Join(err, list.end(false))
		}
	}
	return errors.Join(list.end(true), damaged.error())
}

func groupLine(g admin.Group) string {
	return strings.Join([]string{g.Name, moment(g.Created), g.ID}, "\t")
}

type groupRm struct {
	storeSettings
	Name string `arg:"" help:"The name of the group."`
	JSON bool   `name:"json" help:"Print what was done as JSON."`
}

// Run removes a group.
func (v *groupRm) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := admin.RemoveGroup(ctx, store, v.Name); err != nil {
		return groupError(err, v.Name, "")
	}
	if v.JSON {
		return p.printJSON(map[string]any{"group": v.Name, "removed": true})
	}
	_, err = fmt.Fprintf(p.stdout, "removed the group %s\n", v.Name)
	return err
}

type groupJoin struct{ membershipVerb }

// Run makes a person a member of a group.
func (v *groupJoin) Run(ctx context.Context, p *program, k *kong.Context) error {
	return v.change(ctx, p, k, true, admin.JoinGroup)
}

type groupLeave struct{ membershipVerb }

// Run ends the membership of a person in a group.
func (v *groupLeave) Run(ctx context.Context, p *program, k *kong.Context) error {
	return v.change(ctx, p, k, false, admin.LeaveGroup)
}

// membershipVerb is a verb about one person in one group.
type membershipVerb struct {
	storeSettings
	Group  string `arg:"" help:"The name of the group."`
	Person string `arg:"" help:"The name of the person; PROVIDER/HANDLE for a person of a provider."`
	JSON   bool   `name:"json" help:"Print what was done as JSON."`
}

// change changes the membership and prints what it is now.
func (v *membershipVerb) change(ctx context.Context, p *program, k *kong.Context, member bool,
	change func(ctx context.Context, store *storage.Store, group, name string) error) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := change(ctx, store, v.Group, v.Person); err != nil {
		return groupError(err, v.Group, v.Person)
	}
	if v.JSON {
		return p.printJSON(map[string]any{"group": v.Group, "person": v.Person, "member": member})
	}
	does := map[bool]string{true: "joined", false: "left"}[member]
	_, err = fmt.Fprintf(p.stdout, "%s %s the group %s\n", v.Person, does, v.Group)
	return err
}

// groupError names the group or the person that there is not, with the next step. Name is empty for
// a verb that is about nobody.
func groupError(err error, group, name string) error {
	switch {
	case errors.Is(err, admin.ErrUnknownGroup) && name == "":
		return fmt.Errorf("there is no group with the name %s in the store: authz group ls lists them", wordOf(group))
	case errors.Is(err, admin.ErrUnknownGroup):
		return fmt.Errorf("there is no group with the name %s in the store: make it with authz group add %[1]s", wordOf(group))
	case errors.Is(err, admin.ErrUnknownUser):
		return noPerson(name)
	case errors.Is(err, admin.ErrNotMember):
		return fmt.Errorf("%s is not a member of the group %s: authz user show %[1]s prints their groups", wordOf(name), wordOf(group))
	}
	return err
}
