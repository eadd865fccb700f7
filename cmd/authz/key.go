package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// keyVerbs administer the signing keys, and the seals on records. A running server sees a change
// of its signing keys within about a minute.
type keyVerbs struct {
	Ls          keyLs          `cmd:"" help:"List the signing keys."`
	Rotate      keyRotate      `cmd:"" help:"Make the next signing key."`
	Revoke      keyRevoke      `cmd:"" help:"Destroy a signing key; tokens that it signed are refused."`
	Reseal      keyReseal      `cmd:"" help:"Seal everything in the store under the first master key."`
	SealRecords keySealRecords `cmd:"" help:"Seal every record from now on; run it when every server has a release that supports it. It cannot be undone."`
}

type keyLs struct {
	storeSettings
	JSON bool `name:"json" help:"Print the records as a JSON array."`
}

// Run lists the keys.
func (v *keyLs) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	keys, err := admin.Keys(ctx, store)
	switch {
	case err != nil:
		return err
	case v.JSON:
		return p.printJSON(keys)
	}
	return p.printKeys(keys)
}

func (p *program) printKeys(keys []admin.Key) error {
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KID\tSTATE\tALGORITHM\tCREATED\tACTIVATED\tRETIRED")
	for _, r := range keys {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.State, r.Algorithm, moment(r.Created), moment(r.Activated), moment(r.Retired))
	}
	return table.Flush()
}

// moment returns a time in RFC 3339, a dash for the zero time.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.RFC3339)
}

// newKeySettings are the settings of a verb that may make a key.
type newKeySettings struct {
	storeSettings
	SigningAlgorithm string `placeholder:"ALG" help:"Algorithm of the new key: ES256, EdDSA or RS256 (default: that of the active key)."`
}

type keyRotate struct {
	newKeySettings
	Now  bool `help:"Let the new key sign at once, before others have fetched it."`
	JSON bool `name:"json" help:"Print the record as JSON."`
}

// Run makes the next key.
func (v *keyRotate) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	key, err := admin.RotateSigningKey(ctx, store, v.SigningAlgorithm, v.Now)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return errors.New("there are no signing keys yet: the server makes the first one when it starts")
	case err != nil:
		return err
	case v.JSON:
		return p.printJSON(admin.KeyOf(key))
	case v.Now:
		_, err = fmt.Fprintf(p.stdout, "%s signs now\n", key.ID)
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s is pending since %s: a running server lets it sign when it has been published long enough\n", key.ID, moment(key.Created.UTC()))
	return err
}

type keyRevoke struct {
	newKeySettings
	KID string `arg:"" name:"kid" help:"The id of the key."`
}

// Run destroys a key.
func (v *keyRevoke) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	active, err := admin.RevokeSigningKey(ctx, store, v.SigningAlgorithm, v.KID)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("there is no signing key with the id %s: authz key ls lists them", wordOf(v.KID))
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "revoked %s; %s signs now\n", v.KID, active.ID)
	return err
}
