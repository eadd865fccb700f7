package main

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// grantVerbs administer the grants in the store. A running server sees a change at once.
type grantVerbs struct {
	Ls     grantLs     `cmd:"" help:"List grants, the oldest first; without --user and --client person by person."`
	Revoke grantRevoke `cmd:"" help:"End grants: their tokens stop working."`
}

// grantSettings select the grants that a verb works on.
type grantSettings struct {
	storeSettings
	User     string `placeholder:"NAME" help:"Only grants of this person: the name that they sign in with."`
	Client   string `placeholder:"ID" help:"Only grants to this client."`
	Resource string `placeholder:"URI" help:"Only grants for this resource."`
	JSON     bool   `name:"json" help:"Print the records as a JSON array."`
}

func (s *grantSettings) filter() admin.GrantFilter {
	return admin.GrantFilter{User: s.User, ClientID: s.Client, Resource: s.Resource}
}

// explain adds the name that was given to an error about an unknown user or client.
func (s *grantSettings) explain(err error) error {
	switch {
	case errors.Is(err, admin.ErrUnknownUser):
		return noPerson(s.User)
	case errors.Is(err, admin.ErrUnknownClient):
		return noClient(s.Client, storage.ErrNotFound)
	}
	return err
}

// grantList prints grants while they are read.
type grantList struct {
	recordList[admin.Grant]
	names *admin.ClientNames
}

func (p *program) grantList(store *storage.Store, asJSON bool) *grantList {
	return &grantList{names: admin.NewClientNames(store), recordList: newRecordList(p.stdout, asJSON, grantHead, grantLine)}
}

func (l *grantList) add(ctx context.Context, g storage.Grant) error {
	name, err := l.names.Of(ctx, g.ClientID)
	if err != nil {
		return err
	}
	return l.print(admin.GrantOf(g, name, time.Now()))
}

const grantHead = "GRANT\tUSER\tCLIENT\tRESOURCES\tSCOPES\tSTATE\tCREATED\tREFRESHED\tENDS"

func grantLine(r admin.Grant) string {
	client := wordOf(r.ClientID)
	if r.ClientName != "" {
		client += " " + quoted(r.ClientName)
	}
	return strings.Join([]string{
		wordOf(r.ID), wordOf(cmp.Or(r.User, r.Subject)), client, wordsOf(r.Resources), scopesByResource(r), r.State,
		moment(r.Created), moment(r.LastRefreshed), moment(r.Ends),
	}, "\t")
}

// scopesByResource returns the scopes for a line of the table: those of each resource, in the
// order of the resources, separated by bars.
func scopesByResource(r admin.Grant) string {
	if len(r.Access) < 2 {
		return wordsOf(r.Scopes)
	}
	parts := make([]string, len(r.Access))
	for i, p := range r.Access {
		parts[i] = wordsOf(p.Scopes)
	}
	return strings.Join(parts, " | ")
}

type grantLs struct{ grantSettings }

// Run lists grants. Each line has the state at the time when its record was read.
func (v *grantLs) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	list := p.grantList(store, v.JSON)
	damaged := &unreadable{kind: "grant"}
	for g, err := range admin.Grants(ctx, store, v.filter()) {
		if err == nil {
			err = list.add(ctx, g)
		}
		if err = damaged.without(err); err != nil {
			return errors.Join(v.explain(err), list.end(false))
		}
	}
	return errors.Join(list.end(true), damaged.error())
}
