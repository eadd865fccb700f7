package main

import (
	"context"
	"fmt"
	"strings"

	"gatehouse.example/authz"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/storage"
)

// serverFile is what a verb about resources knows from the file of the server.
type serverFile struct {
	resources []authz.Resource
	known     bool // there is a file, whose resources could be read
	groups    map[string][]string
	// providers are those of the file with id and preset only, without secrets; nil if they are not
	// known.
	providers []upstream.Provider
	given     bool // there is a file, whose groups could be read
}

// readPeople reads the names of groups and providers. What cannot be read is not known: the server
// reports mistakes.
func (f *serverFile) readPeople(d *settings.Document) {
	groups, err := groupsIn(d)
	f.groups, f.given = groups, err == nil
	before := d.Failures()
	providers := []upstream.Provider{}
	if section, ok := d.Values["sign-in"]; ok {
		if list, ok := d.Section(section, "sign-in", signInKeys)["providers"]; ok {
			for _, element := range d.Elements(list, "providers") {
				providers = append(providers, namedProvider(d, element))
			}
		}
	}
	if d.Failures() == before && f.given {
		f.providers = providers
	}
}

// namedProvider reads what names a provider, and opens no file with a secret.
func namedProvider(d *settings.Document, f settings.Field) (p upstream.Provider) {
	for key, value := range d.Section(f, "a provider", providerKeys) {
		switch key {
		case "id":
			p.ID = d.Text(value, key)
		case "preset":
			p.Preset = d.Text(value, key)
		case "name":
			p.Name = d.Text(value, key)
		case "claims":
			p.Claims.Groups = "of the file"
		}
	}
	return p
}

// emptyRules returns a sentence for each group that a resource names and that nobody is in, and for
// each person whom no provider can sign in, as far as the store and the file tell.
func (f serverFile) emptyRules(ctx context.Context, store *storage.Store, r authz.Resource) (warnings []string, err error) {
	empty, err := authz.EmptyGroups(ctx, authz.GroupSources{Store: store, Groups: f.groups, Providers: f.providers}, r)
	for _, g := range empty {
		why := g.Why
		if !f.given && !strings.Contains(g.Group, "/") {
			why += ", or name the file of the server with --config if the group is in it"
		}
		warnings = append(warnings, fmt.Sprintf("nobody is in the group %s: %s", wordOf(g.Group), why))
	}
	for _, p := range authz.AbsentPeople(f.providers, r) {
		warnings = append(warnings, fmt.Sprintf("nobody can be the person %s: %s", wordOf(p.Person), p.Why))
	}
	return warnings, err
}

// warnOfRules prints what emptyRules returns. The resource is stored all the same: a group may be
// made afterwards.
func (p *program) warnOfRules(ctx context.Context, store *storage.Store, f serverFile, r authz.Resource) error {
	warnings, err := f.emptyRules(ctx, store, r)
	for _, warning := range warnings {
		fmt.Fprintf(p.stderr, "authz: warning: %s\n", warning)
	}
	return err
}
