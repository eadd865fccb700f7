package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz/admin"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// clientVerbs administer the clients in the store. A running server sees a change within
// seconds, and on its pages at once.
type clientVerbs struct {
	Add     clientAdd     `cmd:"" help:"Add a client that you know, and print its credentials."`
	Ls      clientLs      `cmd:"" help:"List clients; those of one software are one line."`
	Show    clientShow    `cmd:"" help:"Print the record of a client."`
	Vouch   clientVouch   `cmd:"" help:"Vouch for a client that registered itself, as it is now."`
	Disable clientDisable `cmd:"" help:"Lock a client out and revoke what it was granted."`
	Rm      clientRm      `cmd:"" help:"Remove a client and revoke what it was granted."`
	Token   clientToken   `cmd:"" help:"Mint an initial access token, for registration: token."`
}

type clientAdd struct {
	storeSettings
	ID          string   `placeholder:"ID" help:"The client_id (default: random)."`
	Name        string   `help:"The name that people see at consent; required."`
	RedirectURI []string `name:"redirect-uri" sep:"none" placeholder:"URI" help:"A redirect URI of the client; repeatable, and required."`
	AuthMethod  string   `default:"none" enum:"none,client_secret_basic,client_secret_post,private_key_jwt" placeholder:"METHOD" help:"How it authenticates: none, client_secret_basic, client_secret_post or private_key_jwt (default ${default})."`
	JWKSFile    string   `name:"jwks-file" placeholder:"FILE" help:"With private_key_jwt: its public keys as a JWK set."`
	JWKSURI     string   `name:"jwks-uri" placeholder:"URL" help:"With private_key_jwt: the URL of its public keys."`
	ClientURI   string   `name:"client-uri" placeholder:"URL" help:"Its home page."`
	LogoURI     string   `name:"logo-uri" placeholder:"URL" help:"Its logo, of the same origin as its home page."`
	JSON        bool     `name:"json" help:"Print the record as JSON."`
}

// Run adds a client.
func (v *clientAdd) Run(ctx context.Context, p *program, k *kong.Context) error {
	if _, err := p.loadStore(k); err != nil {
		return err
	}
	if err := v.mistake(); err != nil {
		return usageError{err}
	}
	keys, err := v.keys()
	if err != nil {
		return err
	}
	store, err := v.open(ctx, p)
	if err != nil {
		return err
	}
	defer store.Close()
	c, err := admin.AddClient(ctx, store, v.ID, metadata.Client{
		ClientName: v.Name, RedirectURIs: v.RedirectURI, TokenEndpointAuthMethod: v.AuthMethod, JWKS: keys, JWKSURI: v.JWKSURI,
		ClientURI: v.ClientURI, LogoURI: v.LogoURI,
	})
	switch {
	case errors.Is(err, storage.ErrConflict):
		return fmt.Errorf("there is already a client with the id %s: give another --id, or remove that one with authz client rm", wordOf(v.ID))
	case err != nil:
		return err
	case v.JSON:
		return p.printJSON(c)
	}
	fmt.Fprintf(p.stdout, "client_id:     %s\n", c.ID)
	if c.Secret != "" {
		fmt.Fprintf(p.stdout, "client_secret: %s (it is not shown again)\n", c.Secret)
	}
	return nil
}

// mistake returns an error if a flag is missing.
func (v *clientAdd) mistake() error {
	switch {
	case v.Name == "":
		return errors.New("name is not set: give the name that people see at consent with --name")
	case len(v.RedirectURI) == 0:
		return errors.New("redirect-uri is not set: give where the client gets its answers with --redirect-uri")
	case v.AuthMethod == metadata.AuthMethodPrivateKeyJWT && v.JWKSFile == "" && v.JWKSURI == "":
		return errors.New("auth-method private_key_jwt needs the public keys of the client: give --jwks-file or --jwks-uri")
	}
	return nil
}

func (v *clientAdd) keys() (json.RawMessage, error) {
	if v.JWKSFile == "" {
		return nil, nil
	}
	text, err := settings.ReadAtMost(v.JWKSFile, 1<<16)
	if err == nil && !json.Valid(text) {
		err = fmt.Errorf("%s is not JSON", v.JWKSFile)
	}
	if err != nil {
		return nil, fmt.Errorf("jwks-file: %w", err)
	}
	return text, nil
}

type clientLs struct {
	storeSettings
	Software string `placeholder:"HASH" help:"Only clients of this software, one line for each."`
	All      bool   `help:"One line for each client, also for those of one software."`
	JSON     bool   `name:"json" help:"Print the records as a JSON array, one element for each client."`
}

// Run lists clients: first those that were never used.
func (v *clientLs) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	list := newRecordList(p.stdout, v.JSON, "CLIENT\tNAME\tSOURCE\tSTATE\tREDIRECTS TO\tCREATED\tLAST USED", clientLine)
	if !v.All && !v.JSON && v.Software == "" {
		list = &softwareList{list: newRecordList(p.stdout, false, "CLIENTS\tNAME\tSOURCE\tSTATE\tREDIRECTS TO\tLATEST\tLAST USED\tSOFTWARE", softwareLine)}
	}
	damaged := &unreadable{kind: "client"}
	for c, err := range admin.Clients(ctx, store, v.Software) {
		if err == nil {
			err = list.print(c)
		}
		if err = damaged.without(err); err != nil {
			return errors.Join(err, list.end(false))
		}
	}
	return errors.Join(list.end(true), damaged.error())
}

func clientLine(r admin.Client) string {
	return strings.Join([]string{
		wordOf(r.ID), quoted(r.ClientName), string(r.Source), r.State, hostsOf(r.RedirectURIs), moment(r.Created), moment(r.LastUsed),
	}, "\t")
}

// hostsOf returns the hosts of redirect URIs, and the private-use schemes.
func hostsOf(uris []string) string {
	var hosts []string
	seen := map[string]bool{}
	for _, raw := range uris {
		uri, err := metadata.ParseRedirect(raw)
		if err != nil || seen[uri.Host()] {
			continue
		}
		seen[uri.Host()] = true
		hosts = append(hosts, uri.Host())
	}
	return wordsOf(hosts)
}

type clientShow struct {
	storeSettings
	ID   string `arg:"" help:"The client_id."`
	JSON bool   `name:"json" help:"Accepted for uniformity: the output is always JSON."`
}

// Run prints a client.
func (v *clientShow) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	c, err := admin.FindClient(ctx, store, v.ID)
	if err != nil {
		return noClient(v.ID, err)
	}
	return p.printJSON(c)
}

// noClient replaces the error for a client that does not exist, or not any more, by a sentence.
func noClient(id string, err error) error {
	var removed *storage.RemovedError
	switch {
	case errors.As(err, &removed):
		return fmt.Errorf("the client %s was removed at %s: %s", wordOf(id), moment(removed.At.UTC()), removed.Because)
	case errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("there is no client with the id %s: authz client ls lists them", wordOf(id))
	}
	return err
}

type clientDisable struct {
	storeSettings
	ID string `arg:"" help:"The client_id."`
}

// Run locks a client out.
func (v *clientDisable) Run(ctx context.Context, p *program, k *kong.Context) error {
	return p.changeClient(ctx, k, &v.storeSettings, v.ID, "disabled", admin.DisableClient)
}

type clientRm struct {
	storeSettings
	ID string `arg:"" help:"The client_id."`
}

// Run removes a client.
func (v *clientRm) Run(ctx context.Context, p *program, k *kong.Context) error {
	return p.changeClient(ctx, k, &v.storeSettings, v.ID, "removed", admin.RemoveClient)
}

// changeClient applies change to one client and prints done with its id.
func (p *program) changeClient(ctx context.Context, k *kong.Context, s *storeSettings, id, done string,
	change func(context.Context, *storage.Store, string) error) error {
	store, err := p.storeOf(ctx, k, s)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := change(ctx, store, id); err != nil {
		return noClient(id, err)
	}
	_, err = fmt.Fprintf(p.stdout, "%s %s\n", done, wordOf(id))
	return err
}

type clientToken struct {
	storeSettings
	Uses    int               `default:"1" placeholder:"N" help:"How many clients may be registered with it (default ${default})."`
	Expires settings.Duration `default:"24h" placeholder:"TIME" help:"How long it is valid (default ${default})."`
	JSON    bool              `name:"json" help:"Print it as JSON."`
}

// Run mints an initial access token.
func (v *clientToken) Run(ctx context.Context, p *program, k *kong.Context) error {
	if v.Uses < 1 || v.Expires <= 0 {
		return usageError{errors.New("--uses must be at least 1, and --expires more than 0: a token allows at least one registration")}
	}
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	expires := time.Now().Add(time.Duration(v.Expires)).UTC().Truncate(time.Second)
	token, err := admin.MintInitialToken(ctx, store, v.Uses, expires)
	switch {
	case err != nil:
		return err
	case v.JSON:
		return p.printJSON(map[string]any{"initial_access_token": token, "uses": v.Uses, "expires": expires})
	}
	_, err = fmt.Fprintln(p.stdout, token)
	return err
}
