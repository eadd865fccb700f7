package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// resourceStore opens the store of a verb, and reads the resources of the file if there is one.
// If they cannot be read, for example because they name files with secrets that only the server
// may open, the verb goes on without them and says so.
func (p *program) resourceStore(ctx context.Context, k *kong.Context, s *storeSettings) (*storage.Store, serverFile, error) {
	file, err := p.loadResources(k)
	if err != nil {
		return nil, serverFile{}, err
	}
	store, err := s.open(ctx, p)
	return store, file, err
}

// loadResources sets the settings of a verb for resources, and returns what the file of the server
// says about them.
func (p *program) loadResources(k *kong.Context) (file serverFile, err error) {
	d, err := p.loadStore(k)
	if err != nil {
		return serverFile{}, err
	}
	if d != nil {
		file.resources, err = resourcesIn(d)
		if file.known = err == nil; err != nil {
			fmt.Fprintf(p.stderr, "authz: warning: the resources of the file are left out, because they cannot be read: %v\n", err)
			file.resources = nil
		}
		file.readPeople(d)
	}
	return file, nil
}

type resourceShow struct {
	storeSettings
	URI        string `arg:"" help:"Its URI, or the pattern."`
	Credential bool   `help:"Print the introspection credential of this URI, which a pattern covers."`
	JSON       bool   `name:"json" help:"Accepted for uniformity: the output is always JSON."`
}

// Run prints a resource, or a credential.
func (v *resourceShow) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, file, err := p.resourceStore(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	list, err := authz.ReadResources(ctx, store, file.resources)
	if err != nil {
		return err
	}
	if v.Credential {
		return p.printCredential(list, v.URI)
	}
	id, err := authz.ResourceID(v.URI)
	if err != nil {
		return err
	}
	r, err := admin.FindResource(ctx, store, id)
	if err != nil {
		return noResource(list, v.URI, err)
	}
	return p.printJSON(admin.ResourceOf(r))
}

func (p *program) printCredential(list authz.ResourceList, uri string) error {
	m, ok, err := list.Lookup(uri)
	switch {
	case err != nil && strings.Contains(uri, "{"):
		return fmt.Errorf("%s is a pattern: name one of its URIs, each has a credential of its own", wordOf(uri))
	case err != nil:
		return err
	case !ok:
		return noResource(list, uri, storage.ErrNotFound)
	case m.ClientID == "":
		return fmt.Errorf("%s cannot introspect: give %s a secret with authz resource add --replace --introspection", wordOf(uri), wordOf(m.Entry))
	case !m.Pattern:
		return fmt.Errorf("the secret of %s is not known here, only whether one is right: give it another one with authz resource add --replace --introspection", wordOf(uri))
	}
	return p.printJSON(map[string]string{"client_id": m.ClientID, "client_secret": m.DerivedSecret})
}

// noResource replaces the error for a resource that does not exist by a sentence with the next
// step.
func noResource(list authz.ResourceList, uri string, err error) error {
	if !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	m, ok, lookupErr := list.Lookup(uri)
	switch {
	case lookupErr != nil || !ok:
		return fmt.Errorf("there is no resource %s in the store: authz resource ls lists them", wordOf(uri))
	case m.Pattern:
		return fmt.Errorf("there is no resource %s in the store, but the pattern %s covers it: authz resource add %[1]s --disabled takes this URI out of use", wordOf(m.Resource.URI), wordOf(m.Entry))
	}
	return fmt.Errorf("the resource %s is in the configuration and not in the store: change it there", wordOf(uri))
}

type resourceCheck struct {
	storeSettings
	URI  string `arg:"" help:"The resource parameter of a client."`
	JSON bool   `name:"json" help:"Print the answer as JSON."`
}

// checkedResource is the answer of resource check.
type checkedResource struct {
	Accepted      bool                  `json:"accepted"`
	Why           string                `json:"why,omitempty"` // not accepted
	URI           string                `json:"uri"`
	Entry         string                `json:"entry,omitempty"`
	Pattern       bool                  `json:"pattern"`
	From          string                `json:"from,omitempty"` // "store" or "file"
	Name          string                `json:"name,omitempty"`
	Scopes        []admin.ResourceScope `json:"scopes,omitempty"`
	DefaultScopes []string              `json:"default_scopes,omitempty"`
	Allow         *authz.Allow          `json:"allow,omitempty"`
	ClientID      string                `json:"introspection_client_id,omitempty"`
	Warnings      []string              `json:"warnings,omitempty"`
}

// Run says whether the server accepts a resource parameter.
func (v *resourceCheck) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, file, err := p.resourceStore(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	list, err := authz.ReadResources(ctx, store, file.resources)
	if err != nil {
		return err
	}
	answer := checkResource(list, v.URI, file.known)
	if m, ok, _ := list.Lookup(v.URI); ok {
		if answer.Warnings, err = file.emptyRules(ctx, store, m.Resource); err != nil {
			return err
		}
	}
	if v.JSON {
		err = p.printJSON(answer)
	} else if answer.Accepted {
		err = p.printChecked(answer)
	}
	if err == nil && !answer.Accepted {
		err = errors.New(answer.Why)
	}
	return err
}

// outOfUse says why a resource of the store is out of use, and what ends that. One that has a mistake
// may be disabled as well.
func outOfUse(list authz.ResourceList, m authz.ResourceMatch) string {
	uri, enable := wordOf(m.Resource.URI), "authz resource enable "+wordOf(m.Entry)+" ends that"
	for _, problem := range list.Problems() {
		if problem.URI == m.Entry {
			return fmt.Sprintf("%s is out of use: %s; if it is disabled, %s", uri, problem.Why, enable)
		}
	}
	return fmt.Sprintf("%s is out of use: %s", uri, enable)
}

// checkResource returns the answer by a list in which are the resources of the file if inFile.
func checkResource(list authz.ResourceList, uri string, inFile bool) checkedResource {
	answer := checkedResource{URI: uri}
	m, ok, err := list.Lookup(uri)
	switch {
	case err != nil && strings.Contains(uri, "{"):
		answer.Why = wordOf(uri) + " is a pattern, which no client can name: check one of its URIs"
		return answer
	case err != nil:
		answer.Why = fmt.Sprintf("%s is not a resource: %s", wordOf(uri), strings.TrimPrefix(err.Error(), "metadata: "))
		return answer
	case !ok && inFile:
		answer.Why = wordOf(uri) + " is neither in the file nor in the store: list it in the file, or add it with authz resource add"
		return answer
	case !ok:
		answer.Why = fmt.Sprintf("%s is not known: add it with authz resource add, or name the file of the server with --config if it lists it", wordOf(uri))
		return answer
	}
	answer.Accepted, answer.URI, answer.Entry, answer.Pattern, answer.From = !m.Disabled, m.Resource.URI, m.Entry, m.Pattern, "file"
	if m.Stored {
		answer.From = "store"
	}
	if m.Disabled {
		answer.Why = outOfUse(list, m)
	}
	answer.Name, answer.DefaultScopes, answer.ClientID = m.Resource.Name, m.Resource.DefaultScopes, m.ClientID
	if a := m.Resource.Allow; len(a.Groups)+len(a.People) > 0 {
		answer.Allow = &a
	}
	for _, s := range m.Resource.Scopes {
		view := admin.ResourceScope{Name: s.Name, Description: s.Description}
		if a := storage.Allow(s.Allow); len(a.Groups)+len(a.People) > 0 {
			view.Allow = &a
		}
		answer.Scopes = append(answer.Scopes, view)
	}
	return answer
}

func (p *program) printChecked(c checkedResource) error {
	var text strings.Builder
	line := func(label, value string) { fmt.Fprintf(&text, "  %-14s %s\n", label, value) }
	fmt.Fprintf(&text, "%s is accepted.\n", wordOf(c.URI))
	entry := map[bool]string{false: "itself", true: "the pattern " + wordOf(c.Entry)}[c.Pattern]
	line("entry", entry+", in the "+c.From)
	line("name", quoted(c.Name))
	for _, s := range c.Scopes {
		line("scope", wordOf(s.Name)+" "+quoted(s.Description))
	}
	if len(c.DefaultScopes) > 0 {
		line("default", wordsOf(c.DefaultScopes))
	}
	if c.Allow != nil {
		line("allowed", wordsOf(append(append([]string{}, c.Allow.Groups...), c.Allow.People...)))
	}
	line("clients send", "resource="+wordOf(c.URI))
	if c.ClientID != "" {
		line("introspects as", wordOf(c.ClientID))
	} else {
		line("introspects as", "- (it cannot)")
	}
	for _, warning := range c.Warnings {
		line("warning", warning)
	}
	_, err := fmt.Fprint(p.stdout, text.String())
	return err
}

type resourceDisable struct {
	storeSettings
	URI string `arg:"" help:"Its URI, or the pattern."`
}

// Run takes a resource out of use.
func (v *resourceDisable) Run(ctx context.Context, p *program, k *kong.Context) error {
	return p.changeResource(ctx, k, &v.storeSettings, v.URI, "disabled", admin.DisableResource)
}

type resourceEnable struct {
	storeSettings
	URI string `arg:"" help:"Its URI, or the pattern."`
}

// Run puts a resource into use again.
func (v *resourceEnable) Run(ctx context.Context, p *program, k *kong.Context) error {
	return p.changeResource(ctx, k, &v.storeSettings, v.URI, "enabled", admin.EnableResource)
}

type resourceRm struct {
	storeSettings
	URI string `arg:"" help:"Its URI, or the pattern."`
}

// Run removes a resource.
func (v *resourceRm) Run(ctx context.Context, p *program, k *kong.Context) error {
	return p.changeResource(ctx, k, &v.storeSettings, v.URI, "removed", admin.RemoveResource)
}

// changeResource applies change to one resource and prints done with its URI. It says so if a
// pattern covers a URI that was removed.
func (p *program) changeResource(ctx context.Context, k *kong.Context, s *storeSettings, uri, done string,
	change func(context.Context, *storage.Store, string) error) error {
	id, err := authz.ResourceID(uri)
	if err != nil {
		return err
	}
	store, file, err := p.resourceStore(ctx, k, s)
	if err != nil {
		return err
	}
	defer store.Close()
	changed := change(ctx, store, id)
	if changed != nil && !errors.Is(changed, storage.ErrNotFound) {
		return changed
	}
	list, err := authz.ReadResources(ctx, store, file.resources)
	if err != nil {
		return errors.Join(changed, err)
	}
	if changed != nil {
		return noResource(list, uri, changed)
	}
	fmt.Fprintf(p.stdout, "%s %s; running servers see it within seconds\n", done, wordOf(uri))
	if m, ok, err := list.Lookup(uri); err == nil && ok && done == "removed" && !m.Disabled {
		fmt.Fprintf(p.stdout, "tokens for it can still be issued, by the entry %s: authz resource add %s --disabled takes it out of use\n", wordOf(m.Entry), wordOf(m.Resource.URI))
	}
	return nil
}
