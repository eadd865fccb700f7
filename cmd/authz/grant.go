package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

// grantVerbs administer what people allowed clients to do. They work on the store of a
// running server, which sees the change at once.
type grantVerbs struct {
	Ls     grantLs     `cmd:"" help:"List grants, the oldest first; without --user and --client person by person."`
	Revoke grantRevoke `cmd:"" help:"End grants: their tokens stop working."`
}

// grantSettings say which grants a verb is about.
type grantSettings struct {
	storeSettings
	User     string `placeholder:"NAME" help:"Only what this person granted: the name that they sign in with."`
	Client   string `placeholder:"ID" help:"Only what was granted to this client."`
	Resource string `placeholder:"URI" help:"Only grants for this resource."`
	JSON     bool   `name:"json" help:"Print the records as a JSON array."`
}

func (s *grantSettings) filter() authz.GrantFilter {
	return authz.GrantFilter{User: s.User, ClientID: s.Client, Resource: s.Resource}
}

// explain puts the name that was asked for into an error about it.
func (s *grantSettings) explain(err error) error {
	switch {
	case errors.Is(err, authz.ErrUnknownUser):
		return fmt.Errorf("there is no person with the name %s", wordOf(s.User))
	case errors.Is(err, authz.ErrUnknownClient):
		return fmt.Errorf("there is no client with the id %s", wordOf(s.Client))
	}
	return err
}

// grantRecord is a grant as it is printed: without its seed, and without the hash of its
// code.
type grantRecord struct {
	ID         string   `json:"id"`
	State      string   `json:"state"`
	User       string   `json:"user"`
	Subject    string   `json:"subject"`
	ClientID   string   `json:"client_id"`
	ClientName string   `json:"client_name,omitempty"`
	Resources  []string `json:"resources"`
	Scopes     []string `json:"scopes"`
	// Access says which scopes count at which resource. Grants from before there were pairs
	// have none: there each scope counts at each resource that defines it.
	Access storage.Access `json:"access,omitempty"`

	Created       time.Time `json:"created"`
	LastRefreshed time.Time `json:"last_refreshed,omitzero"`
	// Ends is when the grant is over if nobody refreshes or revokes it.
	Ends           time.Time `json:"ends,omitzero"`
	RevokedBecause string    `json:"revoked_because,omitempty"`
}

func grantRecordOf(g storage.Grant, clientName string, now time.Time) grantRecord {
	r := grantRecord{
		ID: g.ID, State: stateOf(g, now), User: g.UserName, Subject: g.Subject, ClientID: g.ClientID, ClientName: clientName,
		Resources: append([]string{}, g.Resources...), Scopes: append([]string{}, scopesOf(g)...), Access: g.Access,
		Created: g.Created.UTC(), Ends: endOf(g).UTC(), RevokedBecause: g.RevokedBecause,
	}
	if g.Generation > 0 {
		r.LastRefreshed = g.Rotated.UTC()
	}
	return r
}

// scopesOf are the scopes of a grant, at whichever of its resources.
func scopesOf(g storage.Grant) []string {
	if len(g.Access) > 0 {
		return g.Access.Scopes()
	}
	return g.Scopes
}

// expired is the state of a grant that can be refreshed no more. It is on record as long
// as one of its access tokens may live.
const expired = "expired"

func stateOf(g storage.Grant, now time.Time) string {
	if g.State == storage.GrantActive && !now.Before(endOf(g)) {
		return expired
	}
	return string(g.State)
}

// endOf is when a grant is over by itself; zero if it is revoked. A grant that has
// refresh tokens is over when they are, another one with its access tokens.
func endOf(g storage.Grant) time.Time {
	end := g.AccessUntil
	switch {
	case g.State == storage.GrantRevoked:
		return time.Time{}
	case g.State == storage.GrantCode:
		return g.CodeExpires
	case g.Refreshable:
		end = g.IdleExpires
	}
	if end.After(g.Expires) {
		return g.Expires
	}
	return end
}

// grantList prints grants as they come, on paper of one kind or the other.
type grantList struct {
	paper[grantRecord]
	store *storage.Store
	names map[string]string // of clients, by id
}

func (p *program) grantList(store *storage.Store, asJSON bool) *grantList {
	return &grantList{store: store, names: map[string]string{}, paper: paperFor(p.stdout, asJSON, grantHead, grantLine)}
}

func (l *grantList) add(ctx context.Context, g storage.Grant) error {
	name, err := l.nameOf(ctx, g.ClientID)
	if err != nil {
		return err
	}
	return l.print(grantRecordOf(g, name, time.Now()))
}

// maxNames bounds how many names of clients are remembered.
const maxNames = 1024

// nameOf returns what a client calls itself, or nothing if it has no record, or none
// that can be read.
func (l *grantList) nameOf(ctx context.Context, clientID string) (string, error) {
	if name, ok := l.names[clientID]; ok {
		return name, nil
	}
	client, err := l.store.Client(ctx, clientID)
	if err != nil && !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrRecord) {
		return "", err
	}
	if len(l.names) >= maxNames {
		clear(l.names)
	}
	l.names[clientID] = client.Metadata.ClientName
	return client.Metadata.ClientName, nil
}

const grantHead = "GRANT\tUSER\tCLIENT\tRESOURCES\tSCOPES\tSTATE\tCREATED\tREFRESHED\tENDS"

func grantLine(r grantRecord) string {
	client := wordOf(r.ClientID)
	if r.ClientName != "" {
		client += " " + quoted(r.ClientName)
	}
	return strings.Join([]string{
		wordOf(r.ID), wordOf(cmp.Or(r.User, r.Subject)), client, wordsOf(r.Resources), r.scopes(), r.State,
		moment(r.Created), moment(r.LastRefreshed), moment(r.Ends),
	}, "\t")
}

// scopes are the scopes as they stand in a line: those of each resource, in the order of the
// resources, with a bar between them.
func (r grantRecord) scopes() string {
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

// Run lists grants. What it prints was true when it was read.
func (v *grantLs) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	list := p.grantList(store, v.JSON)
	damaged := &unreadable{kind: "grant"}
	for g, err := range authz.Grants(ctx, store, v.filter()) {
		if err == nil {
			err = list.add(ctx, g)
		}
		if err = damaged.without(err); err != nil {
			return errors.Join(v.explain(err), list.end(false))
		}
	}
	return errors.Join(list.end(true), damaged.error())
}
