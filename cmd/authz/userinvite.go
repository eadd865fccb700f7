package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz/admin"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/storage"
)

type userInvite struct {
	storeSettings
	Name string            `arg:"" help:"The name that the person types to sign in."`
	For  settings.Duration `default:"7d" placeholder:"TIME" help:"How long the link works, 1m to 31d (default ${default})."`
	JSON bool              `name:"json" help:"Print the link as JSON."`
}

// Run adds a person without a password, and prints a one-time link.
func (v *userInvite) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	link, err := admin.Invite(ctx, store, v.Name, admin.Link{For: time.Duration(v.For)})
	if errors.Is(err, storage.ErrConflict) {
		return fmt.Errorf("there is already a person with the name %s: authz user reset makes a new link for them", v.Name)
	}
	if err != nil {
		return err
	}
	return p.printLink(link, v.Issuer, v.JSON)
}

type userReset struct {
	storeSettings
	Name             string            `arg:"" help:"The name of the person."`
	For              settings.Duration `default:"7d" placeholder:"TIME" help:"How long the link works, 1m to 31d (default ${default})."`
	DropSecondFactor bool              `help:"Remove the second factor too, for a person who has lost it. Otherwise the link leads to its code."`
	DropPasskeys     bool              `help:"Remove the passkeys too, for a person who has lost a device."`
	JSON             bool              `name:"json" help:"Print the link as JSON."`
}

// Run ends the password and the sessions of a person, and prints a one-time link.
func (v *userReset) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	link, err := admin.Reset(ctx, store, v.Name, admin.Link{
		For: time.Duration(v.For), DropSecondFactor: v.DropSecondFactor, DropPasskeys: v.DropPasskeys,
	})
	if errors.Is(err, storage.ErrNotFound) {
		return noPerson(v.Name)
	}
	if err != nil {
		return err
	}
	return p.printLink(link, v.Issuer, v.JSON)
}

// printLink prints a one-time link. Nothing else has its token.
func (p *program) printLink(link admin.OneTimeLink, issuer string, asJSON bool) error {
	if asJSON {
		return p.printJSON(struct {
			admin.User
			Link    string    `json:"link"`
			Expires time.Time `json:"expires"`
		}{admin.UserOf(link.User), link.Address(issuer), link.Expires})
	}
	_, err := fmt.Fprintf(p.stdout, "%s\nThe link is for %s, works once, and ends at %s.\n", link.Address(issuer), link.User.Name, moment(link.Expires))
	return err
}

// adviseOnPeople logs how to add the first person, as long as nobody can sign in: not with
// providers, where whoever may come in gets an account, and not where the command could not work.
func (s *serveSettings) adviseOnPeople(ctx context.Context, store *storage.Store, log *slog.Logger) error {
	if s.Store.Embedded() || len(s.SignIn.Providers) > 0 {
		return nil // other programs cannot reach an embedded store; with --dev there is somebody
	}
	for _, err := range store.Users(ctx) {
		if errors.Is(err, storage.ErrRecord) {
			return nil // somebody, whose record is damaged
		}
		return err
	}
	log.Warn("nobody can sign in yet: run authz user invite NAME with the store, issuer and master keys of this server, and open the link that it prints")
	return nil
}
