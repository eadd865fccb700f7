package main

import (
	"context"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

type clientVouch struct {
	storeSettings
	ID  string `arg:"" help:"The client_id."`
	Off bool   `help:"Vouch for it no more."`
}

// Run vouches for a client as it is now, or takes that back.
func (v *clientVouch) Run(ctx context.Context, p *program, k *kong.Context) error {
	done := "vouched for"
	if v.Off {
		done = "no longer vouched for"
	}
	return p.changeClient(ctx, k, &v.storeSettings, v.ID, done, func(ctx context.Context, store *storage.Store, id string) error {
		return admin.VouchForClient(ctx, store, id, !v.Off)
	})
}
