package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

type grantRevoke struct {
	grantSettings
	IDs []string `arg:"" optional:"" name:"id" help:"The ids of grants, as ls prints them; write -- before the first if one begins with a dash."`
}

// Run ends grants, and says which or how many even if it could not end all.
func (v *grantRevoke) Run(ctx context.Context, p *program, k *kong.Context) error {
	if err := p.loadStore(k); err != nil {
		return err
	}
	if err := v.misnamed(); err != nil {
		return usageError{err}
	}
	store, err := v.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	r := &revocation{store: store, damaged: unreadable{kind: "grant"}}
	if v.JSON {
		r.list = p.grantList(store, true)
	}
	if len(v.IDs) > 0 {
		err = r.each(ctx, v.IDs)
	} else {
		err = v.explain(r.all(ctx, v.filter()))
	}
	return errors.Join(r.tell(p.stdout, err == nil), err, r.unknownIDs(), r.damaged.error())
}

// misnamed says what is wrong with the way in which grants are named.
func (v *grantRevoke) misnamed() error {
	switch {
	case len(v.IDs) > 0 && v.filter() != admin.GrantFilter{}:
		return errors.New("grants are named by their ids, or with --user, --client and --resource, not both")
	case len(v.IDs) == 0 && v.User == "" && v.Client == "":
		return errors.New("no grant is named: give ids of grants, a person with --user or a client with --client")
	}
	return nil
}

// revocation is what came of revoking several grants.
type revocation struct {
	store   *storage.Store
	list    *grantList // nil unless the records are printed
	ended   int
	before  int      // how many were revoked before
	unknown []string // ids that name nothing
	damaged unreadable
}

// each revokes the grants with these ids, whether or not there are others among them
// that name nothing.
func (r *revocation) each(ctx context.Context, ids []string) error {
	for _, id := range ids {
		err := r.revoke(ctx, id)
		if errors.Is(err, storage.ErrNotFound) {
			r.unknown = append(r.unknown, id)
			continue
		}
		if err = r.damaged.without(err); err != nil {
			return err
		}
	}
	return nil
}

// all revokes the grants that match. One that has ended meanwhile needs nothing.
func (r *revocation) all(ctx context.Context, f admin.GrantFilter) error {
	for g, err := range admin.Grants(ctx, r.store, f) {
		if err == nil {
			err = r.revoke(ctx, g.ID)
		}
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err = r.damaged.without(err); err != nil {
			return err
		}
	}
	return nil
}

func (r *revocation) revoke(ctx context.Context, id string) error {
	g, ended, err := admin.RevokeGrant(ctx, r.store, id)
	switch {
	case err != nil:
		return err
	case !ended:
		r.before++
		return nil
	}
	r.ended++
	if r.list == nil {
		return nil
	}
	return r.list.add(ctx, g)
}

// tell ends the list of what was revoked, or says how many there were. An array that ended
// early is not closed, and nothing is said of nothing.
func (r *revocation) tell(w io.Writer, complete bool) error {
	if r.list != nil {
		return r.list.end(complete)
	}
	if !complete && r.ended+r.before == 0 {
		return nil
	}
	before := ""
	if r.before > 0 {
		before = fmt.Sprintf("; %d had been revoked before", r.before)
	}
	_, err := fmt.Fprintf(w, "revoked %s%s\n", counted(r.ended, "grant"), before)
	return err
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (r *revocation) unknownIDs() error {
	errs := make([]error, len(r.unknown))
	for i, id := range r.unknown {
		errs[i] = fmt.Errorf("there is no grant with the id %s", wordOf(id))
	}
	return errors.Join(errs...)
}
