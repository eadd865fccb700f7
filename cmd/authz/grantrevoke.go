package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

type grantRevoke struct {
	grantSettings
	All bool     `help:"Every grant of everybody, also in a backup that no server has opened yet."`
	IDs []string `arg:"" optional:"" name:"id" help:"The ids of grants, as ls prints them; write -- before the first if one begins with a dash."`
}

// Run revokes grants. It prints which or how many were revoked even if others failed.
func (v *grantRevoke) Run(ctx context.Context, p *program, k *kong.Context) error {
	if _, err := p.loadStore(k); err != nil {
		return err
	}
	if err := v.misnamed(); err != nil {
		return usageError{err}
	}
	var o storeOptions
	if v.All {
		o.restore = func(sentence string) { fmt.Fprintf(p.stderr, "authz: %s\n", sentence) }
	}
	store, err := v.openWith(ctx, p, o)
	if err != nil {
		return err
	}
	defer store.Close()
	r := &revocations{damaged: unreadable{kind: "grant"}}
	if v.JSON {
		r.list = p.grantList(store, true)
	}
	if len(v.IDs) > 0 {
		err = r.collect(ctx, admin.RevokeGrantsByID(ctx, store, v.IDs))
	} else {
		err = v.explain(r.collect(ctx, admin.RevokeGrants(ctx, store, v.filter())))
	}
	return errors.Join(r.print(p.stdout, err == nil), err, r.unknownIDs(), r.damaged.error())
}

// misnamed returns an error unless the grants are named in exactly one way.
func (v *grantRevoke) misnamed() error {
	switch {
	case len(v.IDs) > 0 && v.filter() != admin.GrantFilter{}:
		return errors.New("grants are named by their ids, or with --user, --client and --resource, not both")
	case v.All && (len(v.IDs) > 0 || v.filter() != admin.GrantFilter{}):
		return errors.New("--all is every grant: give nothing beside it")
	case !v.All && len(v.IDs) == 0 && v.User == "" && v.Client == "":
		return errors.New("no grant is named: give ids of grants, a person with --user, a client with --client, or --all")
	}
	return nil
}

// revocations are the results of revoking several grants.
type revocations struct {
	list    *grantList // nil unless the records are printed
	ended   int
	before  int      // number of grants that were revoked earlier
	unknown []string // ids without a grant
	damaged unreadable
}

// collect reads the results, which revokes the grants. It goes on after ids without a grant
// and after records that cannot be read.
func (r *revocations) collect(ctx context.Context, results iter.Seq2[admin.Revocation, error]) error {
	for result, err := range results {
		if err == nil {
			err = r.add(ctx, result)
		}
		if errors.Is(err, storage.ErrNotFound) {
			r.unknown = append(r.unknown, result.Grant.ID)
			continue
		}
		if err = r.damaged.without(err); err != nil {
			return err
		}
	}
	return nil
}

func (r *revocations) add(ctx context.Context, result admin.Revocation) error {
	if !result.Ended {
		r.before++
		return nil
	}
	r.ended++
	if r.list == nil {
		return nil
	}
	return r.list.add(ctx, result.Grant)
}

// print ends the list of revoked grants, or prints their number. After an error it leaves a
// JSON array open, and prints no number if no grant was revoked.
func (r *revocations) print(w io.Writer, complete bool) error {
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

// counted returns a number with its noun, such as "1 grant" or "2 grants".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (r *revocations) unknownIDs() error {
	errs := make([]error, len(r.unknown))
	for i, id := range r.unknown {
		errs[i] = fmt.Errorf("there is no grant with the id %s: authz grant ls lists them", wordOf(id))
	}
	return errors.Join(errs...)
}
