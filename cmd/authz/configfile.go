package main

import (
	"gatehouse.example/authz"
	"gatehouse.example/cmd/authz/internal/settings"
)

// resourcesIn reads the list resources. It is read apart from the other settings because it may
// name files with secrets, which only serve needs to open.
func resourcesIn(d *settings.Document) ([]authz.Resource, error) {
	return settings.Listed(d, "resources", resourceIn)
}

func resourceIn(d *settings.Document, f settings.Field) authz.Resource {
	keys := d.Section(f, "a resource", []string{"uri", "name", "default", "scopes", "default-scopes", "introspection", "allow", "claims"})
	var r authz.Resource
	for key, value := range keys {
		switch key {
		case "uri":
			r.URI = d.Text(value, key)
		case "name":
			r.Name = d.Text(value, key)
		case "default":
			r.Default = d.Truth(value, key)
		case "scopes":
			r.Scopes = scopesIn(d, value)
		case "default-scopes":
			r.DefaultScopes = d.Texts(value, key)
		case "introspection":
			r.Introspection = introspectionIn(d, value)
		case "allow":
			r.Allow = allowIn(d, value)
		case "claims":
			r.Claims = d.Texts(value, key)
		}
	}
	if _, ok := keys["uri"]; !ok {
		d.Fail(f.Line, "a resource needs the key \"uri\"")
	}
	return r
}

// scopesIn reads a mapping from scope to its description, or to a mapping with the description and
// who may have it, in the order of the file. A mapping in
// braces is a mistake: the parser cuts notes:read in braces at its first colon.
func scopesIn(d *settings.Document, f settings.Field) []authz.Scope {
	if braced, _ := f.Braced(); braced {
		d.Fail(f.Line, "scopes must not be in braces: write each scope on a line of its own")
		return nil
	}
	var out []authz.Scope
	for _, pair := range d.Pairs(f, "scopes") {
		out = append(out, scopeIn(d, pair))
	}
	return out
}

func introspectionIn(d *settings.Document, f settings.Field) *authz.IntrospectionClient {
	keys := d.Section(f, "introspection", []string{"client-id", "client-secret", "client-secret-file"})
	var c authz.IntrospectionClient
	if id, ok := keys["client-id"]; ok {
		c.ID = d.Text(id, "client_id")
	}
	_, ownGiven := keys["client-secret"]
	_, fileGiven := keys["client-secret-file"]
	if !ownGiven && !fileGiven {
		d.Fail(f.Line, "introspection needs client_secret or client_secret_file")
	}
	c.Secret = d.ClientSecret(keys)
	return &c
}
