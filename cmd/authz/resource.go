package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/storage"
)

// resourceVerbs administer the resources in the store. Running servers see a change within
// seconds. With --config they also read the resources of the file, which count before those in
// the store.
type resourceVerbs struct {
	Add     resourceAdd     `cmd:"" help:"Add a server that tokens are for, or a pattern for many."`
	Ls      resourceLs      `cmd:"" help:"List the resources in the store, the oldest first."`
	Show    resourceShow    `cmd:"" help:"Print the record of a resource, or the introspection credential of one URI of a pattern."`
	Check   resourceCheck   `cmd:"" help:"Say whether tokens are issued for a URI, and by which entry."`
	Disable resourceDisable `cmd:"" help:"Take a resource out of use: its tokens are inactive, and none are issued."`
	Enable  resourceEnable  `cmd:"" help:"Put a disabled resource into use again."`
	Rm      resourceRm      `cmd:"" help:"Remove a resource; what people allowed for it does not come back."`
}

type resourceAdd struct {
	storeSettings
	URI                     string   `arg:"" help:"Its URI, or a pattern such as https://mcp.example.com/{tenant}/mcp, where a name in braces stands for one segment of the path."`
	Name                    string   `help:"The name that people see at consent."`
	Scope                   []string `sep:"none" placeholder:"NAME=DESCRIPTION" help:"A scope with the sentence that people read; repeatable, in this order."`
	DefaultScope            []string `placeholder:"NAME" help:"A scope of requests that name none; repeatable (default: all)."`
	Introspection           bool     `help:"Let it introspect tokens, with its URI as client_id and a secret that is drawn and printed once."`
	IntrospectionSecretFile string   `placeholder:"FILE" help:"The same, with the secret in this file. For a pattern, each URI has a secret of its own that is derived from it."`
	AllowGroup              []string `placeholder:"GROUP" help:"A group of people who may use it, such as staff, or company/staff of a provider; repeatable (default: everybody)."`
	AllowPerson             []string `placeholder:"NAME" help:"A person who may use it; repeatable. With groups too, a person must be among both."`
	AllowScopeGroup         []string `sep:"none" placeholder:"SCOPE=GROUP" help:"A group of people who may have a scope; repeatable."`
	AllowScopePerson        []string `sep:"none" placeholder:"SCOPE=NAME" help:"A person who may have a scope; repeatable."`
	Claim                   []string `placeholder:"CLAIM" help:"What it learns about people: groups, email, name; repeatable (default: nothing)."`
	Disabled                bool     `help:"Add it out of use. For a URI that a pattern covers: take that URI out."`
	Replace                 bool     `help:"Replace the one that is there. What people allowed stays, and so does its secret unless another is given."`
	JSON                    bool     `name:"json" help:"Print the record as JSON."`
}

// Run adds a resource.
func (v *resourceAdd) Run(ctx context.Context, p *program, k *kong.Context) error {
	file, err := p.loadResources(k)
	if err != nil {
		return err
	}
	resource, err := v.resource()
	if err != nil {
		return usageError{err}
	}
	store, err := v.open(ctx, p)
	if err != nil {
		return err
	}
	defer store.Close()
	drawn, err := v.credential(store, &resource)
	if err != nil {
		return err
	}
	r, err := authz.AddResource(ctx, store, authz.NewResource{Resource: resource, Disabled: v.Disabled, Replace: v.Replace, Configured: file.resources})
	switch {
	case errors.Is(err, storage.ErrConflict):
		return fmt.Errorf("there is already a resource %s: change it with --replace, or remove it with authz resource rm", wordOf(resource.URI))
	case errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("there is no resource %s to replace: leave out --replace", wordOf(resource.URI))
	case err != nil:
		return err
	}
	if v.JSON {
		err = p.printJSON(struct {
			admin.Resource
			Secret string `json:"introspection_secret,omitempty"`
		}{admin.ResourceOf(r), drawn})
	} else {
		err = p.printAdded(r, drawn)
	}
	return errors.Join(err, p.warnOfRules(ctx, store, file, resource)) // last, because the secret is not shown again
}

func (p *program) printAdded(r storage.Resource, drawn string) error {
	view := admin.ResourceOf(r)
	fmt.Fprintf(p.stdout, "added %s; running servers see it within seconds\n", wordOf(r.URI))
	switch {
	case view.Introspects && view.Pattern:
		fmt.Fprintln(p.stdout, "introspection:  each URI has itself as client_id, and a secret of its own: authz resource show URI --credential prints it")
	case view.Introspects:
		fmt.Fprintf(p.stdout, "client_id:      %s\n", wordOf(r.URI))
	}
	if drawn != "" {
		fmt.Fprintf(p.stdout, "%s %s (it is not shown again)\n", map[bool]string{false: "client_secret: ", true: "pattern secret:"}[view.Pattern], drawn)
	}
	return nil
}

// resource returns the resource that the flags describe.
func (v *resourceAdd) resource() (authz.Resource, error) {
	r := authz.Resource{
		URI: v.URI, Name: v.Name, DefaultScopes: v.DefaultScope, Claims: v.Claim,
		Allow: authz.Allow{Groups: v.AllowGroup, People: v.AllowPerson},
	}
	if id, err := authz.ResourceID(v.URI); err == nil && !strings.Contains(v.URI, "{") {
		r.URI = id
	}
	for _, text := range v.Scope {
		name, description, ok := strings.Cut(text, "=")
		if !ok || name == "" || description == "" {
			return r, fmt.Errorf("--scope %q: write it like notes:read='Read your notes'", text)
		}
		r.Scopes = append(r.Scopes, authz.Scope{Name: name, Description: description})
	}
	err := scopeAllows(r.Scopes, "--allow-scope-group", v.AllowScopeGroup, func(a *authz.Allow) *[]string { return &a.Groups })
	if err == nil {
		err = scopeAllows(r.Scopes, "--allow-scope-person", v.AllowScopePerson, func(a *authz.Allow) *[]string { return &a.People })
	}
	return r, err
}

// scopeAllows adds the values of a flag, SCOPE=NAME each, to a list of the scopes that they name.
func scopeAllows(scopes []authz.Scope, flag string, texts []string, list func(*authz.Allow) *[]string) error {
	for _, text := range texts {
		name, who, ok := strings.Cut(text, "=")
		i := slices.IndexFunc(scopes, func(s authz.Scope) bool { return s.Name == name })
		if !ok || who == "" || i < 0 {
			return fmt.Errorf("%s %q: write it like notes:admin=admins, with a scope of --scope", flag, text)
		}
		to := list(&scopes[i].Allow)
		*to = append(*to, who)
	}
	return nil
}

// resourceSecretPrefix begins the introspection secrets that are drawn.
const resourceSecretPrefix = "gate_rs_"

// credential sets the introspection secret of a resource, and returns it if it was drawn.
func (v *resourceAdd) credential(store *storage.Store, r *authz.Resource) (drawn string, err error) {
	secret := ""
	switch {
	case v.Introspection && v.IntrospectionSecretFile != "":
		return "", usageError{errors.New("--introspection and --introspection-secret-file are both set: keep one")}
	case v.Introspection:
		drawn, err = store.NewSecret(resourceSecretPrefix)
		secret = drawn
	case v.IntrospectionSecretFile != "":
		secret, err = settings.SecretFrom(v.IntrospectionSecretFile)
		if err == nil && utf8.RuneCountInString(secret) < goodResourceSecret {
			err = fmt.Errorf("it has fewer than %d characters: make one with openssl rand -base64 32", goodResourceSecret)
		}
		if err != nil {
			err = fmt.Errorf("introspection-secret-file: %w", err)
		}
	}
	if err == nil && secret != "" {
		r.Introspection = &authz.IntrospectionClient{Secret: secret}
		if !strings.Contains(r.URI, "{") {
			r.Introspection.ID = r.URI
		}
	}
	return drawn, err
}

// goodResourceSecret is the least number of characters of an introspection secret.
const goodResourceSecret = 32

type resourceLs struct {
	storeSettings
	JSON bool `name:"json" help:"Print the records as a JSON array."`
}

// Run lists the resources in the store, and warns of those that do not count.
func (v *resourceLs) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, file, err := p.resourceStore(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	list := newRecordList(p.stdout, v.JSON, "URI\tNAME\tSTATE\tSCOPES\tINTROSPECTS\tALLOWED\tCREATED", resourceLine)
	damaged := &unreadable{kind: "resource"}
	for r, err := range admin.Resources(ctx, store) {
		if err == nil {
			err = list.print(r)
		}
		if err = damaged.without(err); err != nil {
			return errors.Join(err, list.end(false))
		}
	}
	if err := errors.Join(list.end(true), damaged.error()); err != nil {
		return err
	}
	all, err := authz.ReadResources(ctx, store, file.resources)
	if err != nil {
		return err
	}
	for _, problem := range all.Problems() {
		fmt.Fprintf(p.stderr, "authz: warning: %s: %s\n", wordOf(problem.URI), problem.Why)
	}
	return nil
}

func resourceLine(r admin.Resource) string {
	var scopes []string
	for _, s := range r.Scopes {
		scopes = append(scopes, s.Name)
	}
	introspects, allowed := "no", "everybody"
	if r.Introspects {
		introspects = "yes"
	}
	if r.Allow != nil {
		allowed = wordsOf(slices.Concat(r.Allow.Groups, r.Allow.People))
	}
	return strings.Join([]string{wordOf(r.URI), quoted(r.Name), r.State, wordsOf(scopes), introspects, allowed, moment(r.Created)}, "\t")
}
