package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/registry"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/storage"
)

// An authorization server may carry a registry: on its listener, below a path, over its store.
// The settings that a separate registry has as flags are then under the key registry of the
// file. Shared settings, such as the store, are those of the server.

// separateOnly are the keys that only a separate registry may have.
var separateOnly = []string{"listen", "admin-listen", "tls-cert", "tls-key", "drain", "max-connections", "store", "store-file", "master-keys", "master-keys-file", "issuer", "log-format", "proxy", "proxy-file", "proxy-by-name", "pages"}

// registry returns the registry that the server carries, nil without registry-at, and every
// mistake under the key registry of the file. File may be nil.
func (s *serveSettings) registry(app *kong.Application, file *settings.Document) (*registryServe, error) {
	d := file.Under("registry", registryKeys(app))
	var named []registry.OwnServer
	if servers, ok := d.Values["servers"]; ok {
		named = ownServersIn(d, servers)
	}
	if s.RegistryAt == "" {
		return nil, d.Mistakes()
	}
	for key, value := range d.Values {
		if slices.Contains(separateOnly, key) {
			d.Fail(value.Line, "%s is for a separate registry: leave it out here, or leave out registry-at and start authz registry serve", key)
		}
	}
	v, err := registryFrom(app, d)
	v.named, v.keepsOwn = named, v.ListResources || v.ServersFile != "" || d.Values["servers"] != settings.Field{}
	v.Store, v.MasterKeys = s.Store, s.MasterKeys
	v.proxySettings = s.proxySettings
	if s.Issuer != "" { // else that is reported
		v.Issuer = []string{s.Issuer}
	}
	if v.ListResources {
		v.resources = serversOf(s.Resources, v.Resource)
	}
	return v, errors.Join(d.Mistakes(), err, s.registryAtMistake(v), v.registryMistakes(), v.mistakes())
}

// registryFrom sets the settings of authz registry serve from a file alone, because the command
// line and the environment are those of authz serve.
func registryFrom(app *kong.Application, d *settings.Document) (*registryServe, error) {
	for _, verbs := range app.Children {
		for _, verb := range verbs.Children {
			if v, ok := verb.Target.Addr().Interface().(*registryServe); ok {
				_, err := (&settings.Sources{File: d}).Fill(verb.Flags)
				return v, err
			}
		}
	}
	panic("authz registry serve is no verb")
}

// serversOf returns resources as own servers of the registry, without the registry itself.
func serversOf(resources []authz.Resource, itself string) (out []registry.OwnServer) {
	for _, r := range resources {
		if r.URI == itself {
			continue
		}
		out = append(out, registry.OwnServer{URL: r.URI, Title: r.Name, Scopes: ownScopes(r.Scopes)})
	}
	return out
}

// registryPrefix returns registry-at without a trailing slash.
func (s *serveSettings) registryPrefix() string { return strings.TrimRight(s.RegistryAt, "/") }

func (s *serveSettings) registryAtMistake(v *registryServe) error {
	switch at := s.registryPrefix(); {
	case !strings.HasPrefix(s.RegistryAt, "/"):
		return fmt.Errorf("registry-at %q is not a path: write / or a path like /registry", s.RegistryAt)
	case v.Resource != "" && pathOf(v.Resource) != at:
		return fmt.Errorf("registry-at %s is not the path of the resource %s of the registry: tokens would have another audience", s.RegistryAt, v.Resource)
	case v.Resource != "" && !slices.ContainsFunc(s.Resources, func(r authz.Resource) bool { return r.URI == v.Resource && hasScope(r, registryScope) }):
		return fmt.Errorf("the resource %s of the registry is not under resources with the scope %s: no client could get a token for it", v.Resource, registryScope)
	}
	return nil
}

func hasScope(r authz.Resource, name string) bool {
	return slices.ContainsFunc(r.Scopes, func(s authz.Scope) bool { return s.Name == name })
}

// catalogueURL returns the URL of the pages of the catalogue.
func (s *serveSettings) catalogueURL() string {
	u, err := url.Parse(s.Issuer)
	if err != nil {
		return ""
	}
	u.Path = s.registryPrefix() + "/"
	return u.String()
}

// carried is a registry that an authorization server carries.
type carried struct {
	mirror  *mirror.Mirror
	readers readers
}

// carried builds the registry over the store of the server, and adds the operator's own servers
// to the catalogue.
func (v *registryServe) carried(ctx context.Context, s *serveSettings, store *storage.Store, log *slog.Logger) (carried, error) {
	v.Issuer = []string{s.Issuer} // with --dev it is not known earlier
	v.pages = s.Pages.look
	v.pages.LogoPath = pathOf(s.Issuer) + "/pages/logo?v=" + v.pages.LogoTag() // the server has it there
	m, err := v.mirror(store, log, v.Interval, v.FullInterval, nil)
	if err != nil {
		return carried{}, err
	}
	readers, err := v.readers(store, log, s.registryPrefix())
	if err != nil {
		return carried{}, err
	}
	for _, path := range []string{pathOf(s.Issuer) + "/authorize", "/.well-known/oauth-authorization-server", "/healthz"} {
		if readers.answers(path) {
			return carried{}, fmt.Errorf("registry-at %s: it has paths of the authorization server below it: choose another path", s.RegistryAt)
		}
	}
	return carried{m, readers}, publish(ctx, m)
}

// over answers requests for the catalogue, and passes every other request to the server.
func (c carried) over(front http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.readers.answers(r.URL.EscapedPath()) {
			c.readers.ServeHTTP(w, r)
			return
		}
		front.ServeHTTP(w, r)
	})
}
